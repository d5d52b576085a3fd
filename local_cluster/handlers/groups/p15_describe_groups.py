"""DescribeGroups v0-v6.

v3 can ask for the authorized operations, v4 tells group instance ids, v5 is flexible. A group
that does not exist, or is not a classic one, is Dead, up to v5 without an error, then with
GROUP_ID_NOT_FOUND (KIP-1043). Protocol, metadata and assignments are told of Stable groups only.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.requests import DescribedGroup
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

VERSION_WITH_NOT_FOUND: Final = 6
OPERATIONS_NOT_ASKED: Final = -(2**31)
GROUP_OPERATIONS: Final = {"READ": 3, "DELETE": 6, "DESCRIBE": 8}
"""Kafka's AclOperation codes; each is one bit of the answer."""


@handles(ApiKey.DESCRIBE_GROUPS, min_version=0, max_version=6)
def describe_groups(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Describe each group by itself."""
    with_operations = bool(get(request, "include_authorized_operations", False))
    return _describe(broker, context, request.groups, with_operations)


async def _describe(
    broker: BrokerServices, context: RequestContext, group_ids: Any, with_operations: bool
) -> dict[str, Any]:
    return {
        "groups": [
            await _describe_one(broker, context, group_id, with_operations)
            for group_id in group_ids
        ]
    }


async def _describe_one(
    broker: BrokerServices, context: RequestContext, group_id: str, with_operations: bool
) -> dict[str, Any]:
    error = ErrorCode.none
    group = DescribedGroup(group_id, "", "", "")
    if not broker.authorize(context, "DESCRIBE", "GROUP", group_id):
        error = ErrorCode.group_authorization_failed
    else:
        try:
            group = await broker.groups.describe(group_id)
        except KafkaError as refused:
            error = refused.code
    message = None
    if group.state == GroupState.DEAD.value and context.api_version >= VERSION_WITH_NOT_FOUND:
        error, message = ErrorCode.group_id_not_found, f"Group {group_id} not found."
    operations = OPERATIONS_NOT_ASKED
    if with_operations and error is ErrorCode.none:
        operations = sum(
            1 << code
            for operation, code in GROUP_OPERATIONS.items()
            if broker.authorize(context, operation, "GROUP", group_id)
        )
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
        "authorized_operations": operations,
    }
