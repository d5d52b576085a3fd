"""OffsetForLeaderEpoch v2-v4 (KIP-320): where an epoch ended in the leader's log.

A consumer asks after a change of leadership whether what it has read is still in the log. v2 lets
the client name the epoch it believes in (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH), v3 names the
replica that asks, v4 is flexible. The answer is the largest epoch that is not above the one asked
for and the offset after its last record; -1 and -1 where that is not known.

Deviation from Kafka: v0 and v1 are not served, as in Kafka 4. A restarted leader has a new epoch
without a record of its own (see the control plane), which ends at the end of the log, as in Kafka.
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, min_version=2, max_version=4)
def offset_for_leader_epoch(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Answer each partition by itself."""
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    _partition(broker, context, topic.topic, entry) for entry in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _partition(
    broker: BrokerServices, context: RequestContext, topic: str, entry: Any
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "error_code": ErrorCode.none,
        "partition": entry.partition,
        "leader_epoch": -1,
        "end_offset": -1,
    }
    try:
        if not broker.authorize(context, "DESCRIBE", "TOPIC", topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        partition = broker.replicas.get_leader(topic, entry.partition)
        partition.require_leader(entry.current_leader_epoch)
        if entry.current_leader_epoch < NO_EPOCH:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        end = partition.epoch_end(entry.leader_epoch)
    except KafkaError as error:
        return answer | {"error_code": error.code}
    return answer | {"leader_epoch": end.epoch, "end_offset": end.end_offset}
