"""SyncGroup v0-v5.

v3 adds static members (KIP-345), v5 the protocol type and name, which must be those of the
generation (KIP-559). The response waits until the leader has sent the assignment and it is
committed in `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.groups.requests import SyncRequest, SyncResponse
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.sync_group.v5.request import SyncGroupRequest

    from local_cluster.wire.responses.groups import SyncGroupResponse

PROTOCOL_SINCE: Final = 5


@handles(ApiKey.SYNC_GROUP, min_version=0, max_version=5)
def sync_group(
    broker: BrokerServices, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Take the leader's assignment, and return the member's own."""
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _response(SyncResponse(ErrorCode.group_authorization_failed))
    if not request.group_id:
        return _response(SyncResponse(ErrorCode.invalid_group_id))
    protocol_type: str | None = get(request, "protocol_type", None)
    protocol_name: str | None = get(request, "protocol_name", None)
    if context.api_version >= PROTOCOL_SINCE and None in (protocol_type, protocol_name):
        return _response(SyncResponse(ErrorCode.inconsistent_group_protocol))
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
        return _response(SyncResponse(error.code))
    return _wait(synced)


async def _wait(synced: Awaitable[SyncResponse]) -> SyncGroupResponse:
    try:
        return _response(await synced)
    except KafkaError as error:
        return _response(SyncResponse(error.code))


def _response(result: SyncResponse) -> SyncGroupResponse:
    return {
        "error_code": result.error,
        "protocol_type": result.protocol_type,
        "protocol_name": result.protocol_name,
        "assignment": result.assignment,
    }
