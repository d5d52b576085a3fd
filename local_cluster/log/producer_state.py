"""What a log knows of its idempotent producers, to refuse gaps and recognise repetitions.

Pure. Per producer id the epoch and the last 5 batches, as Kafka's ProducerStateManager and
ProducerAppendInfo:

    producer id   epoch           first sequence            decision
    unknown       any             any                       accept (the state may have expired)
    known         lower           any                       invalid_producer_epoch
    known         higher          0                         accept, forget the batches
    known         higher          other                     out_of_order_sequence_number
    known         the same        last + 1 (mod 2**31)      accept
    known         the same        equals one of the 5       duplicate: its original offsets
    known         the same        other                     out_of_order_sequence_number

Expiry goes by when a producer was last seen at work, by the broker's clock. Kafka goes by the times
in its records, and so forgets a producer of old data while it writes.

Not here: transactions beyond the first offset of an open one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

BATCHES_KEPT: Final = 5
"""Kafka's window: producers have at most 5 requests in flight."""
PRODUCERS_MAX: Final = 100_000
"""Producer ids kept per log; beyond it the tenth that was seen longest ago is forgotten."""
SEQUENCE_MASK: Final = 0x7FFFFFFF
NO_OFFSET: Final = -1


class SequencedBatch(NamedTuple):
    """One batch of a producer: what a repetition of it is answered with."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


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

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> SequencedBatch | None:
        """Decide on a batch of a producer: None to accept it, the original if it is a repetition.

        Changes nothing. Raises KafkaError(invalid_producer_epoch, out_of_order_sequence_number).
        """
        entry = self._entries.get(header.producer_id)
        return None if entry is None else check_sequence(entry, header)

    def stage(self, header: BatchHeader, staged: dict[int, ProducerEntry]) -> None:
        """As `check`, for one of several batches of an append, each seeing those before it.

        `staged` is the scratch of that append. A repetition among them is refused with
        duplicate_sequence_number: the append has no single pair of original offsets.
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
                f"producer {producer_id}: sequence {header.base_sequence} is there already",
            )
        _record(entry, header, header.base_offset, header.max_timestamp, 0)

    def record(self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Take over a batch that was written (or replicated, or replayed).

        Its base offset and largest timestamp are given as they are in the log, where the header
        may still have the producer's.
        """
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            if len(self._entries) >= PRODUCERS_MAX:
                self._forget_idle()
            entry = self._entries[producer_id] = ProducerEntry(header.producer_epoch)
        _record(entry, header, base_offset, timestamp_ms, now_ms)

    def restore(self, producer_id: int, entry: ProducerEntry) -> None:
        """Put in an entry that was read from a snapshot, with the time of reading as last seen."""
        self._entries[producer_id] = entry

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have written nothing for `expiration_ms` and have nothing open."""
        gone = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_seen_ms >= expiration_ms
        ]
        for producer_id in gone:
            del self._entries[producer_id]

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is still open."""
        return min(
            (
                entry.transaction_first_offset
                for entry in self._entries.values()
                if entry.transaction_first_offset != NO_OFFSET
            ),
            default=None,
        )

    def _forget_idle(self) -> None:
        idle = heapq.nsmallest(
            PRODUCERS_MAX // 10,
            self._entries,
            key=lambda producer_id: self._entries[producer_id].last_seen_ms,
        )
        for producer_id in idle:
            del self._entries[producer_id]


def check_sequence(entry: ProducerEntry, header: BatchHeader) -> SequencedBatch | None:
    """The table above for a known producer."""
    epoch, sequence = header.producer_epoch, header.base_sequence
    if epoch != entry.epoch:
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id}: epoch {epoch}, {entry.epoch} was seen",
            )
        if sequence:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id}: epoch {epoch} begins with sequence {sequence}",
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
