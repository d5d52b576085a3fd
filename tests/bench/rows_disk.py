"""Rows about the disk: fsync with many dirty partitions, and cold reads beside small produces."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.bench import Bench
from tests.bench.filled import PARTITIONS, fill
from tests.bench.model import (
    CPU_PER_GB,
    MAX_MS,
    MB_PER_SECOND,
    NO_FSYNC,
    P50_MS,
    P99_MS,
    P999_MS,
    READ_MB_PER_SECOND,
    Figures,
    Wanted,
    Work,
)
from tests.bench.raw_loops import percentile
from tests.bench.systems import System

DIRTY_PARTITIONS: Final = (1, 50, 500)
REQUEST_BYTES: Final = 1 << 20
"""Kafka's default max.request.size."""
PARTITIONS_PER_REQUEST_MAX: Final = 16
PRODUCERS: Final = 8
IN_FLIGHT_PER_PRODUCER: Final = 5
FSYNC_SHARE_MIN: Final = 0.8

PRODUCES_PER_SECOND: Final = 500
WARM_UP_SECONDS: Final = 1.0
ALONE_SECONDS: Final = 3.0
STEP_SECONDS: Final = 0.1


def works() -> list[Work]:
    """The rows, in the order of the table."""
    return [
        *(_dirty(partitions) for partitions in DIRTY_PARTITIONS),
        _small_produces("cold-none", "nobody reads", None),
        _small_produces("cold-warm", "a client reads warm data", False),
        _small_produces("cold-cold", "a client reads cold data", True),
    ]


def _dirty(partitions: int) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        per_request = min(partitions, PARTITIONS_PER_REQUEST_MAX)
        batch = raw_frames.make_batch(raw_frames.records_that_fit(REQUEST_BYTES // per_request))
        count = max(1, bench.scale.dirty_megabytes * 1_000_000 // (len(batch) * per_request))
        async with system.topic(bench.new_name(f"dirty-{partitions}"), partitions) as topic:
            frames = [
                raw_frames.produce_frame(
                    topic, {i % partitions: batch for i in range(first, first + per_request)}
                )
                for first in range(0, partitions, per_request)
            ]
            with system.connected(PRODUCERS) as connections, system.cost() as cost:
                raw_loops.produce_many(
                    connections, frames, count, PRODUCERS * IN_FLIGHT_PER_PRODUCER
                )
        byte_count = count * per_request * len(batch)
        return {
            CPU_PER_GB: cost.per_gb(byte_count),
            MB_PER_SECOND: byte_count / cost.seconds / 1e6,
        }

    return Work(
        name=f"dirty-{partitions}",
        title=f"{PRODUCERS} raw producers, 1 MiB requests over {partitions} partitions",
        measure=measure,
        wanted={MB_PER_SECOND: [Wanted(1.0), Wanted(FSYNC_SHARE_MIN, "share")]},
    )


def _small_produces(name: str, title: str, cold: bool | None) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        big = bench.new_name("cold")
        await system.create_topic(big, PARTITIONS)
        records = fill(system, big, bench.scale.cold_megabytes)
        await asyncio.to_thread(_write_out, system, big, drop=bool(cold))
        try:
            return await _produce_beside(bench, system, big, records, reads=cold is not None)
        finally:
            await system.delete_topic(big)

    return Work(
        name=name,
        title=f"{PRODUCES_PER_SECOND} small produces/s while {title}",
        measure=measure,
        left_out=NO_FSYNC,
        repeats=1,
    )


async def _produce_beside(
    bench: Bench, system: System, big: str, records: int, *, reads: bool
) -> Figures:
    """Small produces at a pace, in this process, while another one reads the big topic."""
    async with system.topic(bench.new_name("small"), 1) as topic:
        frame = raw_frames.produce_frame(topic, {0: raw_frames.make_batch(1)})
        with system.connected() as (connection,):
            raw_loops.produce_at_pace(connection, frame, PRODUCES_PER_SECOND, WARM_UP_SECONDS)
            if not reads:
                return _figures(
                    raw_loops.produce_at_pace(connection, frame, PRODUCES_PER_SECOND, ALONE_SECONDS)
                )
            reader = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.reader", str(system.port), big, str(records)],
                stdout=subprocess.PIPE,
            )
            with reader:
                assert reader.stdout is not None
                reader.stdout.readline()  # it says when it begins
                latencies: list[float] = []
                while not latencies or reader.poll() is None:
                    latencies += raw_loops.produce_at_pace(
                        connection, frame, PRODUCES_PER_SECOND, STEP_SECONDS
                    )
                megabytes_per_second = float(reader.stdout.readline())
    return {**_figures(latencies), READ_MB_PER_SECOND: megabytes_per_second}


def _figures(latencies: list[float]) -> dict[str, float]:
    return {
        P50_MS: percentile(latencies, 0.5),
        P99_MS: percentile(latencies, 0.99),
        P999_MS: percentile(latencies, 0.999),
        MAX_MS: max(latencies),
    }


def _write_out(system: System, topic: str, *, drop: bool) -> None:
    """Have the topic's files on the disk, and if asked no longer in memory."""
    for directory in system.log_directories:
        for path in directory.glob(f"{topic}-*/*.log"):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                if drop:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
