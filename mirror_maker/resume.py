"""Where a flow goes on: proved from the target's log, never taken from a counter. Pure.

The map says up to where the copy was acknowledged and written down (`ResumeBase`). What a worker
wrote after that lies on the target with the link's producer id, in sequence: the tail. `TailReader`
collects it and checks that the log continues the map. `Pairing` walks the tail and the source's
copyable batches side by side until every record of the tail has its source record. What results
(runs, source position, next sequence) is exactly what a worker that never died would know.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.wire.errors import ErrorCode, KafkaError

from .formats import Block, Opening, Run
from .model import SEQUENCE_MASK, DescribedProducer, PairingError, advance_sequence
from .passthrough import CopyPath, SourceBatch

MISSING_RECORDS_MAX: Final = 1 << 30
"""A distance between sequences beyond this is one backwards, seen modulo 2**31."""


class ResumeBase(NamedTuple):
    """The state that the map proves; the tail is read from here."""

    producer_id: int
    producer_epoch: int
    source_next: int
    target_next: int
    next_sequence: int
    has_records: bool
    """False right after an opening: then no own batch lies before `target_next`."""


def resume_base(opening: Opening, last: Block | None) -> ResumeBase:
    """What the opening that holds and the last block of its epoch prove."""
    if last is None:
        return ResumeBase(
            opening.producer_id,
            opening.producer_epoch,
            opening.source_offset,
            opening.target_offset,
            0,
            has_records=False,
        )
    return ResumeBase(
        last.producer_id,
        last.producer_epoch,
        last.source_next,
        last.target_next,
        last.next_sequence,
        # A block without runs says nothing of the target. One that begins behind records of its
        # epoch (a closed block, or a hole, lies before it) ends right behind such a record.
        has_records=bool(last.runs) or last.target_start > opening.target_offset,
    )


class TargetBatch(NamedTuple):
    """One of our own batches on the target."""

    header: h.BatchHeader
    view: memoryview


class TailReader:
    """Collects our own batches behind the base; feed it the target's log in order."""

    def __init__(self, base: ResumeBase, log_start_offset: int) -> None:
        self._base = base
        self._log_start_offset = log_start_offset
        # One batch is read again to see that the target still has what the map says it has.
        self.position = max(
            log_start_offset, base.target_next - 1 if base.has_records else base.target_next
        )
        self.batches: list[TargetBatch] = []
        self.others: list[tuple[int, int]] = []
        """Target offsets [from, to) behind the base with batches that are not ours, ascending."""
        self.missing_count = 0
        """Copied records that the target's retention took before they were mapped."""
        self.next_sequence = base.next_sequence
        """After the last batch of ours that is known of."""
        self.last_timestamp_ms: int | None = None
        """Largest timestamp of our last batch, where only the target's word is left of it."""
        self._is_told = False

    @property
    def is_sequence_unknown(self) -> bool:
        """Whether retention may have taken copies behind the base of which no trace is left."""
        return (
            not self.batches
            and not self._is_told
            and self._log_start_offset > self._base.target_next
        )

    @property
    def gone_count(self) -> int:
        """Offsets behind the base that the target no longer has, ours and others'."""
        return max(0, self._log_start_offset - self._base.target_next)

    def take_told(self, producer: DescribedProducer | None) -> None:
        """What the target still knows of our producer says how many copies are missing.

        So it does only if none of them came after the log was read; where others' records may be
        among those that have gone, the caller sees to that. Raises PairingError where what is told
        contradicts the map, KafkaError (try again) where some certainly came since.
        """
        base = self._base
        assert self.is_sequence_unknown
        if producer is None or producer.producer_epoch < base.producer_epoch:
            # Of an older epoch: of ours the target has had nothing, or has forgotten it.
            self._is_told = producer is not None and not base.has_records
            return
        if producer.producer_epoch > base.producer_epoch:
            raise PairingError(
                f"the target knows our producer id at epoch {producer.producer_epoch}, the map at "
                f"{base.producer_epoch}"
            )
        if producer.last_sequence < 0:
            return
        missing = (producer.last_sequence + 1 - base.next_sequence) & SEQUENCE_MASK
        if missing > MISSING_RECORDS_MAX:
            raise PairingError(
                f"the target has sequence {producer.last_sequence} of us, but acknowledged all "
                f"before {base.next_sequence}: it lost records"
            )
        if missing > self.gone_count:
            raise KafkaError(
                ErrorCode.offset_not_available,
                f"what the target has of us up to sequence {producer.last_sequence} is not "
                "committed yet",
            )
        self._is_told = True
        if producer.last_timestamp_ms >= 0:
            self.last_timestamp_ms = producer.last_timestamp_ms
        self.missing_count = missing
        self.next_sequence = advance_sequence(base.next_sequence, missing)

    def check_end(self, high_watermark: int) -> None:
        """The target must reach at least to where the map says. Raises PairingError."""
        if high_watermark < self._base.target_next:
            raise PairingError(
                f"the target ends at {high_watermark}, but was acknowledged up to "
                f"{self._base.target_next}: it lost records"
            )

    def feed(self, fetched: memoryview) -> None:
        """Take in a fetch answer from `position`. Raises PairingError."""
        for start, header in h.iter_headers(fetched):
            if header.next_offset <= self.position:
                continue
            self._take(header, fetched[start : start + header.size_bytes])
            self.position = header.next_offset

    def _take(self, header: h.BatchHeader, view: memoryview) -> None:
        base = self._base
        if header.base_offset < base.target_next:
            self._check_last_mapped(header)
            return
        if header.producer_id != base.producer_id or header.is_control:
            if self.others and self.others[-1][1] == header.base_offset:
                self.others[-1] = (self.others[-1][0], header.next_offset)
            else:
                self.others.append((header.base_offset, header.next_offset))
            return
        if header.producer_epoch != base.producer_epoch:
            raise PairingError(
                f"target offset {header.base_offset} has our producer id at epoch "
                f"{header.producer_epoch}, the map knows {base.producer_epoch}"
            )
        missing = (header.base_sequence - self.next_sequence) & SEQUENCE_MASK
        if missing:
            may_miss = not self.batches and self._log_start_offset > base.target_next
            if not may_miss or missing > MISSING_RECORDS_MAX:
                raise PairingError(
                    f"target offset {header.base_offset} has sequence {header.base_sequence}, "
                    f"{self.next_sequence} was expected"
                )
            self.missing_count = missing
        self.batches.append(TargetBatch(header, view))
        self.next_sequence = advance_sequence(header.last_sequence, 1)

    def _check_last_mapped(self, header: h.BatchHeader) -> None:
        base = self._base
        if not base.has_records or header.base_offset > base.target_next - 1:
            return
        at_end = advance_sequence(header.base_sequence, base.target_next - header.base_offset)
        ours = (header.producer_id, header.producer_epoch, at_end)
        if ours != (base.producer_id, base.producer_epoch, base.next_sequence):
            raise PairingError(
                f"target offset {base.target_next - 1} is not the record that was acknowledged "
                "there: the target lost records and got others"
            )


class Pairing:
    """Pairs the tail with a source that still has all of it; `feed` batches in order until
    `is_done`. Where the source may have lost records see `alignment`."""

    def __init__(self, base: ResumeBase, tail: TailReader) -> None:
        self._tail = deque(tail.batches)
        self._missing = tail.missing_count
        self._records: deque[Record] = deque()
        self.runs: list[Run] = []
        self.source_next = base.source_next

    @property
    def is_done(self) -> bool:
        return not self._missing and not self._tail and not self._records

    def advance(self, source_next: int) -> None:
        """Nothing copyable lies before `source_next` in what was fed."""
        if not self.is_done:
            self.source_next = max(self.source_next, source_next)

    def feed(self, batch: SourceBatch) -> None:
        """Pair the next source batch. Raises PairingError, UncopyableBatchError."""
        assert not self.is_done
        if batch.path is CopyPath.PASSTHROUGH and not self._records:
            count = batch.header.records_count
            if self._missing >= count:
                self._missing -= count
                self.source_next = batch.source_next
                return
            if not self._missing and _is_same_batch(batch, self._tail[0]):
                target = self._tail.popleft()
                self._add(batch.header.base_offset, target.header.base_offset, count)
                self.source_next = batch.source_next
                return
        self._feed_records(batch)

    def _feed_records(self, batch: SourceBatch) -> None:
        """Record by record, for batches that were cut, rebuilt or split otherwise."""
        for record in batch.records():
            if self._missing:
                self._missing -= 1
            elif self.is_done:
                # The tail ends inside this batch: the rest of it is still to be copied.
                self.source_next = record.offset
                return
            else:
                self._pair(record)
            self.source_next = record.offset + 1
        self.source_next = batch.source_next

    def _pair(self, record: Record) -> None:
        if not self._records:
            self._records.extend(open_copies(self._tail.popleft()))
        copy = self._records.popleft()
        if copy[1:] != record[1:]:
            raise PairingError(
                f"target offset {copy.offset} is not a copy of source offset {record.offset}"
            )
        self._add(record.offset, copy.offset, 1)

    def _add(self, source_offset: int, target_offset: int, count: int) -> None:
        last = self.runs[-1] if self.runs else None
        if last and (last.source_next, last.target_next) == (source_offset, target_offset):
            self.runs[-1] = last._replace(records_count=last.records_count + count)
        else:
            self.runs.append(Run(source_offset, target_offset, count))


def open_copies(batch: TargetBatch) -> list[Record]:
    """The records of a batch of the tail. Raises PairingError."""
    header, view = batch
    try:
        records = decode_batch(view, 0, header)
    except (CompressionError, CorruptRecordError) as error:
        raise PairingError(f"target offset {header.base_offset}: {error}") from error
    if len(records) != header.last_offset_delta + 1:
        raise PairingError(
            f"target offset {header.base_offset}: the target no longer has every record of the "
            "batch"
        )
    return records


def is_same_content(written: memoryview, found: memoryview) -> bool:
    """Whether two batches hold the same records, whatever became of their headers.

    Raises PairingError where one of them cannot be opened.
    """
    ours, theirs = h.read_header(written), h.read_header(found)
    if ours.crc == theirs.crc and written[h.HEADER_BYTES :] == found[h.HEADER_BYTES :]:
        return True
    try:
        left = decode_batch(written, 0, ours)
        right = decode_batch(found, 0, theirs)
    except (CompressionError, CorruptRecordError) as error:
        raise PairingError(f"target offset {theirs.base_offset}: {error}") from error
    return [record[1:] for record in left] == [record[1:] for record in right]


def _is_same_batch(source: SourceBatch, target: TargetBatch) -> bool:
    ours, theirs = source.header, target.header
    return (
        ours.records_count == theirs.records_count == theirs.last_offset_delta + 1
        and ours.base_timestamp == theirs.base_timestamp
        and ours.max_timestamp == theirs.max_timestamp
        and ours.codec == theirs.codec
        and source.payload == target.view[h.HEADER_BYTES :]
    )
