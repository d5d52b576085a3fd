"""What the target's log has of ours behind the map, and what is missing there. Pure.

Compaction of the target may take copies from the tail before they are mapped. The sequences count
them: between two batches, and within one, as the cleaner keeps a batch's sequences and offsets. If
as many target offsets are missing as sequences, each missing copy has its place. If more are,
others wrote there, and the copies are in a hole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import Block, Opening
from mirror_maker.model import SEQUENCE_MASK, DescribedProducer, PairingError, advance_sequence
from mirror_maker.tail.alignment import Copy

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
