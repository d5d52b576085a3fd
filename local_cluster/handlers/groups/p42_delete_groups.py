"""DeleteGroups v0-v3 (KIP-229): delete empty groups and their committed offsets.

A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND. Each group has a result
of its own. v2 is flexible. v3 has an error message per group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

    from local_cluster.wire.responses.groups import DeletableGroupResult, DeleteGroupsResponse


@handles(ApiKey.DELETE_GROUPS, min_version=0, max_version=3)
def delete_groups(
    broker: BrokerServices, context: RequestContext, request: DeleteGroupsRequest
) -> Awaitable[DeleteGroupsResponse]:
    """Delete the groups one after the other."""
    return _delete(broker, context, request.groups_names)


async def _delete(
    broker: BrokerServices, context: RequestContext, group_ids: Sequence[str]
) -> DeleteGroupsResponse:
    results: list[DeletableGroupResult] = []
    for group_id in group_ids:
        error = ErrorCode.group_authorization_failed
        if broker.authorize(context, "DELETE", "GROUP", group_id):
            try:
                error = await broker.groups.delete_group(group_id)
            except KafkaError as refused:
                error = refused.code
        results.append({"group_id": group_id, "error_code": error})
    return {"results": results}
