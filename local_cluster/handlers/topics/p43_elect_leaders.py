"""ElectLeaders v0-v2 (KIP-183, KIP-460): preferred or unclean elections; the controller only.

v1 adds the election type (0 preferred, 1 unclean); v2 is flexible. Without partitions it is about
all of them, and the answer then leaves out those where no election was needed, as in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

UNCLEAN: Final = 1


@handles(ApiKey.ELECT_LEADERS, min_version=0, max_version=2)
def elect_leaders(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Hold the elections."""
    if not broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        return _answer(ErrorCode.cluster_authorization_failed, {})
    return _elect(broker, request)


async def _elect(broker: BrokerServices, request: Any) -> dict[str, Any]:
    everything = request.topic_partitions is None
    if everything:
        wanted = [
            (name, index)
            for name, topic in broker.metadata.topics.items()
            for index in topic.partitions
        ]
    else:
        wanted = [
            (entry.topic, int(index))
            for entry in request.topic_partitions
            for index in entry.partitions
        ]
    try:
        results = await broker.control_plane.elect_leaders(
            wanted,
            unclean=int(messages.get(request, "election_type", 0)) == UNCLEAN,
            timeout_ms=messages.ms(request.timeout),
        )
    except KafkaError as error:
        return _answer(error.code, {} if everything else dict.fromkeys(wanted, error))
    if everything:
        results = {
            key: error
            for key, error in results.items()
            if error is None or error.code != ErrorCode.election_not_needed
        }
    return _answer(ErrorCode.none, results)


def _answer(code: ErrorCode, results: dict[tuple[str, int], KafkaError | None]) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (name, index), error in results.items():
        topics.setdefault(name, []).append(
            {
                "partition_id": index,
                "error_code": ErrorCode.none if error is None else error.code,
                "error_message": None if error is None else error.message,
            }
        )
    return {
        "error_code": code,
        "replica_election_results": [
            {"topic": name, "partition_result": partitions} for name, partitions in topics.items()
        ],
    }
