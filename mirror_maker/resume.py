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
from local_cluster.wire.errors import ErrorCode, KafkaError

from .formats import Run
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
        self.next_sequence = base.next_sequence
        """After the last batch of ours that is known of."""
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
    """Pairs the tail with the source; `feed` source batches in order until `is_done`."""

    def __init__(
        self,
        base: ResumeBase,
        tail: TailReader,
        *,
        may_lose: bool = False,
        source_from: int | None = None,
    ) -> None:
        """`may_lose`: the source may have lost records since they were copied (compaction,
        retention); they must have left holes. `source_from`: where it is read from, if a gap of
        the journal lies behind the base, which is no such hole."""
        self._may_lose = may_lose
        self._paired_next = base.source_next if source_from is None else source_from
        """The source offset after the last record that was paired, or whose copy is missing."""
        self._holes_count = 0
        """Source offsets without a record that were passed over before the first pair."""
        self.lost_at_end = 0
        """Copies at the tail's end whose records the source no longer has."""
        self._tail = deque(tail.batches)
        self._missing = tail.missing_count
        self._records: deque[Record] = deque()
        self.runs: list[Run] = []
        self.source_next = base.source_next
        self.target_next = base.target_next
        self.next_sequence = tail.next_sequence

    @property
    def mapped_sequence(self) -> int:
        """The sequence after the last paired record; what is lost at the end lies behind it."""
        return advance_sequence(self.next_sequence, -self.lost_at_end)

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
            if self._missing >= count and not self._may_lose:
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
            if self._is_missing(record):
                self._missing -= 1
                self._holes_count = self._holes_before(record)
                self._paired_next = record.offset + 1
            elif self.is_done or (target := self._match(record)) is None:
                # The tail ends inside this batch: the rest of it is still to be copied.
                # What the source lost behind the last pair may not have been copied.
                self.source_next = self._paired_next if self._may_lose else record.offset
                return
            else:
                self._add(record.offset, target.offset, 1)
            self.source_next = record.offset + 1
        self.source_next = batch.source_next

    def _holes_before(self, record: Record) -> int:
        if not self._may_lose:
            return 0
        return self._holes_count + record.offset - self._paired_next

    def _is_missing(self, record: Record) -> bool:
        """Whether the copy of this source record is one that the target's retention took.

        What is missing on both sides left holes in the source: as many as there are may account
        for it, and the tail tells whether they do. Raises PairingError where nothing can tell.
        """
        holes = self._holes_before(record)
        if self._missing > holes:
            if holes and not self._tail and not self._records:
                raise PairingError(
                    f"the target no longer has {self._missing} copies that are not mapped, and the "
                    f"source no longer has some of their records before offset {record.offset}"
                )
            return True
        if not self._missing:
            return False
        found = self._find(record, holes - self._missing)
        if found is None and len(self._records) > holes - self._missing:
            return True
        self._missing = 0
        return False

    def _find(self, record: Record, passed_max: int) -> int | None:
        """How many records of the tail lie before the copy of this one; None where it is not
        found behind `passed_max` of them or fewer."""
        for passed in range(passed_max + 1):
            if passed == len(self._records) and not self._open_next():
                return None
            if self._records[passed][1:] == record[1:]:
                return passed
        return None

    def _match(self, record: Record) -> Record | None:
        """The copy of a source record; None where the rest of the tail has copies of none.

        Copies that are passed over are of records that the source no longer has; there must be
        holes for them, and nothing else than holes in between. Raises PairingError.
        """
        holes = self._holes_before(record)
        passed = self._find(record, holes)
        if passed is None:
            if len(self._records) > holes:
                raise PairingError(
                    f"target offset {self._records[0].offset} is not a copy of source offset "
                    f"{record.offset}"
                )
            self.lost_at_end = len(self._records)
            self._records.clear()
            return None
        for _ in range(passed):
            self._records.popleft()
        return self._records.popleft()

    def end(self, source_end: int) -> bool:
        """The source ends here; whether the tail's rest is of records that it no longer has."""
        while self._open_next():
            pass
        holes = self._holes_count + source_end - self._paired_next
        if not self._may_lose or self._missing + len(self._records) > holes:
            return False
        self._missing = 0
        self.lost_at_end = len(self._records)
        self._records.clear()
        self.source_next = self._paired_next
        return True

    def _open_next(self) -> bool:
        """Open the tail's next batch; whether there was one."""
        if not self._tail:
            return False
        header, view = self._tail.popleft()
        try:
            records = decode_batch(view, 0, header)
        except (CompressionError, CorruptRecordError) as error:
            raise PairingError(f"target offset {header.base_offset}: {error}") from error
        if len(records) != header.last_offset_delta + 1:
            raise PairingError(
                f"target offset {header.base_offset}: the target no longer has every record "
                "of the batch"
            )
        self._records.extend(records)
        return True

    def _add(self, source_offset: int, target_offset: int, count: int) -> None:
        self._paired_next = source_offset + count
        self._holes_count = 0
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
