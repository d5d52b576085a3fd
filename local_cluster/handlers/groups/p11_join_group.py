"""JoinGroup v0-v9.

v1 adds the rebalance timeout (before it the session timeout serves for both). v4: a new dynamic
member gets an id with MEMBER_ID_REQUIRED and joins again with it (KIP-394). v5 adds static members
(KIP-345), v7 the protocol type in the response and a nullable protocol name. v8 adds a reason (not
stored), v9 skip_assignment for a static leader that returns (KIP-814).

The response waits until the join phase of the rebalance is over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.groups.requests import JoinRequest, JoinResponse
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

if TYPE_CHECKING:
    from kio.schema.join_group.v9.request import JoinGroupRequest

    from local_cluster.wire.responses.groups import JoinGroupResponse

KNOWN_MEMBER_ID_SINCE: Final = 4
NULLABLE_PROTOCOL_SINCE: Final = 7
SKIPPED_ASSIGNMENT_SINCE: Final = 9


@handles(ApiKey.JOIN_GROUP, min_version=0, max_version=9)
def join_group(
    broker: BrokerServices, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Join or rejoin a group."""
    version = context.api_version
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        refused = JoinResponse(ErrorCode.group_authorization_failed, "")
        return _response(version, refused)
    session_timeout_ms = ms(request.session_timeout)
    try:
        joined = broker.groups.join(
            JoinRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=get(request, "group_instance_id", None),
                client_id=context.client_id or "",
                # Kafka writes a Java InetAddress, and tools expect its slash.
                client_host=f"/{context.client_host}",
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=ms(request.rebalance_timeout)
                if version >= 1
                else session_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=tuple((entry.name, entry.metadata) for entry in request.protocols),
                member_uuid=broker.groups.new_member_uuid(),
                requires_known_member_id=version >= KNOWN_MEMBER_ID_SINCE,
                supports_skipping_assignment=version >= SKIPPED_ASSIGNMENT_SINCE,
            )
        )
    except KafkaError as error:
        return _response(version, JoinResponse(error.code, request.member_id))
    return _wait(version, request.member_id, joined)


async def _wait(version: int, member_id: str, joined: Awaitable[JoinResponse]) -> JoinGroupResponse:
    try:
        return _response(version, await joined)
    except KafkaError as error:
        return _response(version, JoinResponse(error.code, member_id))


def _response(version: int, result: JoinResponse) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and version < NULLABLE_PROTOCOL_SINCE:
        protocol_name = ""
    return {
        "error_code": result.error,
        "generation_id": result.generation_id,
        "protocol_type": result.protocol_type,
        "protocol_name": protocol_name,
        "leader": result.leader,
        "skip_assignment": result.skip_assignment,
        "member_id": result.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in result.members
        ],
    }
