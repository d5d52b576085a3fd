"""ConsumerGroupHeartbeat v0-v1 (KIP-848): join, stay in and leave a group that the server assigns.

In v0 the coordinator chooses the member id; in v1 the client does. v1 also has the regular
expression of the subscription. Errors of the group carry a message. The response waits until its
content is committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.groups.consumer.model import JOIN_EPOCH, Assignment
from local_cluster.groups.consumer.requests import HeartbeatRequest, HeartbeatResponse
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

if TYPE_CHECKING:
    from kio.schema.consumer_group_heartbeat.v1.request import (
        ConsumerGroupHeartbeatRequest,
        TopicPartitions,
    )

    from local_cluster.wire.responses.groups import (
        ConsumerGroupHeartbeatAssignment,
        ConsumerGroupHeartbeatResponse,
    )

CLIENT_MEMBER_ID_SINCE: Final = 1
ZERO_TOPIC_ID: Final = uuid.UUID(int=0)


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, min_version=0, max_version=1)
def consumer_group_heartbeat(
    broker: BrokerServices, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Process one heartbeat of one member."""
    group_id = request.group_id
    if not broker.authorize(context, "READ", "GROUP", group_id):
        return _response(HeartbeatResponse(ErrorCode.group_authorization_failed))
    for name in request.subscribed_topic_names or ():
        if not broker.authorize(context, "DESCRIBE", "TOPIC", name):
            return _response(HeartbeatResponse(ErrorCode.topic_authorization_failed))
    member_id = request.member_id
    if not member_id:
        coordinator_chooses = context.api_version < CLIENT_MEMBER_ID_SINCE
        if not coordinator_chooses or request.member_epoch != JOIN_EPOCH:
            message = "MemberId can't be empty."
            return _response(HeartbeatResponse(ErrorCode.invalid_request, message))
        member_id = broker.groups.new_member_uuid()
    try:
        accepted = broker.groups.consumer_heartbeat(
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
                _owned_partitions(request.topic_partitions),
                context.client_id or "",
                f"/{context.client_host}",
                lambda name: broker.authorize(context, "DESCRIBE", "TOPIC", name),
            )
        )
    except KafkaError as error:
        return _response(HeartbeatResponse(error.code))
    return _wait(accepted)


async def _wait(accepted: Awaitable[HeartbeatResponse]) -> ConsumerGroupHeartbeatResponse:
    try:
        return _response(await accepted)
    except KafkaError as error:
        return _response(HeartbeatResponse(error.code))


def _owned_partitions(topics: Sequence[TopicPartitions] | None) -> Assignment | None:
    if topics is None:
        return None
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic in topics:
        topic_id = topic.topic_id or ZERO_TOPIC_ID
        found[topic_id] = found.get(topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def _response(result: HeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
    return {
        "error_code": result.error,
        "error_message": result.message,
        "member_id": result.member_id,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "assignment": None if result.assignment is None else _assignment(result.assignment),
    }


def _assignment(assignment: Assignment) -> ConsumerGroupHeartbeatAssignment:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": sorted(partitions)}
            for topic_id, partitions in assignment.items()
        ]
    }
