"""One transactional id: who its producer is and how far its transaction has come. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from .transaction_fsm import TransactionEvent, TransactionState, next_state

TopicPartition = tuple[str, int]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
PRODUCER_EPOCH_MAX: Final = 32_767
EPOCH_EXHAUSTED: Final = PRODUCER_EPOCH_MAX - 1
"""From here on a producer gets a new id; the last epoch is kept for fencing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What the log keeps of a transactional id, and the last id and epoch, which it does not."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Of the producer before: an InitProducerId that names it is a retry (KIP-360)."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= EPOCH_EXHAUSTED

    def initialize(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        last_producer_epoch: int,
        timeout_ms: int,
        now_ms: int,
    ) -> Transaction:
        """A producer took the transactional id over, under a new epoch or a new id."""
        return replace(
            self,
            state=next_state(self.state, TransactionEvent.INITIALIZED),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            update_ms=now_ms,
            start_ms=NO_TIMESTAMP,
            last_producer_id=self.producer_id,
            last_producer_epoch=last_producer_epoch,
        )

    def add(self, partitions: frozenset[TopicPartition], now_ms: int) -> Transaction:
        """Partitions join the transaction; the first ones begin it."""
        begins = self.state is not TransactionState.ONGOING
        return replace(
            self,
            state=next_state(self.state, TransactionEvent.PARTITIONS_ADDED),
            partitions=partitions if begins else self.partitions | partitions,
            update_ms=now_ms,
            start_ms=now_ms if begins else self.start_ms,
        )

    def prepare(self, *, is_commit: bool, producer_epoch: int, now_ms: int) -> Transaction:
        """The decision; a higher epoch than the producer's fences it."""
        event = TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
        return replace(
            self,
            state=next_state(self.state, event),
            producer_epoch=producer_epoch,
            update_ms=now_ms,
        )

    def complete(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        return replace(
            self,
            state=next_state(self.state, TransactionEvent.MARKED),
            partitions=frozenset(),
            update_ms=now_ms,
        )
