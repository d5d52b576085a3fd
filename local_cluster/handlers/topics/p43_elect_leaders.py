"""ElectLeaders v0-v2 (KIP-183, KIP-460): preferred or unclean elections; the controller only.

v1 adds the election type (0 preferred, 1 unclean); v2 is flexible. Null partitions stand for all;
the response then leaves out those that need no election, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

    from local_cluster.wire.responses.topics import ElectLeadersResponse, PartitionResult

PREFERRED: Final = 0
UNCLEAN: Final = 1


@handles(ApiKey.ELECT_LEADERS, min_version=0, max_version=2)
def elect_leaders(
    broker: BrokerServices, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | Awaitable[ElectLeadersResponse]:
    """Run the elections."""
    if not broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        error = KafkaError(ErrorCode.cluster_authorization_failed)
        return _response(error.code, dict.fromkeys(_named(request), error))
    return _elect(broker, request)


def _named(request: ElectLeadersRequest) -> list[tuple[str, int]]:
    """Return the partitions that the request names; none if it means all."""
    return [
        (entry.topic, index)
        for entry in request.topic_partitions or ()
        for index in entry.partitions
    ]


async def _elect(broker: BrokerServices, request: ElectLeadersRequest) -> ElectLeadersResponse:
    wanted = _named(request)
    if request.topic_partitions is None:
        wanted = [
            (name, index)
            for name, topic in broker.metadata.topics.items()
            for index in topic.partitions
        ]
    try:
        results = await broker.control_plane.elect_leaders(
            wanted,
            unclean=messages.get(request, "election_type", PREFERRED) == UNCLEAN,
            timeout_ms=messages.ms(request.timeout),
        )
    except KafkaError as error:
        wants_all = request.topic_partitions is None
        return _response(error.code, {} if wants_all else dict.fromkeys(wanted, error))
    if request.topic_partitions is None:
        results = {
            key: error
            for key, error in results.items()
            if error is None or error.code != ErrorCode.election_not_needed
        }
    return _response(ErrorCode.none, results)


def _response(
    code: ErrorCode, results: dict[tuple[str, int], KafkaError | None]
) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
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
