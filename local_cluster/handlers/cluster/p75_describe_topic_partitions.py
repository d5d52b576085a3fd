"""DescribeTopicPartitions v0 (KIP-966): topics page by page.

Topics are in the order of their names, partitions in that of their indexes. A page ends after
`response_partition_limit` partitions (at most PARTITIONS_MAX), and the cursor names the next
partition. No topic names stand for all topics. A cursor at a topic that is not requested, or before
its first partition, is INVALID_REQUEST for each topic. Nothing is created. Eligible leader replicas
do not exist with ZooKeeper: both lists are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.authorized_operations import topic_operations
from local_cluster.handlers.cluster.p03_metadata import describe_partition
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

    from local_cluster.wire.responses.cluster import (
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )

PARTITIONS_MAX: Final = 2_000
"""Kafka's default of max.request.partition.size.limit."""


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS, min_version=0, max_version=0)
def describe_topic_partitions(
    broker: BrokerServices, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return one page."""
    if _has_bad_cursor(request):
        return {
            "topics": [_refuse(t.name, ErrorCode.invalid_request) for t in request.topics],
            "next_cursor": None,
        }
    names = sorted({topic.name for topic in request.topics} or broker.metadata.topics)
    wants_all = not request.topics
    first_index = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_index = request.cursor.partition_index
    room = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room <= 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        refusal = _refusal(broker, context, name)
        if refusal is not None:
            # A page of all topics hides those that the principal may not see.
            if not wants_all:
                topics.append(refusal)
            first_index = 0
            continue
        topic, next_index = _describe(broker, context, name, first_index, room)
        topics.append(topic)
        if next_index is not None:
            return {
                "topics": topics,
                "next_cursor": {"topic_name": name, "partition_index": next_index},
            }
        room -= len(topic["partitions"])
        first_index = 0
    return {"topics": topics, "next_cursor": None}


def _has_bad_cursor(request: DescribeTopicPartitionsRequest) -> bool:
    """Return whether the cursor names no partition, or a topic that is not requested."""
    cursor = request.cursor
    if cursor is None:
        return False
    names = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or (bool(names) and cursor.topic_name not in names)


def _refusal(
    broker: BrokerServices, context: RequestContext, name: str
) -> DescribeTopicPartitionsResponseTopic | None:
    if topic_name_problem(name) is not None:
        return _refuse(name, ErrorCode.invalid_topic_exception)
    if not broker.authorize(context, "DESCRIBE", "TOPIC", name):
        return _refuse(name, ErrorCode.topic_authorization_failed)
    if name not in broker.metadata.topics:
        operations = topic_operations(broker, context, name)
        return _refuse(name, ErrorCode.unknown_topic_or_partition, operations)
    return None


def _refuse(
    name: str, code: ErrorCode, operations: int = OPERATIONS_NOT_REQUESTED
) -> DescribeTopicPartitionsResponseTopic:
    return {
        "error_code": code,
        "name": name,
        "topic_id": None,
        "partitions": (),
        "topic_authorized_operations": operations,
    }


def _describe(
    broker: BrokerServices, context: RequestContext, name: str, first_index: int, room: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Return the topic with at most `room` partitions, and the next index if there is one."""
    topic = broker.metadata.topics[name]
    indexes = [index for index in sorted(topic.partitions) if index >= first_index]
    partitions: list[DescribeTopicPartitionsResponsePartition] = [
        {
            **describe_partition(broker, context, topic.name, topic.partitions[index]),
            "eligible_leader_replicas": (),
            "last_known_elr": (),
        }
        for index in indexes[:room]
    ]
    described: DescribeTopicPartitionsResponseTopic = {
        "error_code": ErrorCode.none,
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": partitions,
        "topic_authorized_operations": topic_operations(broker, context, name),
    }
    return described, indexes[room] if len(indexes) > room else None
