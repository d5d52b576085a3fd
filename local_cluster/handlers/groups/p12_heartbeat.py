"""Heartbeat v0-v4.

v3 adds static members (KIP-345), v4 is flexible. REBALANCE_IN_PROGRESS tells a member to join
again; while the leader computes the assignment a heartbeat is a plain one.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from local_cluster.groups.requests import HeartbeatRequest
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get


@handles(ApiKey.HEARTBEAT, min_version=0, max_version=4)
def heartbeat(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Keep a member's session alive."""
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    try:
        answer = broker.groups.heartbeat(
            HeartbeatRequest(
                request.group_id,
                request.member_id,
                get(request, "group_instance_id", None),
                request.generation_id,
            )
        )
    except KafkaError as error:
        return {"error_code": _told(error.code)}
    return _answer(answer)


def _told(code: ErrorCode) -> ErrorCode:
    """While the group is loaded nobody's session ends, and each has a whole one afterwards: Kafka
    answers blindly, as some clients would join again for anything else."""
    return ErrorCode.none if code is ErrorCode.coordinator_load_in_progress else code


async def _answer(answer: Awaitable[ErrorCode]) -> dict[str, Any]:
    try:
        return {"error_code": await answer}
    except KafkaError as error:
        return {"error_code": _told(error.code)}
