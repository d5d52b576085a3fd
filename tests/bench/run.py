"""Runs works: each on one system after the other, repeated in turn, the systems all running.

Taking turns within one row means that what else the machine does hits all sides alike. The
systems that wait for their turn are idle; what idling costs is a row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.bench import Bench
from tests.bench.model import FIGURES, Sample, Side, Work
from tests.bench.rows_raw import CONNECTIONS, IN_FLIGHT
from tests.bench.systems import System

WARM_UP_PARTITIONS: Final = 4
WARM_UP_REQUESTS: Final = 2_000
"""Per round and kind; rounds go on until the time is over."""
WARM_UP_BATCHES: Final = (1, 15, 250)
"""Records per batch."""


async def warm_up(bench: Bench, system: System, say: Callable[[str], None]) -> int:
    """The same for every system, until its time is over; how many requests that were.

    Produces and fetches of three sizes in turn, so that a JVM has compiled both paths.
    """
    requests = 0
    left = bench.scale.warm_up_seconds
    while left > 0:
        async with system.topic(bench.new_name("warm-up"), WARM_UP_PARTITIONS) as topic:
            for records in WARM_UP_BATCHES:
                batch = raw_frames.make_batch(records)
                count = max(WARM_UP_PARTITIONS, WARM_UP_REQUESTS // records)
                writes = [
                    raw_frames.produce_frame(topic, {i: batch}) for i in range(WARM_UP_PARTITIONS)
                ]
                reads = [
                    raw_frames.fetch_frame(topic, {i: 0}, partition_bytes_max=len(batch))
                    for i in range(WARM_UP_PARTITIONS)
                ]
                with system.connected(CONNECTIONS) as connections, system.cost() as cost:
                    raw_loops.produce(connections, topic, writes, count, IN_FLIGHT)
                    raw_loops.fetch_small(connections, reads, count, IN_FLIGHT)
                requests += 2 * count
                left -= cost.seconds
    say(f"warm-up: {system.side} has answered {requests:,} requests")
    return requests


async def run_works(
    bench: Bench,
    systems: Sequence[System],
    works: Sequence[Work],
    say: Callable[[str], None],
    sides: Mapping[str, Collection[Side]] | None = None,
) -> list[Sample]:
    """Every work on every system it is for, as often as it wants.

    `sides` names the sides of each row, where not all of them are wanted.
    """
    samples: list[Sample] = []
    for number, work in enumerate(works, 1):
        for repeat in range(work.repeats or bench.scale.repeats):
            for system in systems:
                if system.side in work.left_out:
                    continue
                if sides is not None and system.side not in sides.get(work.name, ()):
                    continue
                try:
                    figures = await work.measure(bench, system)
                except Exception as error:  # noqa: BLE001 - the other rows of hours are kept
                    bench.note_failure(work.name, system.side, error)
                    say(f"{number}/{len(works)} {work.name} of {system.side}: {error!r}")
                    continue
                samples.append(Sample(work.name, system.side, figures))
                told = ", ".join(
                    f"{FIGURES[name].title} {value:.{FIGURES[name].digits}f}"
                    for name, value in figures.items()
                )
                say(f"{number}/{len(works)} {work.name} #{repeat + 1} {system.side}: {told}")
    return samples
