"""DescribeGroups v0-v6.

v3 can ask for the authorized operations, v4 has group instance ids, v5 is flexible. A group that
does not exist, or is not a classic one, is Dead: up to v5 without an error, then GROUP_ID_NOT_FOUND
(KIP-1043). Only Stable groups show protocol, metadata and assignments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.requests import DescribedGroup
from local_cluster.handlers.authorized_operations import group_operations
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest

    from local_cluster.wire.responses.groups import (
        DescribeGroupsDescribedGroup,
        DescribeGroupsResponse,
    )

GROUP_NOT_FOUND_SINCE: Final = 6


@handles(ApiKey.DESCRIBE_GROUPS, min_version=0, max_version=6)
def describe_groups(
    broker: BrokerServices, context: RequestContext, request: DescribeGroupsRequest
) -> Awaitable[DescribeGroupsResponse]:
    """Describe each group by itself."""
    with_operations = get(request, "include_authorized_operations", False)
    return _describe_all(broker, context, request.groups, with_operations)


async def _describe_all(
    broker: BrokerServices, context: RequestContext, group_ids: Sequence[str], with_operations: bool
) -> DescribeGroupsResponse:
    return {
        "groups": [
            await _describe(broker, context, group_id, with_operations) for group_id in group_ids
        ]
    }


async def _describe(
    broker: BrokerServices, context: RequestContext, group_id: str, with_operations: bool
) -> DescribeGroupsDescribedGroup:
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
    if group.state == GroupState.DEAD.value and context.api_version >= GROUP_NOT_FOUND_SINCE:
        error, message = ErrorCode.group_id_not_found, group.message
    operations = OPERATIONS_NOT_REQUESTED
    if with_operations and error is ErrorCode.none:
        operations = group_operations(broker, context, group_id)
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
