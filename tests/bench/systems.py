"""The systems of a bench: brokers that run, what they have cost so far, and what clients need.

Both write to the page cache and leave the disk to the kernel, which is Kafka's default; ours runs
once more with group commit. Kafka has the JVM options of its own start script.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.errors import KafkaError
from tests.bench import raw_frames
from tests.bench.model import Side
from tests.bench.processes import cpu_seconds, memory_bytes
from tests.bench.raw_client import RawConnection, connected
from tests.support.cluster import BrokerProcess
from tests.support.kafka_from_maven import KafkaProcess

READY_SECONDS_MAX: Final = 90.0
READY_POLL_SECONDS: Final = 0.005

SETTINGS: Final[Mapping[str, str]] = {
    # Deleted topics leave the disk within seconds, so that a long run does not fill it.
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "10000",
    "offsets.topic.num.partitions": "50",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
"""What both are given. All else is each one's default."""

KAFKA_JAVA_OPTIONS: Final = (
    # KAFKA_HEAP_OPTS of kafka-server-start.sh, KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh.
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

PARTITIONS_PER_REQUEST_MAX: Final = 5_000
"""Kafka refuses a request that creates 10,000."""


@dataclass
class Cost:
    """What a block of work took; filled when the block ends."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def per_gb(self, byte_count: int) -> float:
        return self.cpu_seconds / byte_count * 1e9

    def per_100k(self, requests: int) -> float:
        return self.cpu_seconds / requests * 1e5


@dataclass
class System:
    """One cluster that runs: one broker, or several."""

    side: Side
    ports: Sequence[int]
    brokers: Sequence[BrokerProcess | KafkaProcess]
    """By broker id, from 1; what their processes start counts too."""
    helper_pids: Sequence[int]
    """Ours has ZooKeeper; Kafka's controller is inside of its broker."""
    log_directories: Sequence[Path]
    replicas: int = 1
    tls_bootstrap: str = ""
    """A listener with TLS, if there is one."""
    filled: dict[str, int] = field(default_factory=dict)
    """Topics that rows left to be read by other rows: how many records each has."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def pids(self) -> list[int]:
        running = (each.process for each in self.brokers)
        return [process.pid for process in running if process is not None]

    @contextmanager
    def cost(self) -> Iterator[Cost]:
        """Measure the block: wall seconds, and CPU seconds of brokers and helpers."""
        cost = Cost()
        pids = (*self.pids, *self.helper_pids)
        before, start = cpu_seconds(pids), time.perf_counter()
        yield cost
        cost.seconds = time.perf_counter() - start
        cost.cpu_seconds = cpu_seconds(pids) - before

    def memory_mb(self, *, with_helpers: bool) -> float:
        pids = (*self.pids, *self.helper_pids) if with_helpers else self.pids
        return memory_bytes(pids) / 1e6

    @contextmanager
    def connected(self, count: int = 1) -> Iterator[list[RawConnection]]:
        """Raw connections to the first broker."""
        with connected("127.0.0.1", self.port, count) as connections:
            yield connections

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until each leader serves."""
        new = NewTopic(
            name=name,
            partitions=min(partitions, PARTITIONS_PER_REQUEST_MAX),
            replication_factor=self.replicas,
            configs=dict(configs or {}),
        )
        step = PARTITIONS_PER_REQUEST_MAX
        async with KafkaClient(self.bootstrap, client_id="bench") as client:
            errors = await client.create_topics([new], timeout_ms=120_000)
            for count in range(2 * step, partitions + step, step):
                more = {name: min(count, partitions)}
                if errors[name] is None:
                    errors = await client.create_partitions(more, timeout_ms=120_000)
            if (error := errors[name]) is not None:
                raise error
            wanted = {TopicPartition(name, index): -1 for index in range(partitions)}
            async with asyncio.timeout(READY_SECONDS_MAX):
                while True:
                    with contextlib.suppress(KafkaError):
                        listed = await client.list_offsets(wanted)
                        if not any(entry.error for entry in listed.values()):
                            return
                    await asyncio.sleep(0.05)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; the broker removes its files soon, most of them never written out."""
        async with KafkaClient(self.bootstrap, client_id="bench") as client:
            error = (await client.delete_topics([name]))[name]
            if error is not None:
                raise error

    @asynccontextmanager
    async def topic(self, name: str, partitions: int) -> AsyncIterator[str]:
        """A topic for one row, deleted after it."""
        await self.create_topic(name, partitions)
        try:
            yield name
        finally:
            await self.delete_topic(name)


async def seconds_until_ready(port: int, started_at: float) -> float:
    """Seconds from `started_at` (of time.perf_counter) to the first good answers.

    Ready is who answers ApiVersions, and Metadata with a broker in it.
    """
    async with asyncio.timeout(READY_SECONDS_MAX):
        while True:
            if await asyncio.to_thread(_answers, port):
                return time.perf_counter() - started_at
            await asyncio.sleep(READY_POLL_SECONDS)


def _answers(port: int) -> bool:
    try:
        connection = RawConnection("127.0.0.1", port, timeout_seconds=2.0)
    except OSError:
        return False
    try:
        connection.call(raw_frames.api_versions_frame())
        return raw_frames.brokers_named(connection.call(raw_frames.metadata_frame())) > 0
    except OSError:
        return False
    finally:
        connection.close()
