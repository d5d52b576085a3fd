"""Produce and fetch over TLS, by Kafka's own Java tools."""

from __future__ import annotations

from typing import Final

from tests.bench import java_tools
from tests.bench.bench import Bench
from tests.bench.filled import PARTITIONS, filled_topic
from tests.bench.model import CPU_PER_GB, MB_PER_SECOND, NO_FSYNC, Figures, Wanted, Work
from tests.bench.raw_frames import RECORD_BYTES
from tests.bench.systems import System

PRODUCER: Final = {"acks": "all", "enable.idempotence": "false", "linger.ms": "5"}
_WANTED: Final = {CPU_PER_GB: [Wanted(0.8)], MB_PER_SECOND: [Wanted(1.0)]}


def works() -> list[Work]:
    """The rows, in the order of the table."""
    return [
        _produce("tls-produce-256k", "256 KiB batches", 262_144),
        _produce("tls-produce-16k", "16 KiB batches", 16_384),
        Work(
            name="tls-consume",
            title="TLS, ConsumerPerformance, warm, 1 kB records, 256 KiB batches",
            measure=_consume,
            wanted=_WANTED,
            left_out=NO_FSYNC,
        ),
    ]


def _produce(name: str, batches: str, batch_bytes: int) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        records = bench.scale.megabytes * 1_000_000 // RECORD_BYTES
        properties = {**PRODUCER, "batch.size": str(batch_bytes), **bench.tls_client_config}
        async with system.topic(bench.new_name(name), PARTITIONS) as topic:
            with system.cost() as cost:
                done = await java_tools.producer_performance(
                    system.tls_bootstrap, topic, records, bench.payload, properties
                )
        return {
            CPU_PER_GB: cost.per_gb(records * RECORD_BYTES),
            MB_PER_SECOND: done.records_per_second * RECORD_BYTES / 1e6,
        }

    title = f"TLS, ProducerPerformance, 1 kB records, {batches}"
    return Work(name=name, title=title, measure=measure, wanted=_WANTED, left_out=NO_FSYNC)


async def _consume(bench: Bench, system: System) -> Figures:
    topic, records = await filled_topic(bench, system)
    with system.cost() as cost:
        megabytes_per_second = await java_tools.consumer_performance(
            system.tls_bootstrap,
            topic,
            records,
            bench.new_name("tls-consume"),
            bench.tls_client_config,
        )
    return {CPU_PER_GB: cost.per_gb(records * RECORD_BYTES), MB_PER_SECOND: megabytes_per_second}
