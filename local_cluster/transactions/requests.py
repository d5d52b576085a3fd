"""The requests and responses of a transaction shard, and its settings; frozen data without I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import Outcome, StoredRecord
from local_cluster.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from local_cluster.transactions.transaction import (
    TopicPartition,
    Transaction,
)
from local_cluster.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """Kafka's broker settings for transactions, with Kafka's names and defaults."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    transactional_ids_max: int = 100_000
    """Transactional ids of one partition of __transaction_state. Kafka has no limit."""


NO_CONNECTION: Final = 0
"""Connections are numbered from 1 in the order in which they were opened."""


class InitRequest(NamedTuple):
    """One InitProducerId with a transactional id.

    A new producer has -1 as producer id and epoch; any other names what it had (KIP-360).
    `new_producer_id` is an unused id, or -1 until the shard asks for it.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


class ProducerResponse(NamedTuple):
    """The response to InitProducerId or EndTxn: the producer's id and epoch from now on.

    With `needs_producer_id` nothing has happened: repeat the request with a new producer id.
    """

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    needs_producer_id: bool = False


class AddRequest(NamedTuple):
    """Partitions that join a transaction: by AddPartitionsToTxn, by AddOffsetsToTxn, or by a write
    of version 2, which adds its partition itself.

    `client_version` is the transaction.version of the client. `connection_id` is the client's
    connection, if the client sent the request itself. `is_again`: the request waited in the broker
    for the markers of the previous transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    connection_id: int = NO_CONNECTION
    is_again: bool = False


class EndRequest(NamedTuple):
    """One EndTxn. `new_producer_id` is -1 until the shard asks for it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = 0
    connection_id: int = NO_CONNECTION
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(slots=True)
class TransactionOutcome:
    """The result of one step: the records to append, and what follows when they are committed: the
    response, and the markers of the decided transactions."""

    records: list[StoredRecord] = field(default_factory=list)
    response: ErrorCode | ProducerResponse | None = None
    decided: list[Transaction] = field(default_factory=list)

    def to_runtime(self, ticket: int | None = None) -> Outcome:
        """Convert to an outcome of the runtime; without a ticket there is no response."""
        responses = [] if ticket is None else [(ticket, self.response)]
        return Outcome(records=self.records, responses=responses, follow_ups=self.decided)
