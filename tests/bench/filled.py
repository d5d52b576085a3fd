"""The topic that reading rows share: filled once per system, kept until the run ends."""

from __future__ import annotations

from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.bench import Bench
from tests.bench.systems import System

FILLED: Final = "bench-filled"
PARTITIONS: Final = 4
BATCH_BYTES: Final = 262_144
IN_FLIGHT: Final = 8


async def filled_topic(bench: Bench, system: System) -> tuple[str, int]:
    """Its name, and its records; every partition has as many, in batches that are all alike."""
    if FILLED not in system.filled:
        await system.create_topic(FILLED, PARTITIONS)
        system.filled[FILLED] = fill(system, FILLED, bench.scale.filled_megabytes)
    return FILLED, system.filled[FILLED]


def fill(system: System, topic: str, megabytes: int) -> int:
    """Produce so much, evenly over the partitions; how many records that is."""
    records = raw_frames.records_that_fit(BATCH_BYTES)
    batch = raw_frames.make_batch(records)
    frames = [raw_frames.produce_frame(topic, {i: batch}) for i in range(PARTITIONS)]
    rounds = max(1, megabytes * 1_000_000 // len(batch) // PARTITIONS)
    with system.connected() as connections:
        raw_loops.produce(connections, topic, frames, rounds * PARTITIONS, IN_FLIGHT)
    return rounds * PARTITIONS * records
