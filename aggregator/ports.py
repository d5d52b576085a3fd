"""The calls of the aggregator to a Kafka cluster, which `KafkaClient` implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from local_cluster.client.model import (
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    TopicPartition,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import READ_UNCOMMITTED


class ClusterReader(Protocol):
    """Reads of one cluster. Every method raises KafkaError if the cluster does not respond."""

    async def call(
        self,
        api: ApiKey,
        fields: Mapping[str, Any],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any: ...

    async def metadata(
        self, topics: Sequence[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata: ...

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]: ...

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

    async def close(self) -> None: ...
