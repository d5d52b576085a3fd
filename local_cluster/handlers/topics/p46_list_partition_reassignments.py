"""ListPartitionReassignments v0 (KIP-455): which replicas are being moved; the controller only.

Without topics it is about all of them.
"""

from __future__ import annotations

from typing import Any

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, min_version=0, max_version=0)
def list_partition_reassignments(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """Tell the moves that are under way."""
    try:
        if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
            raise KafkaError(ErrorCode.cluster_authorization_failed)
        moving = broker.control_plane.reassignments()
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message or None, "topics": ()}
    wanted = None
    if request.topics is not None:
        wanted = {(entry.name, int(i)) for entry in request.topics for i in entry.partition_indexes}
    topics: dict[str, list[dict[str, Any]]] = {}
    for (name, index), (state, reassignment) in moving.items():
        if wanted is None or (name, index) in wanted:
            topics.setdefault(name, []).append(
                {
                    "partition_index": index,
                    "replicas": state.replicas,
                    "adding_replicas": reassignment.adding,
                    "removing_replicas": reassignment.removing,
                }
            )
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
    }
