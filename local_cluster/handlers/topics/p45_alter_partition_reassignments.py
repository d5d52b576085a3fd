"""AlterPartitionReassignments v0-v1 (KIP-455, KIP-860): start or cancel reassignments.

The controller only. The response comes when the reassignments have started;
ListPartitionReassignments shows those in progress. v1 may forbid a change of the replication
factor.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
    )

    from local_cluster.wire.responses.topics import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
    )


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, min_version=0, max_version=1)
def alter_partition_reassignments(
    broker: BrokerServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Awaitable[AlterPartitionReassignmentsResponse]:
    """Start or cancel the reassignments."""
    if not broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        error = KafkaError(ErrorCode.cluster_authorization_failed)
        named = [
            (topic.name, entry.partition_index)
            for topic in request.topics
            for entry in topic.partitions
        ]
        return _response(error, dict.fromkeys(named, error))
    return _alter(broker, request)


async def _alter(
    broker: BrokerServices, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    wanted = [
        ReassignmentRequest(
            topic.name,
            entry.partition_index,
            None if entry.replicas is None else tuple(entry.replicas),
        )
        for topic in request.topics
        for entry in topic.partitions
    ]
    try:
        results = await broker.control_plane.alter_reassignments(
            wanted,
            may_change_factor=messages.get(request, "allow_replication_factor_change", True),
            timeout_ms=messages.ms(request.timeout),
        )
    except KafkaError as error:
        return _response(error, {})
    return _response(None, results)


def _response(
    error: KafkaError | None, results: dict[tuple[str, int], KafkaError | None]
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for (name, index), problem in results.items():
        topics.setdefault(name, []).append(
            {
                "partition_index": index,
                "error_code": ErrorCode.none if problem is None else problem.code,
                "error_message": None if problem is None else problem.message,
            }
        )
    return {
        "error_code": ErrorCode.none if error is None else error.code,
        "error_message": None if error is None else error.message,
        "responses": [{"name": name, "partitions": each} for name, each in topics.items()],
    }
