"""How partitions come into transactions where they are written (KIP-890).

Before the first batch of a transaction in a partition the transaction's coordinator is asked, so
that a delayed batch of a producer whose transaction was ended meanwhile cannot open one that nobody
will ever end. Clients of transaction version 1 have told the coordinator themselves, so it is asked
whether they did; for those of version 2 the partition is added here. A coordinator on another
broker is asked by AddPartitionsToTxn v4+.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices
    from local_cluster.replication.partition import Partition
    from local_cluster.transactions.transaction import TopicPartition

CLIENT_VERSION_ADDING: Final = 2
RETRY_SECONDS_MIN: Final = 0.001
RETRY_MS_MAX_DEFAULT: Final = 20
"""Default of add.partitions.to.txn.retry.backoff.ms: the longest pause between two questions."""
RETRIES_MS_MAX_DEFAULT: Final = 100
"""Default of add.partitions.to.txn.retry.backoff.max.ms: how long the markers of the transaction
before are waited for, until the client is told CONCURRENT_TRANSACTIONS."""

Errors = Mapping["TopicPartition", ErrorCode]


class Joining(NamedTuple):
    """What a version of Produce or TxnOffsetCommit asks of the coordinator, and may be told."""

    adds: bool
    """The write adds its partition (transaction version 2), otherwise that is verified."""
    knows_abortable: bool
    later: ErrorCode
    """The error for "try again" that clients of this request know."""

    @staticmethod
    def of_produce(version: int) -> Joining:
        return Joining(version >= 12, version >= 11, ErrorCode.not_enough_replicas)

    @staticmethod
    def of_offset_commit(version: int) -> Joining:
        return Joining(version >= 5, version >= 4, ErrorCode.coordinator_load_in_progress)

    def told(self, error: ErrorCode) -> ErrorCode:
        """The coordinator's error as Kafka translates it for this request."""
        if error is ErrorCode.concurrent_transactions and self.adds:
            return error
        if error in _LATER:
            return self.later
        if error is ErrorCode.transaction_abortable and not self.knows_abortable:
            return ErrorCode.invalid_txn_state
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        return error


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


class Unjoined(NamedTuple):
    """A partition that begins with a producer's batch, and the token of the question about it."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    token: object

    def is_still_good(self, joining: Joining) -> bool:
        """Whether no marker has ended, since the coordinator was asked, what it spoke of.

        Where the partition was added, the markers that may have come are those of the transaction
        before, whose end was waited for; markers of this one have a higher epoch, and the log
        refuses the batch.
        """
        return (
            joining.adds
            or is_open(self.partition, self.producer_id, self.producer_epoch)
            or self.partition.log.producers.is_verified(self.producer_id, self.token)
        )


def begin(partition: Partition, producer_id: int, producer_epoch: int) -> Unjoined:
    """Note that the coordinator is going to be asked."""
    token = partition.log.producers.begin_verification(producer_id)
    return Unjoined(partition, producer_id, producer_epoch, token)


def is_open(partition: Partition, producer_id: int, producer_epoch: int) -> bool:
    """Whether the producer's transaction was begun in this partition already."""
    known = partition.log.producers.get(producer_id)
    return (
        known is not None and known.epoch == producer_epoch and known.transaction_first_offset >= 0
    )


def is_verifying(broker: BrokerServices) -> bool:
    """Whether version 1 is verified: transaction.partition.verification.enable."""
    value = broker.settings.config.get("transaction.partition.verification.enable", "true")
    return value.lower() != "false"


def verify_here(broker: BrokerServices, request: AddRequest, joining: Joining) -> Errors | None:
    """The answer of the coordinator on this broker at once; None where it has to be waited for."""
    if joining.adds or not broker.transactions.is_here(request.transactional_id):
        return None
    try:
        errors = broker.transactions.verify(request)
    except KafkaError as refused:
        return dict.fromkeys(request.partitions, joining.told(refused.code))
    return {key: joining.told(error) for key, error in errors.items()}


async def join(broker: BrokerServices, request: AddRequest, joining: Joining) -> Errors:
    """The answer of the coordinator, wherever it is."""
    if joining.adds:
        errors = await _add(broker, request._replace(client_version=CLIENT_VERSION_ADDING))
    else:
        errors = await _ask(broker, request, verify_only=True)
    return {key: joining.told(error) for key, error in errors.items()}


async def _add(broker: BrokerServices, request: AddRequest) -> Errors:
    """Add the partitions; while the transaction before is just being ended, again."""
    read = broker.settings.config_int
    pause_max = read("add.partitions.to.txn.retry.backoff.ms", RETRY_MS_MAX_DEFAULT) / 1000
    left = read("add.partitions.to.txn.retry.backoff.max.ms", RETRIES_MS_MAX_DEFAULT) / 1000
    pause = min(RETRY_SECONDS_MIN, pause_max)
    while True:
        errors = await _ask(broker, request, verify_only=False)
        if ErrorCode.concurrent_transactions not in errors.values() or pause > left or not pause:
            return errors
        await asyncio.sleep(pause)
        left -= pause
        pause = min(2 * pause, pause_max)


async def _ask(broker: BrokerServices, request: AddRequest, *, verify_only: bool) -> Errors:
    try:
        return await broker.transactions.join(request, verify_only=verify_only)
    except KafkaError as refused:
        return dict.fromkeys(request.partitions, refused.code)
