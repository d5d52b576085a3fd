"""The ports of the mirror: clusters, the worker's lease, the clock.

`MirrorClient` implements both `DataSource` and `DataSink`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import (
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    NewTopic,
    ProducedPartition,
    SessionAnswer,
    TopicConfigs,
    TopicPartition,
)
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.wire.constants import READ_UNCOMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.model import DescribedProducer


class LogReader(Protocol):
    """A cluster whose logs are read. Every method raises KafkaError."""

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        """Describe topics. `topics` of the response is the object of `last` if nothing changed."""
        ...

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, UUID]:
        """Return the ids of the topics that exist, as this broker sees them."""
        ...

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]: ...

    async def list_offsets_of(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        """List offsets of partitions that this broker leads, in one request."""
        ...

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FetchedPartition]: ...

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs]: ...

    async def ask_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs | KafkaError]:
        """Return per topic its configs, or the error."""
        ...


class DataSource(LogReader, Protocol):
    """A cluster to copy from."""

    async def fetch_in_session(
        self,
        node_id: int,
        session: FetchSession,
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> SessionAnswer:
        """Fetch what is new in all partitions of the session."""
        ...

    async def close_fetch_session(self, node_id: int, session: FetchSession) -> None:
        """Close the session on the broker."""
        ...


class DataSink(LogReader, Protocol):
    """A cluster to write to, and to read back what was written."""

    async def produce(
        self,
        node_id: int,
        batches: ProduceBatches,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        """Produce batches; return the response for each of them."""
        ...

    async def init_producer_id(self) -> tuple[int, int]: ...

    async def announce_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Name a producer id that is kept, so that brokers of ours refuse it to others."""
        ...

    async def describe_producer(
        self, node_id: int, at: TopicPartition, producer_id: int
    ) -> DescribedProducer | None:
        """Return what a partition that this broker leads knows of a producer."""
        ...

    async def delete_records(self, node_id: int, at: TopicPartition, before_offset: int) -> None:
        """Delete every record below an offset of a partition that this broker leads."""
        ...

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]: ...

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]: ...


class Lease(Protocol):
    """Whether this worker still owns its partitions."""

    def is_valid(self) -> bool: ...


def check_lease(lease: Lease) -> None:
    """Raise KafkaError if the lease has run out.

    Called before a worker reports what the source has or has lost: another worker may have copied
    it meanwhile.
    """
    if not lease.is_valid():
        raise KafkaError(ErrorCode.rebalance_in_progress, "the lease has run out")


class Clock(Protocol):
    """Time, and sleeping."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch; it may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back."""
        ...

    async def sleep(self, duration_ms: int) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)
