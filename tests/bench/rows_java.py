"""Rows driven by Kafka's own Java tools. One JVM is one client, and often the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.bench import java_tools
from tests.bench.bench import Bench
from tests.bench.filled import PARTITIONS, filled_topic
from tests.bench.model import (
    CPU_PER_GB,
    CPU_PER_REQUESTS,
    MAX_MS,
    MB_PER_SECOND,
    MEAN_MS,
    NO_FSYNC,
    P50_MS,
    P99_MS,
    P999_MS,
    REQUESTS_PER_SECOND,
    Figures,
    Wanted,
    Work,
)
from tests.bench.raw_frames import RECORD_BYTES
from tests.bench.systems import System

PLAIN: Final = {"acks": "all", "enable.idempotence": "false"}
IDEMPOTENT: Final = {"acks": "all", "enable.idempotence": "true"}
IDEMPOTENT_PARTITIONS: Final = 8

FASTER: Final = {MB_PER_SECOND: [Wanted(1.0)]}


def works() -> list[Work]:
    """The rows, in the order of the table."""
    big = {**PLAIN, "batch.size": "262144", "linger.ms": "5"}
    produce = "ProducerPerformance, 1 kB records"
    return [
        _produce("java-produce-256k", f"{produce}, 256 KiB batches", big, 0.6),
        _produce(
            "java-produce-256k-lz4",
            f"{produce}, 256 KiB batches, lz4",
            {**big, "compression.type": "lz4"},
            0.6,
        ),
        _produce(
            "java-produce-16k",
            f"{produce}, 16 KiB batches",
            {**PLAIN, "batch.size": "16384", "linger.ms": "5"},
            0.6,
            rate=1.2,
        ),
        _produce(
            "java-produce-idempotent",
            f"{produce}, idempotent, {IDEMPOTENT_PARTITIONS} partitions, the producer's defaults",
            IDEMPOTENT,
            0.55,
            partitions=IDEMPOTENT_PARTITIONS,
        ),
        Work(
            name="java-single",
            title="ProducerPerformance, one 1 kB record per request",
            measure=_single,
            wanted={CPU_PER_REQUESTS: [Wanted(0.4)], REQUESTS_PER_SECOND: [Wanted(1.0)]},
        ),
        Work(
            name="java-consume",
            title="ConsumerPerformance, warm, 1 kB records, 256 KiB batches",
            measure=_consume,
            wanted={CPU_PER_GB: [Wanted(1.0)], **FASTER},
            left_out=NO_FSYNC,
        ),
        Work(
            name="java-latency",
            title="EndToEndLatency, 100 B records (CPU per record)",
            measure=_latency,
            wanted={key: [Wanted(1.0)] for key in (MEAN_MS, P50_MS, P99_MS)},
        ),
    ]


def _produce(
    name: str,
    title: str,
    properties: Mapping[str, str],
    cpu_ratio_max: float,
    partitions: int = PARTITIONS,
    rate: float = 1.0,
) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        records = bench.scale.megabytes * 1_000_000 // RECORD_BYTES
        async with system.topic(bench.new_name(name), partitions) as topic:
            with system.cost() as cost:
                done = await java_tools.producer_performance(
                    system.bootstrap, topic, records, bench.payload, properties
                )
        return {
            CPU_PER_GB: cost.per_gb(records * RECORD_BYTES),
            MB_PER_SECOND: done.records_per_second * RECORD_BYTES / 1e6,
            P50_MS: done.p50_ms,
            P99_MS: done.p99_ms,
            P999_MS: done.p999_ms,
            MAX_MS: done.max_ms,
        }

    wanted = {CPU_PER_GB: [Wanted(cpu_ratio_max)], MB_PER_SECOND: [Wanted(rate)]}
    return Work(name=name, title=title, measure=measure, wanted=wanted)


async def _single(bench: Bench, system: System) -> Figures:
    records = bench.scale.single_requests
    # batch.size=0 closes a batch after its first record; with one partition a request has one.
    properties = {**PLAIN, "batch.size": "0", "linger.ms": "0"}
    async with system.topic(bench.new_name("java-single"), 1) as topic:
        with system.cost() as cost:
            done = await java_tools.producer_performance(
                system.bootstrap, topic, records, bench.payload, properties
            )
    return {
        CPU_PER_REQUESTS: cost.per_100k(records),
        REQUESTS_PER_SECOND: done.records_per_second,
        P50_MS: done.p50_ms,
        P99_MS: done.p99_ms,
        P999_MS: done.p999_ms,
        MAX_MS: done.max_ms,
    }


async def _consume(bench: Bench, system: System) -> Figures:
    topic, records = await filled_topic(bench, system)
    with system.cost() as cost:
        megabytes_per_second = await java_tools.consumer_performance(
            system.bootstrap, topic, records, bench.new_name("java-consume")
        )
    return {CPU_PER_GB: cost.per_gb(records * RECORD_BYTES), MB_PER_SECOND: megabytes_per_second}


async def _latency(bench: Bench, system: System) -> Figures:
    async with system.topic(bench.new_name("java-latency"), 1) as topic:
        records = bench.scale.latency_records
        with system.cost() as cost:
            done = await java_tools.end_to_end_latency(system.bootstrap, topic, records)
    return {
        CPU_PER_REQUESTS: cost.per_100k(records),
        MEAN_MS: done.mean_ms,
        P50_MS: done.p50_ms,
        P99_MS: done.p99_ms,
        P999_MS: done.p999_ms,
    }
