"""DescribeTransactions v0: state, producer and partitions of transactional ids (KIP-664).

Topics that the client may not describe are left out, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.transactions.transaction import Transaction
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest

    from local_cluster.wire.responses.transactions import (
        DescribeTransactionsResponse,
        DescribeTransactionsTransactionState,
    )


@handles(ApiKey.DESCRIBE_TRANSACTIONS, min_version=0, max_version=0)
def describe_transactions(
    broker: BrokerServices, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each transactional id by itself; only its coordinator knows it."""
    return {
        "transaction_states": [
            _describe(broker, context, transactional_id)
            for transactional_id in request.transactional_ids
        ]
    }


def _describe(
    broker: BrokerServices, context: RequestContext, transactional_id: str
) -> DescribeTransactionsTransactionState:
    if not transactional_id:
        return _state(ErrorCode.invalid_request, transactional_id)
    try:
        if not broker.authorize(context, "DESCRIBE", "TRANSACTIONAL_ID", transactional_id):
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
        known = broker.transactions.describe(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.transactional_id_not_found)
    except KafkaError as error:
        return _state(error.code, transactional_id)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(known.partitions):
        by_topic.setdefault(topic, []).append(partition)
    seen = {
        topic: indexes
        for topic, indexes in by_topic.items()
        if broker.may(context, "DESCRIBE", "TOPIC", topic)
    }
    return _state(ErrorCode.none, transactional_id, known, seen)


def _state(
    error: ErrorCode,
    transactional_id: str,
    known: Transaction | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> DescribeTransactionsTransactionState:
    return {
        "error_code": error,
        "transactional_id": transactional_id,
        "transaction_state": known.state.value if known else "",
        "transaction_timeout": known.timeout_ms if known else 0,
        # -1 for a transaction that never started.
        "transaction_start_time": known.start_ms if known else 0,
        # Zeros in an error, as in Kafka.
        "producer_id": known.producer_id if known else 0,
        "producer_epoch": known.producer_epoch if known else 0,
        "topics": [
            {"topic": topic, "partitions": tuple(indexes)}
            for topic, indexes in (partitions or {}).items()
        ],
    }
