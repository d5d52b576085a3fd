"""OffsetDelete v0 (KIP-496): forget a group's committed positions in some partitions.

GROUP_ID_NOT_FOUND where nothing is known of the group, NON_EMPTY_GROUP where it has members that
are no consumers, and GROUP_SUBSCRIBED_TO_TOPIC for each topic that a member subscribes to. A
position that was never committed is deleted without an error, as in Kafka. Never flexible.
"""

from __future__ import annotations

from typing import Any

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.OFFSET_DELETE, min_version=0, max_version=0)
def offset_delete(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Delete the positions in topics that exist and may be read."""
    return _delete(broker, context, request)


async def _delete(broker: BrokerServices, context: RequestContext, request: Any) -> dict[str, Any]:
    group_id = request.group_id
    if not broker.authorize(context, "DELETE", "GROUP", group_id):
        return _refused(ErrorCode.group_authorization_failed)
    errors: dict[tuple[str, int], ErrorCode] = {}
    asked: list[tuple[str, int]] = []
    for topic in request.topics:
        refusal = None
        if not broker.authorize(context, "READ", "TOPIC", topic.name):
            refusal = ErrorCode.topic_authorization_failed
        for entry in topic.partitions:
            at = (topic.name, entry.partition_index)
            known = broker.metadata.topics.get(topic.name)
            if refusal is not None:
                errors[at] = refusal
            elif known is None or entry.partition_index not in known.partitions:
                errors[at] = ErrorCode.unknown_topic_or_partition
            else:
                asked.append(at)
    try:
        deleted = await broker.groups.delete_offsets(group_id, tuple(asked))
    except KafkaError as error:
        return _refused(error.code)
    if isinstance(deleted, ErrorCode):
        return _refused(deleted)
    errors |= dict(zip(asked, deleted, strict=True))
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": entry.partition_index,
                        "error_code": errors[topic.name, entry.partition_index],
                    }
                    for entry in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _refused(code: ErrorCode) -> dict[str, Any]:
    return {"error_code": code, "topics": ()}
