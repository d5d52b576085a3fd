"""DescribeTopicPartitions v0 (KIP-966): topics page by page.

Topics come by name, their partitions by index; a page ends after `response_partition_limit`
partitions (at most PARTITIONS_MAX), and the cursor names the partition that comes next. Without
topic names, all topics. A cursor at a topic that was not asked for, or before its first partition,
is INVALID_REQUEST for every topic. Nothing is created here. Eligible leader replicas do not exist
with ZooKeeper: both lists are empty.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.authorized_operations import NOT_ASKED, topic_operations
from local_cluster.handlers.cluster.p03_metadata import partition_fields
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

PARTITIONS_MAX: Final = 2_000
"""Kafka's default of max.request.partition.size.limit."""

Fields = dict[str, Any]


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS, min_version=0, max_version=0)
def describe_topic_partitions(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """One page."""
    if _has_bad_cursor(request):
        return {
            "topics": [_refused(t.name, ErrorCode.invalid_request) for t in request.topics],
            "next_cursor": None,
        }
    names = sorted({topic.name for topic in request.topics} or broker.metadata.topics)
    all_asked = not request.topics
    first_index = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_index = request.cursor.partition_index
    room = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    topics: list[Fields] = []
    for name in names:
        if room <= 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        refusal = _refusal(broker, context, name)
        if refusal is not None:
            # A topic that nobody asked for by name and that must not be seen is not there.
            if not all_asked:
                topics.append(refusal)
            first_index = 0
            continue
        topic, next_index = _topic(broker, context, name, first_index, room)
        topics.append(topic)
        if next_index is not None:
            cursor = {"topic_name": name, "partition_index": next_index}
            return {"topics": topics, "next_cursor": cursor}
        room -= len(topic["partitions"])
        first_index = 0
    return {"topics": topics, "next_cursor": None}


def _has_bad_cursor(request: Any) -> bool:
    """Whether the cursor names no partition, or a topic that was not asked for."""
    cursor = request.cursor
    if cursor is None:
        return False
    names = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or (bool(names) and cursor.topic_name not in names)


def _refusal(broker: BrokerServices, context: RequestContext, name: str) -> Fields | None:
    if topic_name_problem(name) is not None:
        code = ErrorCode.invalid_topic_exception
    elif not broker.authorize(context, "DESCRIBE", "TOPIC", name):
        code = ErrorCode.topic_authorization_failed
    elif name not in broker.metadata.topics:
        code = ErrorCode.unknown_topic_or_partition
    else:
        return None
    if code is ErrorCode.unknown_topic_or_partition:
        return _refused(name, code, topic_operations(broker, context, name))
    return _refused(name, code)


def _refused(name: str, code: ErrorCode, operations: int = NOT_ASKED) -> Fields:
    return {
        "error_code": code,
        "name": name,
        "topic_id": None,
        "partitions": (),
        "topic_authorized_operations": operations,
    }


def _topic(
    broker: BrokerServices, context: RequestContext, name: str, first_index: int, room: int
) -> tuple[Fields, int | None]:
    """The topic with at most `room` partitions, and the index that comes next if any."""
    topic = broker.metadata.topics[name]
    indexes = [index for index in sorted(topic.partitions) if index >= first_index]
    fields = {
        "error_code": ErrorCode.none,
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            partition_fields(broker, context, topic.name, topic.partitions[index])
            | {"eligible_leader_replicas": (), "last_known_elr": ()}
            for index in indexes[:room]
        ],
        "topic_authorized_operations": topic_operations(broker, context, name),
    }
    return fields, indexes[room] if len(indexes) > room else None
