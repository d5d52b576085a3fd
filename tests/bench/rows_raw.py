"""Rows driven by the raw client, where a Java client would be what is measured."""

from __future__ import annotations

from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.bench import Bench
from tests.bench.filled import BATCH_BYTES, PARTITIONS, filled_topic
from tests.bench.model import (
    CPU_CORE,
    CPU_MS_PER_REQUEST,
    CPU_PER_GB,
    CPU_PER_REQUESTS,
    MB_PER_SECOND,
    NO_FSYNC,
    P50_MS,
    P99_MS,
    P999_MS,
    REQUESTS_PER_SECOND,
    Figures,
    Wanted,
    Work,
)
from tests.bench.raw_loops import percentile
from tests.bench.systems import System

CONNECTIONS: Final = 4
IN_FLIGHT: Final = 8
SINGLE_IN_FLIGHT: Final = (1, 8, 64)
"""Requests in flight over all connections, of the rows with one record per request."""
FETCH_CONNECTIONS: Final = 2
COMMIT_GROUPS: Final = 50
COMMITS_PER_SECOND: Final = 1_000
COMMITTED_PARTITIONS: Final = 4
LATENCY_WARM_UP: Final = 200
METADATA_WARM_UP_SHARE: Final = 0.5


def works() -> list[Work]:
    """The rows, in the order of the table."""
    raw = "Raw client, 1 kB records"
    return [
        _produce("raw-produce-256k", f"{raw}, 256 KiB batches", BATCH_BYTES, raw_frames.NONE, 0.6),
        _produce(
            "raw-produce-256k-lz4", f"{raw}, 256 KiB batches, lz4", BATCH_BYTES, raw_frames.LZ4, 0.6
        ),
        _produce("raw-produce-16k", f"{raw}, 16 KiB batches", 16_384, raw_frames.NONE, 0.6, 1.2),
        *(_single(raw, in_flight) for in_flight in SINGLE_IN_FLIGHT),
        _fetch("raw-fetch-1m", "Raw fetch, warm, 1 MiB per partition", 1 << 20),
        _fetch("raw-fetch-4m", "Raw fetch, warm, 4 MiB per partition", 4 << 20),
        Work(
            name="raw-latency",
            title="Raw end to end, 100 B records, a Fetch waits (CPU per record)",
            measure=_latency,
            wanted={P50_MS: [Wanted(0.8)], P99_MS: [Wanted(0.8)]},
        ),
        Work(
            name="commits",
            title=f"{COMMITS_PER_SECOND:,} OffsetCommits/s of {COMMIT_GROUPS} groups",
            measure=_commits,
            wanted={CPU_PER_REQUESTS: [Wanted(1.0)]},
        ),
        Work(
            name="raw-metadata",
            title="Metadata of all topics: one of 2,000 partitions",
            measure=_metadata,
            wanted={CPU_MS_PER_REQUEST: [Wanted(0.5, "absolute")]},
            left_out=NO_FSYNC,
        ),
    ]


def _produce(
    name: str, title: str, batch_bytes: int, codec: int, cpu_ratio_max: float, rate: float = 1.0
) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        records = raw_frames.records_that_fit(batch_bytes)
        batch = raw_frames.make_batch(records, codec=codec)
        record_bytes = records * raw_frames.RECORD_BYTES
        count = max(1, bench.scale.megabytes * 1_000_000 // record_bytes)
        async with system.topic(bench.new_name(name), PARTITIONS) as topic:
            frames = [raw_frames.produce_frame(topic, {i: batch}) for i in range(PARTITIONS)]
            with system.connected(CONNECTIONS) as connections, system.cost() as cost:
                raw_loops.produce(connections, topic, frames, count, IN_FLIGHT)
        return {
            CPU_PER_GB: cost.per_gb(count * record_bytes),
            MB_PER_SECOND: count * record_bytes / cost.seconds / 1e6,
        }

    wanted = {CPU_PER_GB: [Wanted(cpu_ratio_max)], MB_PER_SECOND: [Wanted(rate)]}
    return Work(name=name, title=title, measure=measure, wanted=wanted)


def _single(raw: str, in_flight: int) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        count = max(in_flight, bench.scale.single_requests * min(in_flight, IN_FLIGHT) // IN_FLIGHT)
        batch = raw_frames.make_batch(1)
        async with system.topic(bench.new_name("raw-single"), PARTITIONS) as topic:
            frames = [raw_frames.produce_frame(topic, {i: batch}) for i in range(PARTITIONS)]
            connected = system.connected(min(CONNECTIONS, in_flight))
            with connected as connections, system.cost() as cost:
                raw_loops.produce(connections, topic, frames, count, in_flight)
        return {
            CPU_PER_REQUESTS: cost.per_100k(count),
            REQUESTS_PER_SECOND: count / cost.seconds,
        }

    wanted = {
        CPU_PER_REQUESTS: [Wanted(0.4), Wanted(0.4, "fsync")],
        REQUESTS_PER_SECOND: [Wanted(1.0), Wanted(0.6, "share")],
    }
    return Work(
        name=f"raw-single-{in_flight}",
        title=f"{raw}, one per request, {in_flight} in flight",
        measure=measure,
        wanted=wanted if in_flight > 1 else {},
    )


def _fetch(name: str, title: str, partition_bytes_max: int) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        topic, records = await filled_topic(bench, system)
        batch_records = raw_frames.records_that_fit(BATCH_BYTES)
        batch_bytes = len(raw_frames.make_batch(batch_records))
        ends = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
        with system.connected(FETCH_CONNECTIONS) as connections, system.cost() as cost:
            byte_count = raw_loops.fetch(
                connections,
                topic,
                ends,
                batch_bytes,
                batch_records,
                partition_bytes_max,
                bench.scale.read_megabytes * 1_000_000,
            )
        return {
            CPU_PER_GB: cost.per_gb(byte_count),
            MB_PER_SECOND: byte_count / cost.seconds / 1e6,
        }

    wanted = {CPU_PER_GB: [Wanted(0.9)], MB_PER_SECOND: [Wanted(1.1)]}
    return Work(name=name, title=title, measure=measure, wanted=wanted, left_out=NO_FSYNC)


async def _latency(bench: Bench, system: System) -> Figures:
    records = bench.scale.latency_records
    async with system.topic(bench.new_name("raw-latency"), 1) as topic:
        with system.connected(2) as (producer, consumer), system.cost() as cost:
            latencies = raw_loops.end_to_end_ms(producer, consumer, topic, records)
    warm = latencies[min(LATENCY_WARM_UP, len(latencies) // 2) :]
    return {
        CPU_PER_REQUESTS: cost.per_100k(records),
        P50_MS: percentile(warm, 0.5),
        P99_MS: percentile(warm, 0.99),
        P999_MS: percentile(warm, 0.999),
    }


async def _commits(bench: Bench, system: System) -> Figures:
    seconds = bench.scale.commit_seconds
    topic, _ = await filled_topic(bench, system)
    run = bench.new_name("commits")
    offsets = dict.fromkeys(range(COMMITTED_PARTITIONS), 1_000)
    groups = [f"{run}-{number}" for number in range(COMMIT_GROUPS)]
    frames = [raw_frames.offset_commit_frame(group, topic, offsets) for group in groups]
    with system.connected(COMMIT_GROUPS) as connections:
        # The first commit of all makes __consumer_offsets.
        raw_loops.commit_until_taken(connections, groups, frames)
        with system.cost() as cost:
            count = raw_loops.commit_at_pace(connections, frames, COMMITS_PER_SECOND, seconds)
    return {
        CPU_PER_REQUESTS: cost.per_100k(count),
        CPU_CORE: cost.cpu_seconds / cost.seconds * 100,
        REQUESTS_PER_SECOND: count / cost.seconds,
    }


async def _metadata(bench: Bench, system: System) -> Figures:
    count = bench.scale.metadata_requests
    frame = raw_frames.all_topics_frame()
    async with system.topic(bench.new_name("metadata"), bench.scale.metadata_partitions):
        with system.connected() as (connection,):
            raw_frames.check_topics(connection.call(frame))
            # What a broker still does for the new topic is not the cost of a request.
            for _ in range(int(count * METADATA_WARM_UP_SHARE)):
                connection.call(frame)
            with system.cost() as cost:
                for _ in range(count):
                    connection.call(frame)
    return {
        CPU_MS_PER_REQUEST: cost.cpu_seconds / count * 1e3,
        REQUESTS_PER_SECOND: count / cost.seconds,
    }
