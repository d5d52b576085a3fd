"""AddPartitionsToTxn v0-v5: partitions that a transaction is going to write (KIP-98).

v2 may answer PRODUCER_FENCED (KIP-588); v4 takes several transactions and is spoken between
brokers, to verify partitions or to add those that a client of transaction version 2 writes
(KIP-890), so it asks for CLUSTER_ACTION and for nothing else. v5 knows TRANSACTION_ABORTABLE.

All partitions join or none: where one topic is not known or not allowed, its partitions are told
so and the others OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.partition_verification import CLIENT_VERSION_ADDING
from local_cluster.handlers.transactions.transaction_errors import error_of, told
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

VERSION_BETWEEN_BROKERS: Final = 4


@handles(ApiKey.ADD_PARTITIONS_TO_TXN, min_version=0, max_version=5)
def add_partitions_to_txn(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Add partitions to a transaction, or verify that they were added."""
    if context.api_version >= VERSION_BETWEEN_BROKERS:
        if not broker.authorize(context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster"):
            return {"error_code": ErrorCode.cluster_authorization_failed}
        return _answer_many(broker, context, request)
    return _answer_one(broker, context, request)


async def _answer_one(
    broker: BrokerServices, context: RequestContext, request: Any
) -> dict[str, Any]:
    wanted = _add_request(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        request.v3_and_below_topics,
    )
    errors = await _add(broker, context, wanted)
    return {
        "results_by_topic_v3_and_below": _topics(
            request.v3_and_below_topics, errors, context.api_version
        )
    }


async def _answer_many(
    broker: BrokerServices, context: RequestContext, request: Any
) -> dict[str, Any]:
    """Each transaction's answer; they are committed side by side."""
    asked = [
        _add_request(entry.transactional_id, entry.producer_id, entry.producer_epoch, entry.topics)
        for entry in request.transactions
    ]
    answers = await asyncio.gather(
        *(
            _join(broker, wanted, verify_only=entry.verify_only)
            for wanted, entry in zip(asked, request.transactions, strict=True)
        )
    )
    return {
        "error_code": ErrorCode.none,
        "results_by_transaction": [
            {
                "transactional_id": entry.transactional_id,
                "topic_results": _topics(entry.topics, errors, context.api_version),
            }
            for entry, errors in zip(request.transactions, answers, strict=True)
        ],
    }


async def _join(
    broker: BrokerServices, wanted: AddRequest, *, verify_only: bool
) -> dict[TopicPartition, ErrorCode]:
    try:
        if verify_only:
            return dict(broker.transactions.verify(wanted))
        error = await broker.transactions.add_partitions(
            wanted._replace(client_version=CLIENT_VERSION_ADDING)
        )
    except KafkaError as refused:
        error = refused.code
    return dict.fromkeys(wanted.partitions, error)


async def _add(
    broker: BrokerServices, context: RequestContext, wanted: AddRequest
) -> dict[TopicPartition, ErrorCode]:
    if not wanted.transactional_id:
        return dict.fromkeys(wanted.partitions, ErrorCode.invalid_request)
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", wanted.transactional_id):
        return dict.fromkeys(wanted.partitions, ErrorCode.transactional_id_authorization_failed)
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic, partition in wanted.partitions:
        if topic in INTERNAL_TOPICS or not broker.authorize(context, "WRITE", "TOPIC", topic):
            refused[topic, partition] = ErrorCode.topic_authorization_failed
        elif broker.metadata.partition(topic, partition) is None:
            refused[topic, partition] = ErrorCode.unknown_topic_or_partition
    if refused:
        others = dict.fromkeys(wanted.partitions, ErrorCode.operation_not_attempted)
        return others | refused
    try:
        added = broker.transactions.add_partitions(
            wanted._replace(connection_id=context.connection_id)
        )
    except KafkaError as error:
        return dict.fromkeys(wanted.partitions, error.code)
    return dict.fromkeys(wanted.partitions, await error_of(added))


def _add_request(
    transactional_id: str, producer_id: int, producer_epoch: int, topics: Any
) -> AddRequest:
    partitions = frozenset((topic.name, index) for topic in topics for index in topic.partitions)
    return AddRequest(transactional_id, producer_id, producer_epoch, partitions)


def _topics(
    topics: Any, errors: dict[TopicPartition, ErrorCode], version: int
) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": index,
                    "partition_error_code": told(errors[topic.name, index], version),
                }
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]
