"""ConsumerGroupHeartbeat v0-v1 (KIP-848): join, stay in and leave a group that the server assigns.

v0 lets the coordinator choose the member id, v1 adds the regular expression of the subscription
and has the client choose its id. Errors of the group carry a message. The answer waits until what
it tells is committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from typing import Any, Final

from local_cluster.groups.consumer.model import JOIN_EPOCH, Assignment
from local_cluster.groups.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

VERSION_WITH_CLIENT_MEMBER_ID: Final = 1


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, min_version=0, max_version=1)
def consumer_group_heartbeat(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """One heartbeat of one member."""
    group_id = request.group_id
    if not broker.authorize(context, "READ", "GROUP", group_id):
        return _fields(HeartbeatAnswer(ErrorCode.group_authorization_failed))
    for name in request.subscribed_topic_names or ():
        if not broker.authorize(context, "DESCRIBE", "TOPIC", name):
            return _fields(HeartbeatAnswer(ErrorCode.topic_authorization_failed))
    member_id = request.member_id
    if (
        not member_id
        and context.api_version < VERSION_WITH_CLIENT_MEMBER_ID
        and request.member_epoch == JOIN_EPOCH
    ):
        member_id = broker.groups.new_member_uuid()
    elif not member_id:
        answer = HeartbeatAnswer(ErrorCode.invalid_request, "MemberId can't be empty.")
        return _fields(answer)
    try:
        answered = broker.groups.consumer_heartbeat(
            HeartbeatRequest(
                group_id,
                member_id,
                request.member_epoch,
                request.instance_id,
                request.rack_id,
                ms(request.rebalance_timeout),
                request.subscribed_topic_names,
                get(request, "subscribed_topic_regex", None),
                request.server_assignor,
                _assignment(request.topic_partitions),
                context.client_id or "",
                f"/{context.client_host}",
                lambda name: broker.authorize(context, "DESCRIBE", "TOPIC", name),
            )
        )
    except KafkaError as error:
        return _fields(HeartbeatAnswer(error.code))
    return _answer(answered)


async def _answer(answered: Awaitable[HeartbeatAnswer]) -> dict[str, Any]:
    try:
        return _fields(await answered)
    except KafkaError as error:
        return _fields(HeartbeatAnswer(error.code))


def _assignment(topics: Any) -> Assignment | None:
    if topics is None:
        return None
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic in topics:
        partitions = frozenset(topic.partitions)
        found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | partitions
    return found


def _fields(answer: HeartbeatAnswer) -> dict[str, Any]:
    assignment = answer.assignment
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "assignment": None
        if assignment is None
        else {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in assignment.items()
            ]
        },
    }
