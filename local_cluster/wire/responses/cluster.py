"""Responses of the handlers in `handlers/cluster`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class MetadataResponseBroker(TypedDict):
    node_id: int
    host: str
    port: int
    rack: NotRequired[str | None]


class MetadataResponsePartition(TypedDict):
    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: NotRequired[int]
    replica_nodes: NotRequired[Sequence[int]]
    isr_nodes: NotRequired[Sequence[int]]
    offline_replicas: NotRequired[Sequence[int]]


class MetadataResponseTopic(TypedDict):
    error_code: ErrorCode
    name: str | None
    topic_id: NotRequired[uuid.UUID | None]
    is_internal: NotRequired[bool]
    partitions: Sequence[MetadataResponsePartition]
    topic_authorized_operations: NotRequired[int]


class MetadataResponse(TypedDict):
    """Metadata v0-v13."""

    throttle_time: NotRequired[int]
    brokers: Sequence[MetadataResponseBroker]
    cluster_id: NotRequired[str | None]
    controller_id: NotRequired[int]
    topics: Sequence[MetadataResponseTopic]
    error_code: NotRequired[ErrorCode]
    cluster_authorized_operations: NotRequired[int]


class ApiVersion(TypedDict):
    api_key: int
    min_version: int
    max_version: int


class SupportedFeatureKey(TypedDict):
    name: str
    min_version: int
    max_version: int


class FinalizedFeatureKey(TypedDict):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsResponse(TypedDict):
    """ApiVersions v0-v5."""

    error_code: ErrorCode
    api_keys: Sequence[ApiVersion]
    throttle_time: NotRequired[int]
    supported_features: NotRequired[Sequence[SupportedFeatureKey]]
    finalized_features_epoch: NotRequired[int]
    finalized_features: NotRequired[Sequence[FinalizedFeatureKey]]
    zk_migration_ready: NotRequired[bool]


class PartitionData(TypedDict):
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    isr: NotRequired[Sequence[int]]
    leader_recovery_state: NotRequired[int]
    partition_epoch: int


class TopicData(TypedDict):
    topic_id: uuid.UUID | None
    partitions: Sequence[PartitionData]


class AlterPartitionResponse(TypedDict):
    """AlterPartition v3."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    topics: Sequence[TopicData]


class DescribeClusterBroker(TypedDict):
    broker_id: int
    host: str
    port: int
    rack: NotRequired[str | None]
    is_fenced: NotRequired[bool]


class DescribeClusterResponse(TypedDict):
    """DescribeCluster v0-v2."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    error_message: NotRequired[str | None]
    endpoint_type: NotRequired[int]
    cluster_id: str
    controller_id: NotRequired[int]
    brokers: Sequence[DescribeClusterBroker]
    cluster_authorized_operations: NotRequired[int]


class GetTelemetrySubscriptionsResponse(TypedDict):
    """GetTelemetrySubscriptions v0."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    client_instance_id: uuid.UUID | None
    subscription_id: int
    accepted_compression_types: NotRequired[Sequence[int]]
    push_interval: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: NotRequired[Sequence[str]]


class PushTelemetryResponse(TypedDict):
    """PushTelemetry v0."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode


class DescribeTopicPartitionsResponsePartition(TypedDict):
    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: NotRequired[int]
    replica_nodes: NotRequired[Sequence[int]]
    isr_nodes: NotRequired[Sequence[int]]
    eligible_leader_replicas: NotRequired[Sequence[int] | None]
    last_known_elr: NotRequired[Sequence[int] | None]
    offline_replicas: NotRequired[Sequence[int]]


class DescribeTopicPartitionsResponseTopic(TypedDict):
    error_code: ErrorCode
    name: str | None
    topic_id: uuid.UUID | None
    is_internal: NotRequired[bool]
    partitions: Sequence[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: NotRequired[int]


class Cursor(TypedDict):
    topic_name: str
    partition_index: int


class DescribeTopicPartitionsResponse(TypedDict):
    """DescribeTopicPartitions v0."""

    throttle_time: NotRequired[int]
    topics: Sequence[DescribeTopicPartitionsResponseTopic]
    next_cursor: NotRequired[Cursor | None]
