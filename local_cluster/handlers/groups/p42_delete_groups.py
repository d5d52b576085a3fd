"""DeleteGroups v0-v2 (KIP-229): forget empty groups and their committed offsets.

A group with members is NON_EMPTY_GROUP, one that is not known GROUP_ID_NOT_FOUND; each group is
answered by itself. v2 is flexible.
"""

from __future__ import annotations

from typing import Any

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.DELETE_GROUPS, min_version=0, max_version=2)
def delete_groups(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Delete the groups one after the other."""
    return _delete(broker, context, list(request.groups_names))


async def _delete(
    broker: BrokerServices, context: RequestContext, group_ids: list[str]
) -> dict[str, Any]:
    results = []
    for group_id in group_ids:
        error = ErrorCode.group_authorization_failed
        if broker.authorize(context, "DELETE", "GROUP", group_id):
            try:
                error = await broker.groups.delete_group(group_id)
            except KafkaError as refused:
                error = refused.code
        results.append({"group_id": group_id, "error_code": error})
    return {"results": results}
