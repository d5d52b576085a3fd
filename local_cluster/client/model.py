"""The nouns of the client: what a cluster looks like, and one result type per call."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.metadata import BrokerAddress, PartitionMetadata, TopicMetadata

__all__ = [
    "BrokerAddress",
    "ClusterMetadata",
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
"""Of one topic: name -> (value, is it a default)."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ClusterMetadata(NamedTuple):
    """One answer to Metadata."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerAddress]
    topics: Mapping[str, TopicMetadata]
    topics_encoded: bytes = b""
    """What `topics` was decoded from, for the next look; see `ClusterCalls.metadata`."""


class ListedOffset(NamedTuple):
    """An answer of ListOffsets; offset and timestamp are -1 where nothing matches."""

    error: ErrorCode
    offset: int
    timestamp_ms: int
    leader_epoch: int


class FetchPosition(NamedTuple):
    """Where to fetch from; leader epoch -1 asks for no fencing, last fetched epoch -1 for no look
    whether the log still has what was fetched before (KIP-595, from Fetch v12 on). A topic id asks
    for that topic alone (KIP-516, in fetch sessions)."""

    offset: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    topic_id: uuid.UUID | None = None


class FetchedPartition(NamedTuple):
    """One partition of a Fetch answer; `records` may end in a partial batch."""

    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[tuple[int, int], ...]
    """(producer id, first offset) of aborted transactions, with isolation level 1."""
    records: memoryview
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, its end offset) where the log no longer has what the position says was fetched."""


class SessionAnswer(NamedTuple):
    """One Fetch answer in a session: the partitions with news."""

    session_id: int
    throttle_ms: int
    """Above 0 where the client is over its quota; then the answer may leave news out."""
    partitions: dict[TopicPartition, FetchedPartition]
    is_by_id: bool = False
    """Whether all of it is of the very topics whose ids were asked for."""


class ProducedPartition(NamedTuple):
    """One partition of a Produce answer."""

    error: ErrorCode
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] | None = None
