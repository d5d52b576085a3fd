"""Curves: does a request cost the same with many partitions, many connections, many groups?"""

from __future__ import annotations

from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.bench import Bench
from tests.bench.model import (
    CPU_COMMIT,
    CPU_FETCH,
    CPU_PRODUCE,
    NO_FSYNC,
    Figures,
    Measure,
    Scale,
    Work,
)
from tests.bench.systems import System

PARTITIONS: Final = "partitions"
CONNECTIONS: Final = "connections"
GROUPS: Final = "groups"
FEW: Final = 4
"""Connections of the other curves, partitions of the curves over connections and groups."""
IN_FLIGHT: Final = 8
WARM_UP_SHARE: Final = 0.25
WARM_UP_APPENDS: Final = 8
"""Per partition, so that each has written to its indexes: the first entry after 4 kB is dear."""


def works(scale: Scale) -> list[Work]:
    """A work per point; the title's number is the count of partitions, connections or groups."""
    return [
        *(_requests(PARTITIONS, count, count, FEW) for count in scale.partition_points),
        *(_requests(CONNECTIONS, count, FEW, count) for count in scale.connection_points),
        *(_commits(count) for count in scale.group_points),
    ]


def _requests(curve: str, point: int, partitions: int, connections: int) -> Work:
    """Produces and fetches: every partition and every connection gets its turn, so none is just
    looked up again."""

    async def measure(bench: Bench, system: System) -> Figures:
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

    return _point(curve, point, measure)


def _commits(groups: int) -> Work:
    """Commits of offsets; every group commits before anything is counted, and is known then."""

    async def measure(bench: Bench, system: System) -> Figures:
        count = max(bench.scale.curve_requests, groups)
        async with system.topic(bench.new_name(f"curve-{GROUPS}"), FEW) as topic:
            run = bench.new_name("curve")
            names = [f"{run}-{number}" for number in range(groups)]
            offsets = dict.fromkeys(range(FEW), 1_000)
            frames = [raw_frames.offset_commit_frame(name, topic, offsets) for name in names]
            with system.connected(FEW) as clients:
                raw_loops.commit_until_taken(clients, names, frames)
                raw_loops.commit(clients, frames, int(count * WARM_UP_SHARE), IN_FLIGHT)
                with system.cost() as committing:
                    raw_loops.commit(clients, frames, count, IN_FLIGHT)
        return {CPU_COMMIT: committing.cpu_seconds / count * 1e6}

    return _point(GROUPS, groups, measure)


def _point(curve: str, point: int, measure: Measure) -> Work:
    return Work(
        name=f"curve-{curve}-{point}",
        title=f"Cost per request with {point:,} {curve}",
        measure=measure,
        left_out=NO_FSYNC,
        repeats=1,
        curve=curve,
        point=point,
    )
