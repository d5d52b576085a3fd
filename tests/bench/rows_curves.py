"""Curves: does one request cost the same with many partitions, with many connections?"""

from __future__ import annotations

from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.bench import Bench
from tests.bench.model import CPU_FETCH, CPU_PRODUCE, NO_FSYNC, Figures, Work
from tests.bench.systems import System

PARTITIONS: Final = "partitions"
CONNECTIONS: Final = "connections"
FEW: Final = 4
"""Connections of the curve over partitions, partitions of the curve over connections."""
IN_FLIGHT: Final = 8
WARM_UP_SHARE: Final = 0.25
WARM_UP_APPENDS: Final = 8
"""Per partition, so that each has written to its indexes: the first entry after 4 kB is dear."""


def works(points: tuple[int, ...]) -> list[Work]:
    """A work per point; the title's number is the count of partitions or connections."""
    return [
        *(_point(PARTITIONS, count, partitions=count, connections=FEW) for count in points),
        *(_point(CONNECTIONS, count, partitions=FEW, connections=count) for count in points),
    ]


def _point(curve: str, point: int, *, partitions: int, connections: int) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        return await _cost_per_request(bench, system, curve, partitions, connections)

    return Work(
        name=f"curve-{curve}-{point}",
        title=f"Cost per request with {point:,} {curve}",
        measure=measure,
        left_out=NO_FSYNC,
        repeats=1,
        curve=curve,
        point=point,
    )


async def _cost_per_request(
    bench: Bench, system: System, curve: str, partitions: int, connections: int
) -> Figures:
    """Every partition and every connection gets its turn, so none is just looked up again."""
    count = max(bench.scale.curve_requests, partitions, connections)
    warm_up = max(int(count * WARM_UP_SHARE), partitions * WARM_UP_APPENDS, connections)
    batch = raw_frames.make_batch(1)
    async with system.topic(bench.new_name(f"curve-{curve}"), partitions) as topic:
        writes = [raw_frames.produce_frame(topic, {i: batch}) for i in range(partitions)]
        reads = [
            raw_frames.fetch_frame(topic, {i: 0}, partition_bytes_max=len(batch))
            for i in range(partitions)
        ]
        with system.connected(connections) as clients:
            raw_loops.produce(clients, topic, writes, warm_up, IN_FLIGHT)
            with system.cost() as producing:
                raw_loops.produce(clients, topic, writes, count, IN_FLIGHT)
            raw_loops.fetch_small(clients, reads, warm_up, IN_FLIGHT)
            with system.cost() as fetching:
                raw_loops.fetch_small(clients, reads, count, IN_FLIGHT)
    return {
        CPU_PRODUCE: producing.cpu_seconds / count * 1e6,
        CPU_FETCH: fetching.cpu_seconds / count * 1e6,
    }
