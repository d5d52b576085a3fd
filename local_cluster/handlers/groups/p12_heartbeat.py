"""Heartbeat v0-v4.

v3 adds static members (KIP-345), v4 is flexible. REBALANCE_IN_PROGRESS tells a member to join
again. While the leader computes the assignment, a heartbeat succeeds.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from local_cluster.groups.requests import HeartbeatRequest as MemberHeartbeat
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest

    from local_cluster.wire.responses.groups import HeartbeatResponse


@handles(ApiKey.HEARTBEAT, min_version=0, max_version=4)
def heartbeat(
    broker: BrokerServices, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Keep a member's session alive."""
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    if not request.group_id:
        return {"error_code": ErrorCode.invalid_group_id}
    try:
        accepted = broker.groups.heartbeat(
            MemberHeartbeat(
                request.group_id,
                request.member_id,
                get(request, "group_instance_id", None),
                request.generation_id,
            )
        )
    except KafkaError as error:
        return {"error_code": _ignore_loading(error.code)}
    return _wait(accepted)


def _ignore_loading(code: ErrorCode) -> ErrorCode:
    """Return success while the group loads: some clients would rejoin after an error.

    Kafka does the same. No session expires meanwhile, and each member has a whole one afterwards.
    """
    return ErrorCode.none if code is ErrorCode.coordinator_load_in_progress else code


async def _wait(accepted: Awaitable[ErrorCode]) -> HeartbeatResponse:
    try:
        return {"error_code": await accepted}
    except KafkaError as error:
        return {"error_code": _ignore_loading(error.code)}
