"""AddPartitionsToTxn v0-v5: add partitions to a transaction before it writes them (KIP-98).

v2 has PRODUCER_FENCED (KIP-588). v4 takes several transactions and is for brokers: they verify
partitions, or add those that a client of transaction version 2 writes (KIP-890). So it needs
CLUSTER_ACTION and nothing else. v5 has TRANSACTION_ABORTABLE.

All partitions are added or none: if a topic is unknown or not authorized, its partitions get that
error and the others OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.marker_wait import add_after_markers
from local_cluster.handlers.transactions.partition_verification import CLIENT_VERSION_ADDING
from local_cluster.handlers.transactions.transaction_errors import error_for_version
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v3 import request as v3
    from kio.schema.add_partitions_to_txn.v5.request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
    )

    Topics = Sequence[AddPartitionsToTxnTopic] | Sequence[v3.AddPartitionsToTxnTopic]

    from local_cluster.wire.responses.transactions import (
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTopicResult,
    )

VERSION_BETWEEN_BROKERS: Final = 4

Errors = Mapping[TopicPartition, ErrorCode]


@handles(ApiKey.ADD_PARTITIONS_TO_TXN, min_version=0, max_version=5)
def add_partitions_to_txn(
    broker: BrokerServices, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Add partitions to a transaction, or verify that they were added."""
    if context.api_version < VERSION_BETWEEN_BROKERS:
        return _for_client(broker, context, cast("v3.AddPartitionsToTxnRequest", request))
    if not broker.authorize(context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster"):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    return _for_broker(broker, context, request)


async def _for_client(
    broker: BrokerServices, context: RequestContext, request: v3.AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    wanted = _add_request(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics,
    )
    errors = await _add(broker, context, wanted)
    return {"results_by_topic_v3_and_below": _topic_results(topics, errors, context.api_version)}


async def _for_broker(
    broker: BrokerServices, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Handle all transactions concurrently."""
    wanted = [
        _add_request(entry.transactional_id, entry.producer_id, entry.producer_epoch, entry.topics)
        for entry in request.transactions
    ]
    results = await asyncio.gather(
        *(
            _verify_or_add(broker, add, verify_only=entry.verify_only)
            for add, entry in zip(wanted, request.transactions, strict=True)
        )
    )
    return {
        "error_code": ErrorCode.none,
        "results_by_transaction": [
            {
                "transactional_id": entry.transactional_id,
                "topic_results": _topic_results(entry.topics, errors, context.api_version),
            }
            for entry, errors in zip(request.transactions, results, strict=True)
        ],
    }


async def _verify_or_add(
    broker: BrokerServices, wanted: AddRequest, *, verify_only: bool
) -> Errors:
    try:
        if verify_only:
            return broker.transactions.verify(wanted)
        error = await broker.transactions.add_partitions(
            wanted._replace(client_version=CLIENT_VERSION_ADDING)
        )
    except KafkaError as refused:
        error = refused.code
    return dict.fromkeys(wanted.partitions, error)


async def _add(broker: BrokerServices, context: RequestContext, wanted: AddRequest) -> Errors:
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
    adding = wanted._replace(connection_id=context.connection_id)
    return dict.fromkeys(wanted.partitions, await add_after_markers(broker, adding))


def _add_request(
    transactional_id: str, producer_id: int, producer_epoch: int, topics: Topics
) -> AddRequest:
    partitions: frozenset[TopicPartition] = frozenset(
        (topic.name, index) for topic in topics for index in topic.partitions
    )
    return AddRequest(transactional_id, producer_id, producer_epoch, partitions)


def _topic_results(
    topics: Topics, errors: Errors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": index,
                    "partition_error_code": error_for_version(errors[topic.name, index], version),
                }
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]
