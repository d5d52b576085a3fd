"""Verify, or add, the partitions of a transaction where they are written (KIP-890).

The leader of a partition asks the transaction coordinator before it appends a transaction's first
batch. Otherwise a delayed batch, of a producer whose transaction has ended meanwhile, could open a
transaction that nobody ends. Clients of transaction version 1 tell the coordinator themselves, so
the leader verifies that they did; for clients of version 2 the leader adds the partition. A
coordinator on another broker is asked with AddPartitionsToTxn v4+.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.handlers.transactions.marker_wait import after_markers
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices
    from local_cluster.replication.partition import Partition
    from local_cluster.transactions.transaction import TopicPartition

CLIENT_VERSION_ADDING: Final = 2

Errors = Mapping["TopicPartition", ErrorCode]


class SupportedOperation(NamedTuple):
    """What a version of Produce or TxnOffsetCommit asks of the coordinator, and which errors it
    knows (Kafka's TransactionSupportedOperation)."""

    adds: bool
    """Add the partition (transaction version 2) instead of verifying it."""
    knows_abortable: bool
    retriable: ErrorCode
    """The error that clients of this request retry."""

    @staticmethod
    def of_produce(version: int) -> SupportedOperation:
        return SupportedOperation(version >= 12, version >= 11, ErrorCode.not_enough_replicas)

    @staticmethod
    def of_offset_commit(version: int) -> SupportedOperation:
        retriable = ErrorCode.coordinator_load_in_progress
        return SupportedOperation(version >= 5, version >= 4, retriable)

    def translate(self, error: ErrorCode) -> ErrorCode:
        """Translate an error of the coordinator for this request, as Kafka does."""
        if error is ErrorCode.concurrent_transactions and self.adds:
            return error
        if error in _RETRIABLE:
            return self.retriable
        if error is ErrorCode.transaction_abortable and not self.knows_abortable:
            return ErrorCode.invalid_txn_state
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        return error


_RETRIABLE: Final = frozenset(
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


class UnverifiedPartition(NamedTuple):
    """A partition where a producer's transaction starts, and the token of its verification."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    token: object

    def is_still_valid(self, operation: SupportedOperation) -> bool:
        """Return whether no marker has ended the transaction since the coordinator was asked.

        If the partition was added, markers in between belong to the previous transaction, whose
        end was waited for. Markers of this one have a higher epoch, and the log refuses the batch.
        """
        return (
            operation.adds
            or has_open_transaction(self.partition, self.producer_id, self.producer_epoch)
            or self.partition.log.producers.is_verified(self.producer_id, self.token)
        )


def begin_verification(
    partition: Partition, producer_id: int, producer_epoch: int
) -> UnverifiedPartition:
    """Note in the log that the coordinator is being asked."""
    token = partition.log.producers.begin_verification(producer_id)
    return UnverifiedPartition(partition, producer_id, producer_epoch, token)


def has_open_transaction(partition: Partition, producer_id: int, producer_epoch: int) -> bool:
    """Return whether the producer's transaction has started in this partition."""
    known = partition.log.producers.get(producer_id)
    return (
        known is not None and known.epoch == producer_epoch and known.transaction_first_offset >= 0
    )


def is_verification_enabled(broker: BrokerServices) -> bool:
    """Return transaction.partition.verification.enable, which is about version 1."""
    value = broker.configs.get("transaction.partition.verification.enable", "true")
    return value.lower() != "false"


def verify_locally(
    broker: BrokerServices, request: AddRequest, operation: SupportedOperation
) -> Errors | None:
    """Ask the coordinator on this broker; None if the answer has to be waited for."""
    if operation.adds or not broker.transactions.is_here(request.transactional_id):
        return None
    try:
        errors = broker.transactions.verify(request)
    except KafkaError as refused:
        return dict.fromkeys(request.partitions, operation.translate(refused.code))
    return {key: operation.translate(error) for key, error in errors.items()}


async def verify_or_add(
    broker: BrokerServices, request: AddRequest, operation: SupportedOperation
) -> Errors:
    """Ask the coordinator, wherever it is."""
    if operation.adds:
        adding = request._replace(client_version=CLIENT_VERSION_ADDING)
        errors = await after_markers(
            broker,
            lambda _: _ask(broker, adding, verify_only=False),
            lambda errors: ErrorCode.concurrent_transactions in errors.values(),
        )
    else:
        errors = await _ask(broker, request, verify_only=True)
    return {key: operation.translate(error) for key, error in errors.items()}


async def _ask(broker: BrokerServices, request: AddRequest, *, verify_only: bool) -> Errors:
    try:
        return await broker.transactions.join(request, verify_only=verify_only)
    except KafkaError as refused:
        return dict.fromkeys(request.partitions, refused.code)
