"""What of a batch survives compaction, and the bytes of what is left. Pure.

A round reads the batches of closed segments, oldest first, twice: `OffsetMap` learns the last
offset of every key of the dirty part, then `Round.compact` is asked about every batch from the log
start on. As Kafka's Cleaner and MemoryRecords.filterTo with KIP-534:

    record                                                        fate
    at or beyond `end_offset` (the map did not get that far)      kept
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

The horizon is `now + delete.retention.ms` of the first round that meets a tombstone or a marker
whose transaction is gone; it takes the place of the base timestamp, with its attribute bit set.

Batches keep base offset, last offset delta, epoch, producer and sequence; offsets never change.
Records that stay are copied as bytes; only a new horizon rewrites their timestamp deltas.

Deviations from Kafka: no horizon is set at or beyond `end_offset`, where older records may be left;
an empty batch has no largest timestamp (Kafka keeps it there and in the time index, which then
points at no record); the last batch of every group is kept (Kafka: of a round).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.log.compaction.offset_map import OffsetMap
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import compress, decompress
from local_cluster.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    pack_header,
    patch_crc,
)

NO_OFFSET: Final = -1
ABORT: Final = 0
COMMIT: Final = 1

_CONTROL_KEY: Final = struct.Struct(">hh")
_VARINT_SHIFT_MAX: Final = 63


class RawRecord(NamedTuple):
    """One record inside a payload, by where its parts lie."""

    start: int
    """Where its length begins."""
    tail: int
    """Where its offset delta begins: everything from here on stays as it is."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


class LastBatch(NamedTuple):
    """What the log remembers of an active producer: its last data offset (-1 if a marker is all
    there is) and its epoch."""

    last_offset: int
    epoch: int


class AbortedTransaction(NamedTuple):
    """A transaction that ended with an abort marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class Totals:
    """What a round did, for the log and for tests."""

    records_read: int = 0
    records_kept: int = 0
    batches_read: int = 0
    batches_kept: int = 0


@dataclass(slots=True, kw_only=True)
class Round:
    """One pass over a log, oldest batch first."""

    keys: OffsetMap
    end_offset: int
    """Records from here on are not in `keys` and stay."""
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, LastBatch]
    aborted: Sequence[AbortedTransaction] = ()
    """By first offset."""
    totals: Totals = field(default_factory=Totals)
    kept_aborts: set[int] = field(default_factory=set)
    """Offsets of the abort markers whose transactions still had batches in this round."""
    _next_aborted: int = 0
    _ongoing_aborted: dict[int, bool] = field(default_factory=dict)
    """producer id -> whether a batch of the aborted transaction was seen."""
    _ongoing_committed: set[int] = field(default_factory=set)

    def compact(
        self, buffer: Buffer, position: int, header: BatchHeader, *, is_last: bool
    ) -> Buffer | None:
        """What becomes of a batch: its bytes, new bytes, or None where it goes.

        `is_last` keeps it in any case. Raises CompressionError or CorruptRecordError.
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
            return _empty(header)
        self.totals.batches_kept += 1
        self.totals.records_kept += len(retained)
        needs_horizon = self._needs_horizon(header, retained, marks_nothing)
        if len(retained) == header.records_count and not needs_horizon:
            return memoryview(buffer)[position : position + header.size_bytes]
        horizon_ms = self.now_ms + self.delete_retention_ms if needs_horizon else None
        return _rebuild(header, payload, retained, horizon_ms)

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
        # Older records of a tombstone beyond the map are still there: its time has not begun.
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
        """(whether all records go, whether it is a marker whose transaction has no batches)"""
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
            # What lies beyond the map is left alone whole; the next round has it.
            return header.last_offset < self.end_offset, False
        self._ongoing_committed.add(header.producer_id)
        return False, False

    def _ends_nothing(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether a control batch ends a transaction of which nothing is left before it."""
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
    keys: OffsetMap,
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    start_offset: int,
    is_aborted: bool,
) -> int | None:
    """Put the keys of a batch from `start_offset` on into the map.

    Returns the offset of the first record that did not fit, None if all did. Raises
    CompressionError or CorruptRecordError.
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
) -> list[AbortedTransaction]:
    """The aborted transactions of a run of batches, by first offset.

    Only transactional headers matter; the buffer need hold no more than a whole control batch.
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
            aborted.append(AbortedTransaction(header.producer_id, first_offset, header.last_offset))
    return sorted(aborted, key=lambda transaction: transaction.first_offset)


def control_type(buffer: Buffer, position: int, header: BatchHeader) -> int | None:
    """The type of the first control record (0 abort, 1 commit), None in an empty batch."""
    if not header.records_count:
        return None
    for record in iter_raw_records(payload_of(buffer, position, header), 1):
        if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
            kind: int = _CONTROL_KEY.unpack_from(record.key)[1]
            return kind
    raise CorruptRecordError("a control record without a type")


def payload_of(buffer: Buffer, position: int, header: BatchHeader) -> bytes:
    """The records of a batch, decompressed."""
    view = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    return decompress(header.codec, view)


def iter_raw_records(payload: bytes, records_count: int) -> Iterator[RawRecord]:
    """The first `records_count` records of a payload. Raises CorruptRecordError."""
    try:
        yield from _iter_raw_records(payload, records_count)
    except IndexError as error:
        raise CorruptRecordError(f"record cut short: {error}") from error


def _iter_raw_records(payload: bytes, records_count: int) -> Iterator[RawRecord]:
    position = 0
    for _ in range(records_count):
        start = position
        size, position = _read_varint(payload, position)
        end = position + size
        if size < 0 or end > len(payload):
            raise CorruptRecordError("record runs past the end of the batch")
        timestamp_delta, tail = _read_varint(payload, position + 1)
        offset_delta, position = _read_varint(payload, tail)
        key_size, position = _read_varint(payload, position)
        key = None
        if key_size >= 0:
            key = payload[position : position + key_size]
            position += key_size
        value_size, position = _read_varint(payload, position)
        if position > end:
            raise CorruptRecordError("field runs past the end of the record")
        yield RawRecord(start, tail, end, timestamp_delta, offset_delta, key, value_size >= 0)
        position = end


def _rebuild(
    header: BatchHeader,
    payload: bytes,
    retained: Sequence[RawRecord],
    horizon_ms: int | None,
) -> bytearray:
    """The batch with only these records, and with a new horizon if there is one."""
    kept = bytearray()
    if horizon_ms is None:
        base_timestamp, attributes = header.base_timestamp, header.attributes
        for record in retained:
            kept += payload[record.start : record.end]
    else:
        base_timestamp, attributes = horizon_ms, header.attributes | DELETE_HORIZON_BIT
        for record in retained:
            delta = header.base_timestamp + record.timestamp_delta - horizon_ms
            # Attributes of a record are one byte, unused.
            body = b"\0" + _varint(delta) + payload[record.tail : record.end]
            kept += _varint(len(body)) + body
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        newest = max(record.timestamp_delta for record in retained)
        max_timestamp = header.base_timestamp + newest
    compressed = compress(header.codec, kept)
    rebuilt = header._replace(
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(compressed),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=len(retained),
    )
    return _pack(rebuilt, compressed)


def _empty(header: BatchHeader) -> bytearray:
    """The header alone: offsets, epoch, producer and sequence survive, no record does."""
    return _pack(
        header._replace(
            batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            records_count=0,
        ),
        b"",
    )


def _pack(header: BatchHeader, payload: bytes) -> bytearray:
    batch = bytearray(pack_header(header))
    batch += payload
    patch_crc(batch, 0)
    return batch


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    byte = payload[position]
    position += 1
    zigzag = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > _VARINT_SHIFT_MAX:
            raise CorruptRecordError("varint longer than 10 bytes")
        byte = payload[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        shift += 7
    return (zigzag >> 1) ^ -(zigzag & 1), position
