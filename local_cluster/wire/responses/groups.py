"""Responses of the handlers in `handlers/groups`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class OffsetFetchResponsePartition(TypedDict):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]
    metadata: str | None
    error_code: ErrorCode


class OffsetFetchResponseTopic(TypedDict):
    name: str
    partitions: Sequence[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(TypedDict):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]
    metadata: str | None
    error_code: ErrorCode


class OffsetFetchResponseTopics(TypedDict):
    topic_id: NotRequired[uuid.UUID | None]
    partitions: Sequence[OffsetFetchResponsePartitions]
    name: NotRequired[str]


class OffsetFetchResponseGroup(TypedDict):
    group_id: str
    topics: Sequence[OffsetFetchResponseTopics]
    error_code: NotRequired[ErrorCode]


class OffsetFetchResponse(TypedDict):
    """OffsetFetch v1-v10."""

    throttle_time: NotRequired[int]
    groups: NotRequired[Sequence[OffsetFetchResponseGroup]]
    topics: NotRequired[Sequence[OffsetFetchResponseTopic]]
    error_code: NotRequired[ErrorCode]


class Coordinator(TypedDict):
    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None


class FindCoordinatorResponse(TypedDict):
    """FindCoordinator v0-v6."""

    throttle_time: NotRequired[int]
    coordinators: NotRequired[Sequence[Coordinator]]
    error_code: NotRequired[ErrorCode]
    error_message: NotRequired[str | None]
    node_id: NotRequired[int]
    host: NotRequired[str]
    port: NotRequired[int]


class JoinGroupResponseMember(TypedDict):
    member_id: str
    group_instance_id: NotRequired[str | None]
    metadata: bytes


class JoinGroupResponse(TypedDict):
    """JoinGroup v0-v9."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    generation_id: NotRequired[int]
    protocol_type: NotRequired[str | None]
    protocol_name: str | None
    leader: str
    skip_assignment: NotRequired[bool]
    member_id: str
    members: Sequence[JoinGroupResponseMember]


class HeartbeatResponse(TypedDict):
    """Heartbeat v0-v4."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode


class MemberResponse(TypedDict):
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


class LeaveGroupResponse(TypedDict):
    """LeaveGroup v0-v5."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    members: NotRequired[Sequence[MemberResponse]]


class SyncGroupResponse(TypedDict):
    """SyncGroup v0-v5."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    protocol_type: NotRequired[str | None]
    protocol_name: NotRequired[str | None]
    assignment: bytes


class DescribedGroupMember(TypedDict):
    member_id: str
    group_instance_id: NotRequired[str | None]
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribeGroupsDescribedGroup(TypedDict):
    error_code: ErrorCode
    error_message: NotRequired[str | None]
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Sequence[DescribedGroupMember]
    authorized_operations: NotRequired[int]


class DescribeGroupsResponse(TypedDict):
    """DescribeGroups v0-v6."""

    throttle_time: NotRequired[int]
    groups: Sequence[DescribeGroupsDescribedGroup]


class ListedGroup(TypedDict):
    group_id: str
    protocol_type: str
    group_state: NotRequired[str]
    group_type: NotRequired[str]


class ListGroupsResponse(TypedDict):
    """ListGroups v0-v5."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    groups: Sequence[ListedGroup]


class DeletableGroupResult(TypedDict):
    group_id: str
    error_code: ErrorCode
    error_message: NotRequired[str | None]


class DeleteGroupsResponse(TypedDict):
    """DeleteGroups v0-v3."""

    throttle_time: NotRequired[int]
    results: Sequence[DeletableGroupResult]


class OffsetDeleteResponsePartition(TypedDict):
    partition_index: int
    error_code: ErrorCode


class OffsetDeleteResponseTopic(TypedDict):
    name: str
    partitions: Sequence[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(TypedDict):
    """OffsetDelete v0."""

    error_code: ErrorCode
    throttle_time: NotRequired[int]
    topics: Sequence[OffsetDeleteResponseTopic]


class ConsumerGroupHeartbeatTopicPartitions(TypedDict):
    topic_id: uuid.UUID | None
    partitions: NotRequired[Sequence[int]]


class ConsumerGroupHeartbeatAssignment(TypedDict):
    topic_partitions: Sequence[ConsumerGroupHeartbeatTopicPartitions]


class ConsumerGroupHeartbeatResponse(TypedDict):
    """ConsumerGroupHeartbeat v0-v1."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    error_message: NotRequired[str | None]
    member_id: NotRequired[str | None]
    member_epoch: int
    heartbeat_interval: int
    assignment: NotRequired[ConsumerGroupHeartbeatAssignment | None]


class ConsumerGroupDescribeTopicPartitions(TypedDict):
    topic_id: uuid.UUID | None
    topic_name: str
    partitions: NotRequired[Sequence[int]]


class ConsumerGroupDescribeAssignment(TypedDict):
    topic_partitions: Sequence[ConsumerGroupDescribeTopicPartitions]


class Member(TypedDict):
    member_id: str
    instance_id: NotRequired[str | None]
    rack_id: NotRequired[str | None]
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: NotRequired[Sequence[str]]
    subscribed_topic_regex: NotRequired[str | None]
    assignment: ConsumerGroupDescribeAssignment
    target_assignment: ConsumerGroupDescribeAssignment
    member_type: NotRequired[int]


class ConsumerGroupDescribeDescribedGroup(TypedDict):
    error_code: ErrorCode
    error_message: NotRequired[str | None]
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Sequence[Member]
    authorized_operations: NotRequired[int]


class ConsumerGroupDescribeResponse(TypedDict):
    """ConsumerGroupDescribe v0-v1."""

    throttle_time: NotRequired[int]
    groups: Sequence[ConsumerGroupDescribeDescribedGroup]
