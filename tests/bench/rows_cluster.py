"""Rows about three brokers: replicated produces, and a leader that dies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import PartitionMetadata
from local_cluster.wire.errors import KafkaError
from tests.bench import java_tools
from tests.bench.bench import Bench
from tests.bench.failover import LongestGap
from tests.bench.model import (
    CPU_CORE,
    CPU_PER_GB,
    GAP_MS,
    MAX_MS,
    MB_PER_SECOND,
    MEAN_MS,
    MEMORY_ALL_MB,
    P50_MS,
    P99_MS,
    P999_MS,
    Figures,
    Wanted,
    Work,
)
from tests.bench.raw_frames import RECORD_BYTES
from tests.bench.rows_java import IDEMPOTENT, PLAIN
from tests.bench.systems import System

BROKERS: Final = 3
PARTITIONS: Final = 6
CPU_RATIO_MAX: Final = 0.8
MEMORY_RATIO_MAX: Final = 0.4
PACED_RECORDS_PER_SECOND: Final = 1_000
BEFORE_KILL_SECONDS: Final = 2.0
GAP_SECONDS_MAX: Final = 60.0
IN_SYNC_SECONDS_MAX: Final = 120.0

CLUSTER_CONFIG: Final[Mapping[str, str]] = {
    "min.insync.replicas": "2",
    "default.replication.factor": str(BROKERS),
    "offsets.topic.replication.factor": str(BROKERS),
    "transaction.state.log.replication.factor": str(BROKERS),
    "transaction.state.log.min.isr": "2",
}


def works() -> list[Work]:
    """The rows, in the order of the table."""
    produce = "ProducerPerformance, 1 kB records"
    return [
        Work(
            name="cluster-idle",
            title="Three brokers idle, no topics",
            measure=_idle,
            wanted={MEMORY_ALL_MB: [Wanted(MEMORY_RATIO_MAX)]},
            repeats=1,
        ),
        _produce(
            "cluster-produce-256k",
            f"{produce}, 256 KiB batches",
            {**PLAIN, "batch.size": "262144", "linger.ms": "5"},
        ),
        _produce(
            "cluster-produce-16k",
            f"{produce}, 16 KiB batches",
            {**PLAIN, "batch.size": "16384", "linger.ms": "5"},
        ),
        _produce("cluster-produce-idempotent", f"{produce}, the producer's defaults", IDEMPOTENT),
        Work(
            name="cluster-latency",
            title=f"{produce}, {PACED_RECORDS_PER_SECOND:,}/s, one at a time",
            measure=_latency,
            wanted={CPU_PER_GB: [Wanted(CPU_RATIO_MAX)], P99_MS: [Wanted(1.0)]},
        ),
        Work(
            name="failover",
            title="A leader is killed (-9) under a producer: its longest wait between two answers",
            measure=_failover,
            wanted={GAP_MS: [Wanted(1.0)]},
        ),
    ]


async def _idle(bench: Bench, system: System) -> Figures:
    await asyncio.sleep(bench.scale.idle_seconds)
    with system.cost() as cost:
        await asyncio.sleep(bench.scale.idle_seconds)
    return {
        MEMORY_ALL_MB: system.memory_mb(with_helpers=True),
        CPU_CORE: cost.cpu_seconds / cost.seconds * 100,
    }


def _produce(name: str, title: str, properties: Mapping[str, str]) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        records = bench.scale.megabytes * 1_000_000 // RECORD_BYTES
        async with system.topic(bench.new_name(name), PARTITIONS) as topic:
            with system.cost() as cost:
                done = await java_tools.producer_performance(
                    system.bootstrap, topic, records, bench.payload, properties
                )
        return {
            CPU_PER_GB: cost.per_gb(records * RECORD_BYTES),
            MB_PER_SECOND: done.records_per_second * RECORD_BYTES / 1e6,
            P50_MS: done.p50_ms,
            P99_MS: done.p99_ms,
        }

    wanted = {
        CPU_PER_GB: [Wanted(CPU_RATIO_MAX)],
        MB_PER_SECOND: [Wanted(1.0)],
        P99_MS: [Wanted(1.0)],
    }
    return Work(name=name, title=title, measure=measure, wanted=wanted)


async def _latency(bench: Bench, system: System) -> Figures:
    records = bench.scale.latency_records
    properties = {**PLAIN, "linger.ms": "0"}
    async with system.topic(bench.new_name("cluster-latency"), PARTITIONS) as topic:
        with system.cost() as cost:
            done = await java_tools.producer_performance(
                system.bootstrap,
                topic,
                records,
                bench.payload,
                properties,
                records_per_second=PACED_RECORDS_PER_SECOND,
            )
    return {
        CPU_PER_GB: cost.per_gb(records * RECORD_BYTES),
        MEAN_MS: done.mean_ms,
        P50_MS: done.p50_ms,
        P99_MS: done.p99_ms,
        P999_MS: done.p999_ms,
        MAX_MS: done.max_ms,
    }


async def _failover(bench: Bench, system: System) -> Figures:
    async with system.topic(bench.new_name("failover"), 1) as topic:
        producer = LongestGap(system.bootstrap, topic)
        producing = asyncio.create_task(asyncio.to_thread(producer.run))
        try:
            await asyncio.sleep(BEFORE_KILL_SECONDS)
            leader = (await _partition(system, topic)).leader
            await system.brokers[leader - 1].kill()
            async with asyncio.timeout(GAP_SECONDS_MAX):
                await asyncio.to_thread(producer.wait_until_answered_again)
        finally:
            producer.stop()
            await producing
        await system.brokers[leader - 1].start()
        await _until_in_sync(system, topic)
    return {GAP_MS: producer.longest_gap_ms}


async def _partition(system: System, topic: str) -> PartitionMetadata:
    async with KafkaClient(system.bootstrap, client_id="bench") as client:
        return (await client.metadata([topic])).topics[topic].partitions[0]


async def _until_in_sync(system: System, topic: str) -> None:
    async with asyncio.timeout(IN_SYNC_SECONDS_MAX):
        while True:
            try:
                partition = await _partition(system, topic)
            except KafkaError:
                continue
            if len(partition.isr) == BROKERS:
                return
            await asyncio.sleep(0.2)
