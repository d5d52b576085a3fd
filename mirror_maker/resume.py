"""Where a flow goes on: proved from the target's log, never taken from a counter. Pure.

The map says up to where the copy was acknowledged and written down (`ResumeBase`). What a worker
wrote after that lies on the target with the link's producer id, in sequence: the tail. `TailReader`
collects it and checks that the log continues the map. `Pairing` walks the tail and the source's
copyable batches side by side until every record of the tail has its source record. What results
(runs, source position, next sequence) is exactly what a worker that never died would know.

Compaction of the target may take copies from the tail before they are mapped. The sequences count
them: between two batches, and within one, as the cleaner keeps a batch's sequences and offsets. If
as many target offsets are missing as sequences, each missing copy has its place. If more are,
others wrote there, and the copies are in a hole.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.wire.errors import ErrorCode, KafkaError

from .alignment import Copy, Hole, Piece, add_piece
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
    ordinal: int
    """Copies of the tail before it, also those that the target no longer has."""

    @property
    def records_count(self) -> int:
        """Copies that it had when it was written, also those that compaction took since."""
        return self.header.last_offset_delta + 1

    @property
    def target_from(self) -> int:
        return self.header.base_offset

    @property
    def target_to(self) -> int:
        return self.header.next_offset

    @property
    def is_placed(self) -> bool:
        """Always: a batch keeps its offsets when it is compacted."""
        return True


class Missing(NamedTuple):
    """Copies of the tail that the target no longer has, with no batch left of them.

    They lay at target offsets [target_from, target_to), in order. Others' records may have lain
    there too.
    """

    records_count: int
    target_from: int
    target_to: int
    is_trimmed: bool
    """Whether the target's log begins behind them, so that nobody asks for their places."""

    @property
    def is_placed(self) -> bool:
        """Whether the target offset of each of them is known."""
        return not self.is_trimmed and self.target_to - self.target_from == self.records_count


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
        self.spans: list[TargetBatch | Missing] = []
        """The tail in order: the batches, and what is missing before and between them."""
        self.length = 0
        """Copies of the tail, with those that are missing."""
        self.others: list[tuple[int, int]] = []
        """Target offsets [from, to) behind the base with batches that are not ours, ascending."""
        self.unexplained: str | None = None
        """What is missing that only compaction of the target can have taken; the first of it."""
        self.next_sequence = base.next_sequence
        """After the last batch of ours that is known of."""
        self.last_timestamp_ms: int | None = None
        """Largest timestamp of our last batch, where only the target's word is left of it."""
        self._own_end = base.target_next
        """The target offset behind our last batch, or behind the map."""
        self._is_told = False

    @property
    def missing_count(self) -> int:
        """Copies that the target lost before they were mapped, in whole batches."""
        return sum(span.records_count for span in self.spans if isinstance(span, Missing))

    @property
    def trimmed_count(self) -> int:
        """Copies at the front of the tail that lie before the target's log start."""
        return sum(s.records_count for s in self.spans if isinstance(s, Missing) and s.is_trimmed)

    @property
    def is_whole(self) -> bool:
        """Whether the target still has every record of the tail."""
        return self.length == sum(batch.header.records_count for batch in self.batches)

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
        self._miss(missing, self._log_start_offset)
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
            found = (
                f"target offset {header.base_offset} has sequence {header.base_sequence}, "
                f"{self.next_sequence} was expected"
            )
            # Every copy had an offset of its own.
            if missing > min(header.base_offset - self._own_end, MISSING_RECORDS_MAX):
                raise PairingError(found)
            if self.batches or self._log_start_offset <= base.target_next:
                self.unexplained = self.unexplained or found
            self._miss(missing, header.base_offset)
        if header.records_count < header.last_offset_delta + 1:
            self.unexplained = self.unexplained or (
                f"target offset {header.base_offset}: the target no longer has every record of the "
                "batch"
            )
        batch = TargetBatch(header, view, self.length)
        self.batches.append(batch)
        self.spans.append(batch)
        self.length += batch.records_count
        self.next_sequence = advance_sequence(header.last_sequence, 1)
        self._own_end = header.next_offset

    def _miss(self, count: int, target_to: int) -> None:
        """Note copies that are missing before `target_to`, and behind all that was fed."""
        start = self._own_end
        self.length += count
        trimmed = 0
        if not self.batches and self._log_start_offset > start:
            # Where others' records have gone as well, nobody knows which were ours.
            is_dense = target_to - start == count
            trimmed = min(count, self._log_start_offset - start) if is_dense else count
        if trimmed:
            cut = target_to - (count - trimmed)
            self.spans.append(Missing(trimmed, start, cut, is_trimmed=True))
            start = cut
        if count > trimmed:
            self.spans.append(Missing(count - trimmed, start, target_to, is_trimmed=False))

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
        self._spans = deque(tail.spans)
        self._copies: deque[Copy] = deque()
        """Of the batch that is compared record by record, those that have no place yet."""
        self.pieces: list[Piece] = []
        self.source_next = base.source_next

    @property
    def is_done(self) -> bool:
        return not self._spans and not self._copies

    def advance(self, source_next: int) -> None:
        """Nothing copyable lies before `source_next` in what was fed."""
        if not self.is_done:
            self.source_next = max(self.source_next, source_next)

    def feed(self, batch: SourceBatch) -> None:
        """Pair the next source batch. Raises PairingError, UncopyableBatchError."""
        assert not self.is_done
        header = batch.header
        is_dense = header.records_count == header.last_offset_delta + 1
        if batch.path is CopyPath.PASSTHROUGH and is_dense and not self._copies:
            span, count = self._spans[0], header.records_count
            if isinstance(span, Missing):
                if span.records_count >= count:
                    self._pass_missing(header.base_offset, count)
                    self.source_next = batch.source_next
                    return
            elif _is_same_batch(batch, span):
                self._spans.popleft()
                add_piece(self.pieces, Run(header.base_offset, span.header.base_offset, count))
                self.source_next = batch.source_next
                return
        self._feed_records(batch)

    def _feed_records(self, batch: SourceBatch) -> None:
        """Record by record, for batches that were cut, rebuilt or split otherwise."""
        for record in batch.records():
            if self.is_done:
                # The tail ends inside this batch: the rest of it is still to be copied.
                self.source_next = record.offset
                return
            if not self._copies and isinstance(self._spans[0], Missing):
                self._pass_missing(record.offset, 1)
            else:
                self._pair(record)
            self.source_next = record.offset + 1
        self.source_next = batch.source_next

    def _pair(self, record: Record) -> None:
        if not self._copies:
            batch = self._spans.popleft()
            assert isinstance(batch, TargetBatch)
            self._copies.extend(open_copies(batch))
        copy = self._copies.popleft()
        if copy.content is not None and copy.content != record[1:]:
            raise PairingError(
                f"target offset {copy.target_offset} is not a copy of source offset {record.offset}"
            )
        add_piece(self.pieces, Run(record.offset, copy.target_offset, 1))

    def _pass_missing(self, source_offset: int, count: int) -> None:
        """The copies of these records are the next ones that the target no longer has."""
        span = self._spans.popleft()
        assert isinstance(span, Missing)
        target_from = span.target_from
        if span.is_placed:
            add_piece(self.pieces, Run(source_offset, span.target_from, count))
            target_from += count
        elif not span.is_trimmed:
            source_to, target_to = source_offset + count, span.target_to
            add_piece(
                self.pieces,
                Hole(source_offset, source_to, target_from, target_to, count, is_open=True),
            )
        if span.records_count > count:
            rest = span._replace(records_count=span.records_count - count, target_from=target_from)
            self._spans.appendleft(rest)


def tail_copies(tail: TailReader, copies_max: int) -> list[Copy]:
    """Every copy of the tail whose target offset is known. Raises PairingError."""
    copies: list[Copy] = []
    index = 0
    for span in tail.spans:
        if span.is_placed and len(copies) + span.records_count > copies_max:
            raise PairingError(
                f"more than {copies_max} copies are not mapped, and source or target lost some of "
                "them: too many to compare"
            )
        if isinstance(span, TargetBatch):
            copies += open_copies(span)
        elif span.is_placed:
            copies += (
                Copy(span.target_from + n, None, index + n) for n in range(span.records_count)
            )
        index += span.records_count
    return copies


def open_copies(batch: TargetBatch) -> list[Copy]:
    """The copies of a batch of the tail; those that compaction took have no content.

    Raises PairingError.
    """
    header, view, index = batch
    try:
        records = decode_batch(view, 0, header) if header.records_count else []
    except (CompressionError, CorruptRecordError) as error:
        raise PairingError(f"target offset {header.base_offset}: {error}") from error
    contents = {record.offset: record[1:] for record in records}
    offsets = range(header.base_offset, header.next_offset)
    if len(contents) != len(records) or not all(offset in offsets for offset in contents):
        raise PairingError(
            f"target offset {header.base_offset}: the records of the batch have offsets that are "
            "not the batch's own"
        )
    return [Copy(offset, contents.get(offset), index + n) for n, offset in enumerate(offsets)]


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
