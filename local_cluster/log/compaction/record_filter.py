"""Which records of a batch survive compaction. Pure.

A round reads the batches of closed segments twice, oldest first. `learn_keys` notes the last offset
of every key of the dirty part; then `RecordFilter.filter` decides on every batch from the log start
offset on. As Kafka's Cleaner and MemoryRecords.filterTo with KIP-534:

    record                                                        fate
    at or beyond `end_offset` (the map does not reach it)         kept
    in an aborted transaction                                     dropped
    older than the last record of its key                         dropped
    newest of its key, with a value                               kept
    newest of its key, a tombstone                                kept until its batch's horizon
    without a key (written before the topic was compacted)        dropped

    batch                                                         fate
    the last of its producer, or of its group of segments         kept, possibly empty
    without records otherwise                                     dropped
    marker of a transaction that still has batches here           kept
    marker of a transaction that has none                         kept until its horizon

The delete horizon is `now + delete.retention.ms` of the first round that meets a tombstone, or a
marker whose transaction has no batches. It replaces the base timestamp, and sets its attribute bit.

Batches keep base offset, last offset delta, epoch, producer and sequence; offsets never change.

Deviations from Kafka:
- No horizon is set at or beyond `end_offset`, where older records may remain.
- An empty batch has no largest timestamp. Kafka keeps it there and in the time index, which then
  points at no record.
- The last batch of every group is kept. Kafka keeps the last of a round.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.log.compaction.compaction_job import Totals
from local_cluster.log.compaction.key_offset_map import KeyOffsetMap
from local_cluster.log.compaction.raw_records import (
    RawRecord,
    empty_batch,
    iter_raw_records,
    payload_of,
    rebuild_batch,
)
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.control import ABORT, COMMIT
from local_cluster.records.header import BatchHeader, Buffer

_CONTROL_KEY: Final = struct.Struct(">hh")
"""The key of a control record: version, type."""


class LastBatch(NamedTuple):
    """The last data offset of an active producer (-1 if it has only a marker), and its epoch."""

    last_offset: int
    epoch: int


class AbortedRange(NamedTuple):
    """The offsets of an aborted transaction; its abort marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True, kw_only=True)
class RecordFilter:
    """One pass over a log, oldest batch first."""

    keys: KeyOffsetMap
    end_offset: int
    """Records from here on are not in `keys` and stay."""
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, LastBatch]
    aborted: Sequence[AbortedRange] = ()
    """By first offset."""
    totals: Totals = field(default_factory=Totals)
    kept_aborts: set[int] = field(default_factory=set)
    """Offsets of the abort markers whose transactions still have batches."""
    _next_aborted: int = 0
    _ongoing_aborted: dict[int, bool] = field(default_factory=dict)
    """Producer id -> whether a batch of the aborted transaction was seen."""
    _ongoing_committed: set[int] = field(default_factory=set)

    def filter(
        self, buffer: Buffer, position: int, header: BatchHeader, *, is_last: bool
    ) -> Buffer | None:
        """Return the batch's bytes, new bytes, or None to drop it.

        `is_last` keeps it in any case. Raises CompressionError, CorruptRecordError.
        """
        self.totals.batches_read += 1
        self.totals.records_read += header.records_count
        dropped_whole, marks_nothing = self._judge(buffer, position, header)
        retained: list[RawRecord] = []
        payload = b""
        if header.records_count and not dropped_whole:
            payload = payload_of(buffer, position, header)
            retained = [
                record
                for record in iter_raw_records(payload, header.records_count)
                if header.is_control or self._keeps(record, header)
            ]
        if not retained:
            if not is_last and not self._is_last_of_producer(header):
                return None
            self.totals.batches_kept += 1
            return empty_batch(header)
        self.totals.batches_kept += 1
        self.totals.records_kept += len(retained)
        needs_horizon = self._needs_horizon(header, retained, marks_nothing)
        if len(retained) == header.records_count and not needs_horizon:
            return memoryview(buffer)[position : position + header.size_bytes]
        horizon_ms = self.now_ms + self.delete_retention_ms if needs_horizon else None
        return rebuild_batch(header, payload, retained, horizon_ms)

    def _keeps(self, record: RawRecord, header: BatchHeader) -> bool:
        offset = header.base_offset + record.offset_delta
        if offset >= self.end_offset:
            return True
        if record.key is None or offset < self.keys.get(record.key):
            return False
        return record.has_value or not self._is_past_horizon(header)

    def _needs_horizon(
        self, header: BatchHeader, retained: Sequence[RawRecord], marks_nothing: bool
    ) -> bool:
        # Older records of a tombstone beyond the map remain: its horizon is not due yet.
        if header.has_delete_horizon or header.last_offset >= self.end_offset:
            return False
        if header.is_control:
            return marks_nothing
        return not all(record.has_value for record in retained)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self.now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _judge(self, buffer: Buffer, position: int, header: BatchHeader) -> tuple[bool, bool]:
        """Return (whether to drop all records, whether it is a marker without batches before it)"""
        while (
            self._next_aborted < len(self.aborted)
            and self.aborted[self._next_aborted].first_offset <= header.last_offset
        ):
            self._ongoing_aborted.setdefault(self.aborted[self._next_aborted].producer_id, False)
            self._next_aborted += 1
        if header.is_control:
            marks_nothing = self._ends_nothing(buffer, position, header)
            return marks_nothing and self._is_past_horizon(header), marks_nothing
        if not header.is_transactional:
            return False, False
        if header.producer_id in self._ongoing_aborted:
            self._ongoing_aborted[header.producer_id] = True
            # A batch beyond the map stays whole until the next round.
            return header.last_offset < self.end_offset, False
        self._ongoing_committed.add(header.producer_id)
        return False, False

    def _ends_nothing(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Return whether a control batch ends a transaction that has no batches left."""
        kind = control_type(buffer, position, header)
        if kind is None:
            return True
        if kind == ABORT:
            if self._ongoing_aborted.pop(header.producer_id, False):
                self.kept_aborts.add(header.last_offset)
                return False
            return True
        if kind == COMMIT:
            was_there = header.producer_id in self._ongoing_committed
            self._ongoing_committed.discard(header.producer_id)
            return not was_there
        return False


def learn_keys(
    keys: KeyOffsetMap,
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    start_offset: int,
    is_aborted: bool,
) -> int | None:
    """Put the keys of a batch from `start_offset` on into the map.

    Return the offset of the first record that did not fit, None if all did. Raises
    CompressionError, CorruptRecordError.
    """
    if header.is_control or is_aborted or not header.records_count:
        return None
    for record in iter_raw_records(payload_of(buffer, position, header), header.records_count):
        offset = header.base_offset + record.offset_delta
        if record.key is not None and offset >= start_offset and not keys.put(record.key, offset):
            return offset
    return None


def find_aborted(
    batches: Iterable[tuple[Buffer, int, BatchHeader]],
) -> list[AbortedRange]:
    """Return the aborted transactions of consecutive batches, by first offset.

    Only headers matter; the buffer holds the whole batch only for control batches.
    """
    first_offsets: dict[int, int] = {}
    aborted = []
    for buffer, position, header in batches:
        if not header.is_control:
            if header.is_transactional:
                first_offsets.setdefault(header.producer_id, header.base_offset)
            continue
        first_offset = first_offsets.pop(header.producer_id, None)
        if first_offset is not None and control_type(buffer, position, header) == ABORT:
            aborted.append(AbortedRange(header.producer_id, first_offset, header.last_offset))
    return sorted(aborted, key=lambda transaction: transaction.first_offset)


def control_type(buffer: Buffer, position: int, header: BatchHeader) -> int | None:
    """Return the type of the first control record, None for an empty batch."""
    if not header.records_count:
        return None
    for record in iter_raw_records(payload_of(buffer, position, header), 1):
        if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
            kind: int = _CONTROL_KEY.unpack_from(record.key)[1]
            return kind
    raise CorruptRecordError("a control record without a type")
