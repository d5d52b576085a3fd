"""What the mirror needs from the outside.

A `MirrorClient` is both a source and a sink.
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
from local_cluster.wire.errors import KafkaError
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
        """`topics` of the answer is the same object as in `last` where the same is said of them."""
        ...

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, UUID]:
        """Ids of the topics that exist, in the view of this broker."""
        ...

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]: ...

    async def list_offsets_of(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        """Of partitions that this broker leads, in one request."""
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
        """Per topic its configs, or why they are not told."""
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
        """What is new in everything that the session wants."""
        ...

    async def close_fetch_session(self, node_id: int, session: FetchSession) -> None:
        """Tell the broker that the session is over."""
        ...


class DataSink(LogReader, Protocol):
    """A cluster to write to; it is read as well, to see what was written."""

    async def produce(
        self,
        node_id: int,
        batches: ProduceBatches,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        """The answer to every batch."""
        ...

    async def init_producer_id(self) -> tuple[int, int]: ...

    async def describe_producer(
        self, node_id: int, at: TopicPartition, producer_id: int
    ) -> DescribedProducer | None:
        """What the log of a partition that this broker leads knows of a producer."""
        ...

    async def delete_records(self, node_id: int, at: TopicPartition, before_offset: int) -> None:
        """Delete what lies below an offset in a partition that this broker leads."""
        ...

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]: ...

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]: ...


class Lease(Protocol):
    """Whether this worker may still believe that its partitions are its own."""

    def is_valid(self) -> bool: ...


class Clock(Protocol):
    """Where the shells read the time and wait."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
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
