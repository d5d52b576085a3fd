"""What a shard is asked and what it answers; frozen data without I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import Outcome as RuntimeOutcome
from local_cluster.coordinator_runtime.outcome import StoredRecord
from local_cluster.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from local_cluster.transactions.transaction import TopicPartition, Transaction
from local_cluster.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """Kafka's broker settings that a shard needs, under their own names, with Kafka's defaults."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000


NO_CONNECTION: Final = 0
"""Connections are numbered from 1, in the order in which they came."""


class InitRequest(NamedTuple):
    """One InitProducerId with a transactional id.

    Producer id and epoch are what the producer had before (KIP-360), -1 where it is new;
    `new_producer_id` is a fresh one, -1 until the shard asks for it.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


class ProducerAnswer(NamedTuple):
    """InitProducerId or EndTxn: the producer's id and epoch from now on.

    With `needs_producer_id` nothing was done: ask again with a new producer id.
    """

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    needs_producer_id: bool = False


class AddRequest(NamedTuple):
    """Partitions that join a transaction: AddPartitionsToTxn, AddOffsetsToTxn, or a write of
    version 2, which adds its partition by itself.

    `client_version` is the transaction.version that the client follows, `connection_id` the
    connection by which it asked for this itself.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    connection_id: int = NO_CONNECTION


class EndRequest(NamedTuple):
    """One EndTxn. `new_producer_id` is -1 until the shard asks for it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = 0
    connection_id: int = NO_CONNECTION
    new_producer_id: int = NO_PRODUCER_ID


Answer = ErrorCode | ProducerAnswer | None


@dataclass(slots=True)
class Outcome:
    """What one step wants done: append the records; when they are committed give the answer, and
    write the markers of the transactions that were decided."""

    records: list[StoredRecord] = field(default_factory=list)
    answer: Answer = None
    decided: list[Transaction] = field(default_factory=list)

    def to_runtime(self, ticket: int | None = None) -> RuntimeOutcome:
        """The same for the runtime; without a ticket nobody waits for the answer."""
        answers = [] if ticket is None else [(ticket, self.answer)]
        return RuntimeOutcome(records=self.records, answers=answers, follow_ups=self.decided)
