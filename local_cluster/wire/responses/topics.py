"""Responses of the handlers in `handlers/topics`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class CreatableTopicConfigs(TypedDict):
    name: str
    value: str | None
    read_only: bool
    config_source: NotRequired[int]
    is_sensitive: bool


class CreatableTopicResult(TypedDict):
    name: str
    topic_id: NotRequired[uuid.UUID | None]
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: NotRequired[int]
    num_partitions: NotRequired[int]
    replication_factor: NotRequired[int]
    configs: NotRequired[Sequence[CreatableTopicConfigs] | None]


class CreateTopicsResponse(TypedDict):
    """CreateTopics v2-v7."""

    throttle_time: NotRequired[int]
    topics: Sequence[CreatableTopicResult]


class DeletableTopicResult(TypedDict):
    name: str | None
    topic_id: NotRequired[uuid.UUID | None]
    error_code: ErrorCode
    error_message: NotRequired[str | None]


class DeleteTopicsResponse(TypedDict):
    """DeleteTopics v1-v6."""

    throttle_time: NotRequired[int]
    responses: Sequence[DeletableTopicResult]


class AlterReplicaLogDirPartitionResult(TypedDict):
    partition_index: int
    error_code: ErrorCode


class AlterReplicaLogDirTopicResult(TypedDict):
    topic_name: str
    partitions: Sequence[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(TypedDict):
    """AlterReplicaLogDirs v1-v2."""

    throttle_time: NotRequired[int]
    results: Sequence[AlterReplicaLogDirTopicResult]


class DescribeLogDirsPartition(TypedDict):
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class DescribeLogDirsTopic(TypedDict):
    name: str
    partitions: Sequence[DescribeLogDirsPartition]


class DescribeLogDirsResult(TypedDict):
    error_code: ErrorCode
    log_dir: str
    topics: Sequence[DescribeLogDirsTopic]
    total_bytes: NotRequired[int]
    usable_bytes: NotRequired[int]
    is_cordoned: NotRequired[bool]


class DescribeLogDirsResponse(TypedDict):
    """DescribeLogDirs v1-v5."""

    throttle_time: NotRequired[int]
    error_code: NotRequired[ErrorCode]
    results: Sequence[DescribeLogDirsResult]


class CreatePartitionsTopicResult(TypedDict):
    name: str
    error_code: ErrorCode
    error_message: NotRequired[str | None]


class CreatePartitionsResponse(TypedDict):
    """CreatePartitions v0-v3."""

    throttle_time: NotRequired[int]
    results: Sequence[CreatePartitionsTopicResult]


class PartitionResult(TypedDict):
    partition_id: int
    error_code: ErrorCode
    error_message: str | None


class ReplicaElectionResult(TypedDict):
    topic: str
    partition_result: Sequence[PartitionResult]


class ElectLeadersResponse(TypedDict):
    """ElectLeaders v0-v2."""

    throttle_time: NotRequired[int]
    error_code: NotRequired[ErrorCode]
    replica_election_results: Sequence[ReplicaElectionResult]


class ReassignablePartitionResponse(TypedDict):
    partition_index: int
    error_code: ErrorCode
    error_message: str | None


class ReassignableTopicResponse(TypedDict):
    name: str
    partitions: Sequence[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(TypedDict):
    """AlterPartitionReassignments v0-v1."""

    throttle_time: NotRequired[int]
    allow_replication_factor_change: NotRequired[bool]
    error_code: ErrorCode
    error_message: str | None
    responses: Sequence[ReassignableTopicResponse]


class OngoingPartitionReassignment(TypedDict):
    partition_index: int
    replicas: NotRequired[Sequence[int]]
    adding_replicas: NotRequired[Sequence[int]]
    removing_replicas: NotRequired[Sequence[int]]


class OngoingTopicReassignment(TypedDict):
    name: str
    partitions: Sequence[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(TypedDict):
    """ListPartitionReassignments v0."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    error_message: str | None
    topics: Sequence[OngoingTopicReassignment]
