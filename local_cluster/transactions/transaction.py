"""One transactional id: its producer and the state of its transaction. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from local_cluster.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_MAX,
)
from local_cluster.transactions.transaction_fsm import (
    TransactionEvent,
    TransactionState,
    next_state,
)

TopicPartition = tuple[str, int]

EPOCH_RAISED_SINCE: Final = 2
"""The transaction.version since which every end raises the producer's epoch (KIP-890)."""
EPOCH_EXHAUSTED: Final = PRODUCER_EPOCH_MAX - 1
"""From this epoch on a producer gets a new id; the last epoch is reserved for fencing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The stored fields of a transactional id, and `last_producer_epoch`, which is not stored."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change. It differs only after the epochs were exhausted."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that follows, while an end is under way that exhausts the epochs."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the last raise. An InitProducerId with it is a retry (KIP-360)."""
    client_version: int = 0
    """transaction.version of the client's last request; from 2 on every end raises the epoch."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= EPOCH_EXHAUSTED

    def is_next(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether this is the producer that follows once the markers are written.

        The client got the new id with the response to its EndTxn, so its next request may arrive
        before the markers are written.
        """
        return (
            self.next_producer_id not in (NO_PRODUCER_ID, self.producer_id)
            and producer_id == self.next_producer_id
            and producer_epoch == 0
        )

    def initialize(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        last_producer_epoch: int,
        timeout_ms: int,
        now_ms: int,
    ) -> Transaction:
        """Give the transactional id to a producer, with a new epoch or a new id."""
        return replace(
            self,
            state=next_state(self.state, TransactionEvent.INITIALIZED),
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            update_ms=now_ms,
            start_ms=NO_TIMESTAMP,
        )

    def add(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        """Add partitions to the transaction; the first ones begin it."""
        begins = self.state is not TransactionState.ONGOING
        return replace(
            self,
            state=next_state(self.state, TransactionEvent.PARTITIONS_ADDED),
            previous_producer_id=self.producer_id,
            partitions=partitions if begins else self.partitions | partitions,
            update_ms=now_ms,
            start_ms=now_ms if begins else self.start_ms,
            client_version=client_version,
        )

    def prepare(
        self,
        *,
        is_commit: bool,
        client_version: int,
        next_producer_id: int = NO_PRODUCER_ID,
        now_ms: int,
    ) -> Transaction:
        """Decide the transaction. From version 2 on this raises the epoch, and markers carry it."""
        event = TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
        begun = self.state is TransactionState.ONGOING
        raises = client_version >= EPOCH_RAISED_SINCE
        return replace(
            self,
            state=next_state(self.state, event),
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX)
            if raises
            else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if raises else self.last_producer_epoch,
            # Kafka stores a start also for an abort without a transaction.
            start_ms=self.start_ms if begun else now_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def complete(self, now_ms: int) -> Transaction:
        """Complete the transaction: every partition has its marker."""
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            state=next_state(self.state, TransactionEvent.MARKED),
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if rotates else self.producer_epoch,
            partitions=frozenset(),
            update_ms=now_ms,
        )
