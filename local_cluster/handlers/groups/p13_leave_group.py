"""LeaveGroup v0-v5.

v0-v2 name one member, whose error is the top-level error. v3 names many, each by member id or by
group instance id alone (KIP-345), with an error each. v5 adds a reason (not stored).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, cast

from local_cluster.groups.requests import LeaveRequest, LeaveResponse, LeavingMember
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.leave_group.v2 import request as v2
    from kio.schema.leave_group.v5.request import LeaveGroupRequest

    from local_cluster.wire.responses.groups import LeaveGroupResponse

MANY_MEMBERS_SINCE: Final = 3


@handles(ApiKey.LEAVE_GROUP, min_version=0, max_version=5)
def leave_group(
    broker: BrokerServices, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Remove members from their group."""
    version = context.api_version
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _response(version, LeaveResponse(ErrorCode.group_authorization_failed))
    if not request.group_id:
        return _response(version, LeaveResponse(ErrorCode.invalid_group_id))
    members: tuple[LeavingMember, ...]
    if version >= MANY_MEMBERS_SINCE:
        members = tuple(LeavingMember(m.member_id, m.group_instance_id) for m in request.members)
    else:
        members = (LeavingMember(cast("v2.LeaveGroupRequest", request).member_id, None),)
    try:
        left = broker.groups.leave(LeaveRequest(request.group_id, members))
    except KafkaError as error:
        return _response(version, LeaveResponse(error.code))
    return _wait(version, left)


async def _wait(version: int, left: Awaitable[LeaveResponse]) -> LeaveGroupResponse:
    try:
        return _response(version, await left)
    except KafkaError as error:
        return _response(version, LeaveResponse(error.code))


def _response(version: int, result: LeaveResponse) -> LeaveGroupResponse:
    error = result.error
    if version < MANY_MEMBERS_SINCE and error is ErrorCode.none:
        error = result.members[0][1]
    return {
        "error_code": error,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": member_error,
            }
            for member, member_error in result.members
        ],
    }
