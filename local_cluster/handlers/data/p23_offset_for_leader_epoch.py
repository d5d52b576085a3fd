"""OffsetForLeaderEpoch v2-v4 (KIP-320): where an epoch ends in the leader's log.

After a change of leadership a consumer asks whether the records that it has read are still in the
log. v2 has the client's current epoch (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH), v3 the replica
id, v4 is flexible. The result is the largest epoch that is not above the requested one, and the
offset after its last record; -1 and -1 if that is unknown.

v0 and v1 are not served, as in Kafka 4. A restarted leader has a new epoch without a record (see
the control plane), which ends at the end of the log, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

    from local_cluster.wire.responses.data import EpochEndOffset, OffsetForLeaderEpochResponse


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, min_version=2, max_version=4)
def offset_for_leader_epoch(
    broker: BrokerServices, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Look up each partition by itself."""
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    _look_up(broker, context, topic.topic, entry) for entry in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _look_up(
    broker: BrokerServices, context: RequestContext, topic: str, entry: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        if not broker.holds(context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster") and not (
            broker.authorize(context, "DESCRIBE", "TOPIC", topic)
        ):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        partition = broker.replicas.get_leader(topic, entry.partition)
        partition.require_leader(entry.current_leader_epoch)
        if entry.current_leader_epoch < NO_EPOCH:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        end = partition.epoch_end(entry.leader_epoch)
    except KafkaError as error:
        return _result(entry.partition, error.code, -1, -1)
    return _result(entry.partition, ErrorCode.none, end.epoch, end.end_offset)


def _result(index: int, code: ErrorCode, epoch: int, end_offset: int) -> EpochEndOffset:
    return {
        "error_code": code,
        "partition": index,
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }
