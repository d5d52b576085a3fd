"""OffsetDelete v0 (KIP-496): delete a group's committed offsets in some partitions.

An unknown group is GROUP_ID_NOT_FOUND; a group with members that are not consumers is
NON_EMPTY_GROUP; each topic that a member subscribes to is GROUP_SUBSCRIBED_TO_TOPIC. An offset that
was never committed is deleted without an error, as in Kafka. Never flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

    from local_cluster.wire.responses.groups import OffsetDeleteResponse


@handles(ApiKey.OFFSET_DELETE, min_version=0, max_version=0)
def offset_delete(
    broker: BrokerServices, context: RequestContext, request: OffsetDeleteRequest
) -> Awaitable[OffsetDeleteResponse]:
    """Delete the offsets in topics that exist and may be read."""
    return _delete(broker, context, request)


async def _delete(
    broker: BrokerServices, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    group_id = request.group_id
    if not broker.authorize(context, "DELETE", "GROUP", group_id):
        return _refuse(ErrorCode.group_authorization_failed)
    if not group_id:
        return _refuse(ErrorCode.invalid_group_id)
    errors: dict[tuple[str, int], ErrorCode] = {}
    wanted: list[tuple[str, int]] = []
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
                wanted.append(at)
    try:
        deleted = await broker.groups.delete_offsets(group_id, tuple(wanted))
    except KafkaError as error:
        return _refuse(error.code)
    if isinstance(deleted, ErrorCode):
        return _refuse(deleted)
    errors |= dict(zip(wanted, deleted, strict=True))
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


def _refuse(code: ErrorCode) -> OffsetDeleteResponse:
    return {"error_code": code, "topics": ()}
