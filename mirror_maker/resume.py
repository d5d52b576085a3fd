"""Where a flow goes on: proved from the target's log, never taken from a counter. Pure.

The map says up to where the copy was acknowledged and written down (`ResumeBase`). What a worker
wrote after that lies on the target with the link's producer id, in sequence: the tail. `TailReader`
collects it and checks that the log continues the map; `Pairing` walks the tail and the source's
copyable batches side by side until every record of the tail has its source record. What results
(runs, source position, next sequence) is exactly what a worker that never died would know.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError

from .formats import Run
from .model import SEQUENCE_MASK, PairingError, advance_sequence
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
        self.missing_count = 0
        """Copied records that the target's retention took before they were mapped."""
        self._next_sequence = base.next_sequence

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
            return
        if header.producer_epoch != base.producer_epoch:
            raise PairingError(
                f"target offset {header.base_offset} has our producer id at epoch "
                f"{header.producer_epoch}, the map knows {base.producer_epoch}"
            )
        missing = (header.base_sequence - self._next_sequence) & SEQUENCE_MASK
        if missing:
            may_miss = not self.batches and self._log_start_offset > base.target_next
            if not may_miss or missing > MISSING_RECORDS_MAX:
                raise PairingError(
                    f"target offset {header.base_offset} has sequence {header.base_sequence}, "
                    f"{self._next_sequence} was expected"
                )
            self.missing_count = missing
        self.batches.append(TargetBatch(header, view))
        self._next_sequence = advance_sequence(header.last_sequence, 1)

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
    """Pairs the tail with the source; `feed` source batches in order until `is_done`."""

    def __init__(self, base: ResumeBase, tail: TailReader) -> None:
        self._tail = deque(tail.batches)
        self._missing = tail.missing_count
        self._records: deque[Record] = deque()
        self.runs: list[Run] = []
        self.source_next = base.source_next
        self.target_next = base.target_next
        self.next_sequence = base.next_sequence
        if tail.batches:
            self.next_sequence = advance_sequence(tail.batches[-1].header.last_sequence, 1)

    @property
    def is_done(self) -> bool:
        return not self._tail and not self._records

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
                target = self._next_target_record()
                if target[1:] != record[1:]:
                    raise PairingError(
                        f"target offset {target.offset} is not a copy of source offset "
                        f"{record.offset}"
                    )
                self._add(record.offset, target.offset, 1)
            self.source_next = record.offset + 1
        self.source_next = batch.source_next

    def _next_target_record(self) -> Record:
        if not self._records:
            header, view = self._tail.popleft()
            try:
                self._records.extend(decode_batch(view, 0, header))
            except (CompressionError, CorruptRecordError) as error:
                raise PairingError(f"target offset {header.base_offset}: {error}") from error
            if len(self._records) != header.last_offset_delta + 1:
                raise PairingError(
                    f"target offset {header.base_offset}: the target no longer has every record "
                    "of the batch"
                )
        return self._records.popleft()

    def _add(self, source_offset: int, target_offset: int, count: int) -> None:
        self.target_next = target_offset + count
        last = self.runs[-1] if self.runs else None
        if last and (last.source_next, last.target_next) == (source_offset, target_offset):
            self.runs[-1] = last._replace(records_count=last.records_count + count)
        else:
            self.runs.append(Run(source_offset, target_offset, count))


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
