"""The idempotent producers of a log: refuse gaps in their sequences and recognise repetitions.

Pure. It holds the epoch and the last 5 batches of each producer id, as Kafka's ProducerStateManager
and ProducerAppendInfo:

    producer id   epoch           first sequence            decision
    unknown       any             any                       accept (the state may have expired)
    known         lower           any                       invalid_producer_epoch
    known         higher          0                         accept, forget the batches
    known         higher          other                     out_of_order_sequence_number
    known         the same        last + 1 (mod 2**31)      accept
    known         the same        equals one of the 5       duplicate: its original offsets
    known         the same        other                     out_of_order_sequence_number

A producer expires when it has been idle too long by the broker's clock. Kafka uses the times in its
records, and so forgets a producer of old data while it writes.

A producer's transaction is open in this log from its first transactional batch to its marker. It
holds back the last stable offset until the marker itself is replicated (Kafka's "unreplicated"
transactions). The coordinator decides whether a transaction may begin here: the produce handler
asks it, and `begin_verification` shows whether a marker came in between.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.records.control import EndMarker
from local_cluster.records.header import CONTROL_BIT, SEQUENCE_MASK, TRANSACTIONAL_BIT, BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

BATCHES_KEPT: Final = 5
"""Kafka's window: producers have at most 5 requests in flight."""
PRODUCERS_MAX: Final = 100_000
"""Producer ids kept per log; beyond it the tenth that has been idle longest is forgotten."""
NO_OFFSET: Final = -1
EPOCH_RAISED_SINCE: Final = 2
"""From this transaction.version on, a marker's epoch is above that of the records it ends."""


class SequencedBatch(NamedTuple):
    """One batch of a producer; a repetition of it returns these offsets."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended; the marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_seen_ms",
        "last_timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[SequencedBatch] = []
        self.last_timestamp_ms = -1
        self.last_seen_ms = 0
        self.coordinator_epoch = -1
        self.transaction_first_offset = NO_OFFSET

    def copy(self) -> ProducerEntry:
        twin = ProducerEntry(self.epoch)
        twin.batches = list(self.batches)
        twin.last_timestamp_ms = self.last_timestamp_ms
        twin.last_seen_ms = self.last_seen_ms
        twin.coordinator_epoch = self.coordinator_epoch
        twin.transaction_first_offset = self.transaction_first_offset
        return twin


class ProducerState:
    """All producers of one log, as of `end_offset`."""

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        """First offset of the open transaction, by producer id."""
        self._unreplicated: list[CompletedTransaction] = []
        self._verifying: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> SequencedBatch | None:
        """Return None to accept a batch, or the original batch if it is a repetition.

        Changes nothing. Raises KafkaError: invalid_producer_epoch, out_of_order_sequence_number.
        """
        entry = self._entries.get(header.producer_id)
        return None if entry is None else check_sequence(entry, header)

    def stage(self, header: BatchHeader, staged: dict[int, ProducerEntry]) -> None:
        """Check one of several batches of an append; each one sees those before it.

        `staged` is the scratch space of that append. Raises the errors of `check`, and
        duplicate_sequence_number for a repetition: the append has no single pair of original
        offsets to return.
        """
        producer_id = header.producer_id
        entry = staged.get(producer_id)
        if entry is None:
            known = self._entries.get(producer_id)
            entry = staged[producer_id] = (
                ProducerEntry(header.producer_epoch) if known is None else known.copy()
            )
            if known is None:
                _record(entry, header, header.base_offset, header.max_timestamp, 0)
                return
        if check_sequence(entry, header) is not None:
            raise KafkaError(
                ErrorCode.duplicate_sequence_number,
                f"producer {producer_id}: sequence {header.base_sequence} was appended already",
            )
        _record(entry, header, header.base_offset, header.max_timestamp, 0)

    def check_marker(self, producer_id: int, producer_epoch: int, marker: EndMarker) -> None:
        """Check that a marker may be written.

        Raises KafkaError: invalid_producer_epoch, transaction_coordinator_fenced.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        # Version 2 raises the epoch with every marker. So a marker with the epoch of an open
        # transaction belongs to the one before. Without an open one it is a harmless repetition.
        is_late = producer_epoch < entry.epoch or (
            producer_epoch == entry.epoch
            and marker.transaction_version >= EPOCH_RAISED_SINCE
            and entry.transaction_first_offset != NO_OFFSET
        )
        if is_late:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id}: marker of epoch {producer_epoch}, the log has"
                f" {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {marker.coordinator_epoch}, the log has"
                f" {entry.coordinator_epoch}",
            )

    def begin_verification(self, producer_id: int) -> object:
        """Return a token, valid until the producer's next marker or transactional batch."""
        if producer_id not in self._verifying and len(self._verifying) >= PRODUCERS_MAX:
            del self._verifying[next(iter(self._verifying))]
        return self._verifying.setdefault(producer_id, object())

    def is_verified(self, producer_id: int, token: object) -> bool:
        """Return whether a token is still valid."""
        return self._verifying.get(producer_id) is token

    def record(
        self,
        header: BatchHeader,
        base_offset: int,
        timestamp_ms: int,
        now_ms: int,
        marker: EndMarker | None = None,
    ) -> CompletedTransaction | None:
        """Note a batch that was written, replicated or replayed; return the transaction it ended.

        `base_offset` and `timestamp_ms` (the largest) are those in the log; the header may still
        have the producer's. `marker` is the content of a control batch.
        """
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            if len(self._entries) >= PRODUCERS_MAX:
                self._forget_idle()
            entry = self._entries[producer_id] = ProducerEntry(header.producer_epoch)
        _record(entry, header, base_offset, timestamp_ms, now_ms)
        if not header.attributes & TRANSACTIONAL_BIT:
            return None
        self._verifying.pop(producer_id, None)
        if marker is None:
            if header.attributes & CONTROL_BIT:
                # Compaction emptied this marker because nothing is left of its transaction. Only an
                # old snapshot still has that open. `FollowerAppender` ends a follower's rest of it.
                self._open.pop(producer_id, None)
            else:
                self._open.setdefault(producer_id, base_offset)
            return None
        entry.coordinator_epoch = marker.coordinator_epoch
        first_offset = self._open.pop(producer_id, NO_OFFSET)
        if first_offset == NO_OFFSET:
            return None
        completed = CompletedTransaction(
            producer_id, first_offset, base_offset, not marker.is_commit
        )
        self._unreplicated.append(completed)
        return completed

    def restore(self, producer_id: int, entry: ProducerEntry) -> None:
        """Add an entry that was read from a snapshot; it was last seen when it was read."""
        self._entries[producer_id] = entry
        if entry.transaction_first_offset != NO_OFFSET:
            self._open[producer_id] = entry.transaction_first_offset

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were idle for `expiration_ms` and have no open transaction."""
        gone = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_seen_ms >= expiration_ms
        ]
        for producer_id in gone:
            del self._entries[producer_id]

    def forget_replicated(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is below the high watermark."""
        if self._unreplicated:
            self._unreplicated = [
                ended for ended in self._unreplicated if ended.last_offset >= high_watermark
            ]

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction, None if there is none."""
        return min(self._open.values()) if self._open else None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction without a replicated marker, or None.

        A marker is replicated below the high watermark, which must not go back between calls.
        """
        self.forget_replicated(high_watermark)
        first = self.first_open_offset
        for ended in self._unreplicated:
            if first is None or ended.first_offset < first:
                first = ended.first_offset
        return first

    def _forget_idle(self) -> None:
        idle = heapq.nsmallest(
            PRODUCERS_MAX // 10,
            (producer_id for producer_id in self._entries if producer_id not in self._open),
            key=lambda producer_id: self._entries[producer_id].last_seen_ms,
        )
        for producer_id in idle:
            del self._entries[producer_id]


def check_sequence(entry: ProducerEntry, header: BatchHeader) -> SequencedBatch | None:
    """Decide for a known producer, by the table above. See `ProducerState.check`."""
    epoch, sequence = header.producer_epoch, header.base_sequence
    if (
        entry.transaction_first_offset != NO_OFFSET
        and epoch == entry.epoch
        and not header.attributes & TRANSACTIONAL_BIT
    ):
        raise KafkaError(
            ErrorCode.invalid_txn_state,
            f"producer {header.producer_id} is in a transaction, the batch is not",
        )
    if sequence < 0 and epoch >= entry.epoch:
        # A coordinator wrote it for its producer (offsets in a transaction), without a sequence.
        return None
    if epoch != entry.epoch:
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id}: epoch {epoch}, the log has {entry.epoch}",
            )
        if sequence:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id}: epoch {epoch} begins with sequence {sequence},"
                " expected 0",
            )
        return None
    batches = entry.batches
    last_sequence = batches[-1].last_sequence if batches else -1
    if sequence == (last_sequence + 1) & SEQUENCE_MASK:
        return None
    delta = header.last_offset_delta
    repeated = header.last_sequence
    for batch in batches:
        if batch.last_sequence == repeated and batch.offset_delta == delta:
            return batch
    raise KafkaError(
        ErrorCode.out_of_order_sequence_number,
        f"producer {header.producer_id}: sequence {sequence} after {last_sequence}",
    )


def _record(
    entry: ProducerEntry, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int
) -> None:
    batches = entry.batches
    if header.producer_epoch != entry.epoch:
        entry.epoch = header.producer_epoch
        batches.clear()
    entry.last_timestamp_ms = timestamp_ms
    entry.last_seen_ms = now_ms
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        entry.transaction_first_offset = NO_OFFSET
        return
    delta = header.last_offset_delta
    batches.append(SequencedBatch(header.last_sequence, base_offset + delta, delta, timestamp_ms))
    if len(batches) > BATCHES_KEPT:
        del batches[0]
    if attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset == NO_OFFSET:
        entry.transaction_first_offset = base_offset
