"""The nouns of the client: what a cluster looks like, and one result type per call."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.metadata import BrokerAddress, PartitionMetadata, TopicMetadata

__all__ = [
    "BrokerAddress",
    "ClusterMetadata",
    "ConfigChange",
    "ConfigEntry",
    "FetchLimits",
    "FetchPosition",
    "FetchedPartition",
    "ListedOffset",
    "NewTopic",
    "PartitionMetadata",
    "ProducedPartition",
    "SessionAnswer",
    "TopicConfigs",
    "TopicMetadata",
    "TopicPartition",
]


TopicConfigs = Mapping[str, tuple[str | None, bool]]
"""The configs of one topic: name -> (value, whether it is a default)."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ClusterMetadata(NamedTuple):
    """One Metadata response."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerAddress]
    topics: Mapping[str, TopicMetadata]
    topics_encoded: bytes = b""
    """The bytes of `topics`, see `ClusterCalls.metadata`."""


class ListedOffset(NamedTuple):
    """One ListOffsets result. Offset and timestamp are -1 if no record matches."""

    error: ErrorCode
    offset: int
    timestamp_ms: int
    leader_epoch: int


class FetchPosition(NamedTuple):
    """Where to fetch from."""

    offset: int
    leader_epoch: int = -1
    """-1: no fencing."""
    last_fetched_epoch: int = -1
    """The leader epoch of the record before `offset`, to detect a truncation (KIP-595, from Fetch
    v12 on). -1: no detection."""
    topic_id: uuid.UUID | None = None
    """In fetch sessions: fetch only this very topic (KIP-516)."""


class FetchLimits(NamedTuple):
    """How long a Fetch waits, how much it returns, and what it may read."""

    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int = 1_048_576
    isolation_level: int = 0
    """0: read_uncommitted, 1: read_committed."""


class FetchedPartition(NamedTuple):
    """One partition of a Fetch response."""

    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[tuple[int, int], ...]
    """(producer id, first offset) of aborted transactions, with isolation level 1."""
    records: memoryview
    """Whole batches, the last one perhaps incomplete."""
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, its end offset) at the leader, if its log diverges from the position."""


class SessionAnswer(NamedTuple):
    """One Fetch response. In a session it has the partitions that have changed."""

    session_id: int
    throttle_ms: int
    """Above 0 if the client exceeds its quota. Changed partitions may then be missing."""
    partitions: dict[TopicPartition, FetchedPartition]
    is_by_id: bool = False
    """Whether the request named topics by id, so that all of it is of these very topics."""


class ProducedPartition(NamedTuple):
    """One partition of a Produce response."""

    error: ErrorCode
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. -1 stands for the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] | None = None
    """Broker ids by partition, instead of the two numbers."""


class ConfigEntry(NamedTuple):
    """One config of a resource, as a broker describes it."""

    name: str
    value: str | None
    """None if it has no value, or if it is sensitive."""
    source: int
    """A number of ConfigSource; -1 if the broker does not report it."""
    is_sensitive: bool
    is_read_only: bool
    documentation: str | None


class ConfigChange(NamedTuple):
    """One change of a config. `value` is None for DELETE."""

    name: str
    operation: AlterOperation
    value: str | None = None
