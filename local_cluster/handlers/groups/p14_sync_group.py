"""SyncGroup v0-v5.

v3 adds static members (KIP-345), v5 the protocol type and name, which have to be those of the
generation (KIP-559). The answer waits until the leader has brought the assignment and that is
committed in `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from local_cluster.groups.requests import SyncAnswer, SyncRequest
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

VERSION_WITH_PROTOCOL: Final = 5


@handles(ApiKey.SYNC_GROUP, min_version=0, max_version=5)
def sync_group(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Give the leader's assignment to the group, get one's own."""
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _fields(SyncAnswer(ErrorCode.group_authorization_failed))
    if not request.group_id:
        return _fields(SyncAnswer(ErrorCode.invalid_group_id))
    protocol_type = get(request, "protocol_type", None)
    protocol_name = get(request, "protocol_name", None)
    if context.api_version >= VERSION_WITH_PROTOCOL and None in (protocol_type, protocol_name):
        return _fields(SyncAnswer(ErrorCode.inconsistent_group_protocol))
    try:
        synced = broker.groups.sync(
            SyncRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=get(request, "group_instance_id", None),
                generation_id=request.generation_id,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=tuple(
                    (entry.member_id, entry.assignment) for entry in request.assignments
                ),
            )
        )
    except KafkaError as error:
        return _fields(SyncAnswer(error.code))
    return _answer(synced)


async def _answer(synced: Awaitable[SyncAnswer]) -> dict[str, Any]:
    try:
        return _fields(await synced)
    except KafkaError as error:
        return _fields(SyncAnswer(error.code))


def _fields(answer: SyncAnswer) -> dict[str, Any]:
    return {
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name,
        "assignment": answer.assignment,
    }
