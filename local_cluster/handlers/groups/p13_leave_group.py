"""LeaveGroup v0-v5.

v0-v2 name one member, whose error is that of the answer; v3 names many, each by member id or by
group instance id alone (KIP-345), with an error each; v5 adds a reason (which is not kept).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from local_cluster.groups.requests import LeaveAnswer, LeaveRequest, LeavingMember
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

VERSION_WITH_MANY_MEMBERS: Final = 3


@handles(ApiKey.LEAVE_GROUP, min_version=0, max_version=5)
def leave_group(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Remove members from their group."""
    version = context.api_version
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _fields(version, LeaveAnswer(ErrorCode.group_authorization_failed))
    if not request.group_id:
        return _fields(version, LeaveAnswer(ErrorCode.invalid_group_id))
    members: tuple[LeavingMember, ...]
    if version >= VERSION_WITH_MANY_MEMBERS:
        members = tuple(LeavingMember(m.member_id, m.group_instance_id) for m in request.members)
    else:
        members = (LeavingMember(request.member_id, None),)
    try:
        left = broker.groups.leave(LeaveRequest(request.group_id, members))
    except KafkaError as error:
        return _fields(version, LeaveAnswer(error.code))
    return _answer(version, left)


async def _answer(version: int, left: Awaitable[LeaveAnswer]) -> dict[str, Any]:
    try:
        return _fields(version, await left)
    except KafkaError as error:
        return _fields(version, LeaveAnswer(error.code))


def _fields(version: int, answer: LeaveAnswer) -> dict[str, Any]:
    error = answer.error
    if version < VERSION_WITH_MANY_MEMBERS and error is ErrorCode.none:
        error = answer.members[0][1]
    return {
        "error_code": error,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": member_error,
            }
            for member, member_error in answer.members
        ],
    }
