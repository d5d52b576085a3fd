"""AlterPartitionReassignments v0-v1 (KIP-455, KIP-860): move replicas, or cancel moves.

The controller only. The answer comes when the moves have begun; ListPartitionReassignments tells
which are under way. v1 may refuse a change of the replication factor.
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, min_version=0, max_version=1)
def alter_partition_reassignments(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """Begin or cancel the moves."""
    if not broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        return _answer(KafkaError(ErrorCode.cluster_authorization_failed), {})
    return _alter(broker, request)


async def _alter(broker: BrokerServices, request: Any) -> dict[str, Any]:
    wanted = [
        ReassignmentRequest(
            topic.name,
            int(entry.partition_index),
            None if entry.replicas is None else tuple(int(each) for each in entry.replicas),
        )
        for topic in request.topics
        for entry in topic.partitions
    ]
    try:
        results = await broker.control_plane.alter_reassignments(
            wanted,
            may_change_factor=bool(messages.get(request, "allow_replication_factor_change", True)),
            timeout_ms=messages.ms(request.timeout),
        )
    except KafkaError as error:
        return _answer(error, {})
    return _answer(None, results)


def _answer(
    error: KafkaError | None, results: dict[tuple[str, int], KafkaError | None]
) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
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
