"""ListPartitionReassignments v0 (KIP-455): the reassignments in progress; the controller only.

Null topics stand for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

    from local_cluster.wire.responses.topics import (
        ListPartitionReassignmentsResponse,
        OngoingPartitionReassignment,
    )


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, min_version=0, max_version=0)
def list_partition_reassignments(
    broker: BrokerServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the reassignments in progress."""
    try:
        if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
            raise KafkaError(ErrorCode.cluster_authorization_failed)
        ongoing = broker.control_plane.reassignments()
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message or None, "topics": ()}
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(entry.name, i) for entry in request.topics for i in entry.partition_indexes}
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for (name, index), (state, reassignment) in ongoing.items():
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
