"""ListGroups v0-v5: the groups that this broker coordinates; a client asks every broker.

v4 adds states and a filter by them (KIP-518), v5 types ("classic", "consumer") and a filter by them
(KIP-848). While a partition loads, the error is COORDINATOR_LOAD_IN_PROGRESS, with the groups that
are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.list_groups.v5.request import ListGroupsRequest

    from local_cluster.wire.responses.groups import ListGroupsResponse


@handles(ApiKey.LIST_GROUPS, min_version=0, max_version=5)
def list_groups(
    broker: BrokerServices, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """List the groups that pass the filters."""
    states_filter: Sequence[str] = get(request, "states_filter", ())
    types_filter: Sequence[str] = get(request, "types_filter", ())
    states = {state.lower() for state in states_filter}
    types = {name.lower() for name in types_filter}
    error, groups = broker.groups.list_groups()
    sees_all = broker.may(context, "DESCRIBE", "CLUSTER", "kafka-cluster")
    return {
        "error_code": error,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.type,
            }
            for group in groups
            if (not states or group.state.lower() in states)
            and (not types or group.type in types)
            and (sees_all or broker.may(context, "DESCRIBE", "GROUP", group.group_id))
        ],
    }
