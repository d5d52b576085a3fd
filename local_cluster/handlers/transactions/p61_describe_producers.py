"""DescribeProducers v0: the producers of a partition and their open transactions (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import DEFAULT_MESSAGES, ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest

    from local_cluster.wire.responses.transactions import (
        DescribeProducersResponse,
        PartitionResponse,
    )


@handles(ApiKey.DESCRIBE_PRODUCERS, min_version=0, max_version=0)
def describe_producers(
    broker: BrokerServices, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that the log of each partition knows."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _describe(broker, context, topic.name, index)
                    for index in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
    }


def _describe(
    broker: BrokerServices, context: RequestContext, topic: str, index: int
) -> PartitionResponse:
    try:
        if not broker.authorize(context, "READ", "TOPIC", topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        problem = topic_name_problem(topic)
        if problem is not None:
            raise KafkaError(ErrorCode.invalid_topic_exception, problem)
        producers = broker.replicas.get_leader(topic, index).log.producers
    except KafkaError as error:
        message = error.message
        if not message and topic not in broker.metadata.topics:
            message = DEFAULT_MESSAGES.get(error.code, "")
        return {
            "partition_index": index,
            "error_code": error.code,
            "error_message": message or None,
            "active_producers": (),
        }
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": entry.epoch,
                "last_sequence": entry.batches[-1].last_sequence if entry.batches else -1,
                "last_timestamp": entry.last_timestamp_ms,
                "coordinator_epoch": entry.coordinator_epoch,
                "current_txn_start_offset": entry.transaction_first_offset,
            }
            for producer_id, entry in producers
        ],
    }
