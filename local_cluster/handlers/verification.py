"""Whether a partition belongs to the ongoing transaction of a producer (KIP-890, part 1).

Asked before the first batch of a transaction in a partition, so that a delayed batch of a producer
whose transaction was ended meanwhile cannot open one that nobody will ever end. On one broker the
coordinator answers at once; another broker is asked with AddPartitionsToTxn v4 (verify only).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.transactions.transaction import TopicPartition

    from .services import BrokerServices

_TOLD: Final = {
    # What clients of this protocol version know, as Kafka translates it.
    ErrorCode.transaction_abortable: ErrorCode.invalid_txn_state,
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
}
_LATER: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
        ErrorCode.broker_not_available,
    }
)


def verify_here(
    broker: BrokerServices,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partition: TopicPartition,
    *,
    later_code: ErrorCode,
) -> ErrorCode | None:
    """The answer of the coordinator on this broker; None if another broker is it.

    `later_code` is the error for "try again": Produce and TxnOffsetCommit have different ones.
    """
    if not broker.transactions.is_here(transactional_id):
        return None
    request = AddRequest(transactional_id, producer_id, producer_epoch, frozenset({partition}))
    try:
        error = broker.transactions.verify(request)[partition]
    except KafkaError as refused:
        error = refused.code
    return _translate(error, later_code)


async def verify(
    broker: BrokerServices,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partition: TopicPartition,
    *,
    later_code: ErrorCode,
) -> ErrorCode:
    """The answer of the coordinator, wherever it is."""
    here = verify_here(
        broker, transactional_id, producer_id, producer_epoch, partition, later_code=later_code
    )
    if here is not None:
        return here
    request = AddRequest(transactional_id, producer_id, producer_epoch, frozenset({partition}))
    try:
        error = (await broker.transactions.verify_elsewhere(request))[partition]
    except KafkaError as refused:
        error = refused.code
    return _translate(error, later_code)


def _translate(error: ErrorCode, later_code: ErrorCode) -> ErrorCode:
    return later_code if error in _LATER else _TOLD.get(error, error)
