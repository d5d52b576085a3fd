"""JoinGroup v0-v9.

v1 adds the rebalance timeout (before it the session timeout serves for both), v4 makes dynamic
members come back with the id they are given (MEMBER_ID_REQUIRED, KIP-394), v5 adds static members
(KIP-345), v7 the protocol type in the answer and a nullable protocol name, v8 a reason (which is
not kept), v9 skip_assignment for a static leader that returns (KIP-814).

The answer waits until the join phase of the rebalance is over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from local_cluster.groups.requests import JoinAnswer, JoinRequest
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

VERSION_WITH_KNOWN_MEMBER_ID: Final = 4
VERSION_WITH_NULLABLE_PROTOCOL: Final = 7
VERSION_WITH_SKIPPED_ASSIGNMENT: Final = 9


@handles(ApiKey.JOIN_GROUP, min_version=0, max_version=9)
def join_group(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Join or rejoin a group."""
    version = context.api_version
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        refused = JoinAnswer(ErrorCode.group_authorization_failed, request.member_id)
        return _fields(version, refused)
    session_timeout_ms = ms(request.session_timeout)
    try:
        joined = broker.groups.join(
            JoinRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=get(request, "group_instance_id", None),
                client_id=context.client_id or "",
                # Kafka shows a Java InetAddress, and tools expect its slash.
                client_host=f"/{context.client_host}",
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=ms(request.rebalance_timeout)
                if version >= 1
                else session_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=tuple((entry.name, entry.metadata) for entry in request.protocols),
                member_uuid=broker.groups.new_member_uuid(),
                requires_known_member_id=version >= VERSION_WITH_KNOWN_MEMBER_ID,
                supports_skipping_assignment=version >= VERSION_WITH_SKIPPED_ASSIGNMENT,
            )
        )
    except KafkaError as error:
        return _fields(version, JoinAnswer(error.code, request.member_id))
    return _answer(version, request.member_id, joined)


async def _answer(version: int, member_id: str, joined: Awaitable[JoinAnswer]) -> dict[str, Any]:
    try:
        return _fields(version, await joined)
    except KafkaError as error:
        return _fields(version, JoinAnswer(error.code, member_id))


def _fields(version: int, answer: JoinAnswer) -> dict[str, Any]:
    protocol_name = answer.protocol_name
    if protocol_name is None and version < VERSION_WITH_NULLABLE_PROTOCOL:
        protocol_name = ""
    return {
        "error_code": answer.error,
        "generation_id": answer.generation_id,
        "protocol_type": answer.protocol_type,
        "protocol_name": protocol_name,
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in answer.members
        ],
    }
