"""The link's own batches in the target's log after the map, and the copies missing there. Pure.

Compaction of the target may take copies from the tail before they are mapped. The sequences count
them, between two batches and within one: the cleaner keeps a batch's sequences and offsets. If as
many target offsets are missing as sequences, each missing copy has its place. If more offsets are
missing, others wrote there, and the copies are in a hole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.records.batch import CorruptRecordError, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import SEQUENCE_MASK, BatchHeader, iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import Block, Opening
from mirror_maker.model import DescribedProducer, PairingError, advance_sequence
from mirror_maker.tail.places import Copy

MISSING_RECORDS_MAX: Final = 1 << 30
"""A larger distance between sequences is a step back, modulo 2**31."""


class ResumeBase(NamedTuple):
    """The end of the map: the state that it proves. The tail begins here."""

    producer_id: int
    producer_epoch: int
    source_next: int
    target_next: int
    next_sequence: int
    has_records: bool
    """False right after an opening: then no batch of ours lies before `target_next`."""


def resume_base(opening: Opening, last: Block | None) -> ResumeBase:
    """Return what the valid opening and the last block of its epoch prove."""
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
        # A block without runs says nothing about the target. If a closed block or a hole of its
        # epoch precedes it, it ends right after a record of ours.
        has_records=bool(last.runs) or last.target_start > opening.target_offset,
    )


class TargetBatch(NamedTuple):
    """One of our own batches on the target."""

    header: BatchHeader
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
        """Always true: a batch keeps its offsets when it is compacted."""
        return True


class Missing(NamedTuple):
    """Copies of the tail that the target no longer has, without a batch that is left of them.

    They were at target offsets [target_from, target_to), in order. Foreign records may have been
    there too.
    """

    records_count: int
    target_from: int
    target_to: int
    is_trimmed: bool
    """Whether they lie before the target's log start, so that their places do not matter."""

    @property
    def is_placed(self) -> bool:
        """Whether the target offset of each of them is known."""
        return not self.is_trimmed and self.target_to - self.target_from == self.records_count


class TargetTail:
    """The tail of one flow; `feed` it the target's log in order."""

    def __init__(self, base: ResumeBase, log_start_offset: int) -> None:
        self._base = base
        self._log_start_offset = log_start_offset
        # The last mapped record is read again, to check that the target still has it.
        self.position = max(
            log_start_offset, base.target_next - 1 if base.has_records else base.target_next
        )
        self.batches: list[TargetBatch] = []
        self.spans: list[TargetBatch | Missing] = []
        """The tail in order: the batches, and the copies missing before and between them."""
        self.length = 0
        """Copies of the tail, also the missing ones."""
        self.foreign: list[tuple[int, int]] = []
        """Target offsets [from, to) after the base with batches that are not ours, ascending."""
        self.unexplained: str | None = None
        """The first missing copy that only compaction of the target can have taken, in words."""
        self.next_sequence = base.next_sequence
        """The sequence after our last known batch."""
        self.last_timestamp_ms: int | None = None
        """Largest timestamp of our last batch, if only DescribeProducers still knows of it."""
        self._own_end = base.target_next
        """The target offset after our last batch, or after the map."""
        self._is_sequence_described = False

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
        """Whether retention may have taken copies after the base of which no trace is left."""
        return (
            not self.batches
            and not self._is_sequence_described
            and self._log_start_offset > self._base.target_next
        )

    @property
    def gone_count(self) -> int:
        """Offsets after the base that the target no longer has, ours and foreign."""
        return max(0, self._log_start_offset - self._base.target_next)

    def count_missing(self, producer: DescribedProducer | None) -> None:
        """Count the missing copies by what the target still knows of our producer.

        The count is right only if no write arrived after the log was read. If foreign records may
        be among the lost ones, the caller must check that. Raises PairingError if the answer
        contradicts the map, KafkaError (try again) if a write certainly arrived since.
        """
        base = self._base
        assert self.is_sequence_unknown
        if producer is None or producer.producer_epoch < base.producer_epoch:
            # An older epoch: the target has had nothing of this epoch, or has forgotten it.
            self._is_sequence_described = producer is not None and not base.has_records
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
                f"the target's last sequence of ours is {producer.last_sequence}, but it "
                f"acknowledged all before {base.next_sequence}: it lost records"
            )
        if missing > self.gone_count:
            raise KafkaError(
                ErrorCode.offset_not_available,
                f"our records up to sequence {producer.last_sequence} are not committed on the "
                "target yet",
            )
        self._is_sequence_described = True
        if producer.last_timestamp_ms >= 0:
            self.last_timestamp_ms = producer.last_timestamp_ms
        self._miss(missing, self._log_start_offset)
        self.next_sequence = advance_sequence(base.next_sequence, missing)

    def check_end(self, high_watermark: int) -> None:
        """Check that the target reaches the end of the map. Raises PairingError."""
        if high_watermark < self._base.target_next:
            raise PairingError(
                f"the target ends at {high_watermark}, but was acknowledged up to "
                f"{self._base.target_next}: it lost records"
            )

    def feed(self, fetched: memoryview) -> None:
        """Take a fetch response from `position`. Raises PairingError."""
        for start, header in iter_headers(fetched):
            if header.next_offset <= self.position:
                continue
            self._take(header, fetched[start : start + header.size_bytes])
            self.position = header.next_offset

    def _take(self, header: BatchHeader, view: memoryview) -> None:
        base = self._base
        if header.base_offset < base.target_next:
            self._check_last_mapped(header)
            return
        if header.producer_id != base.producer_id or header.is_control:
            if self.foreign and self.foreign[-1][1] == header.base_offset:
                self.foreign[-1] = (self.foreign[-1][0], header.next_offset)
            else:
                self.foreign.append((header.base_offset, header.next_offset))
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
            # Every copy had its own offset.
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
        """Add copies that are missing before `target_to` and after everything fed so far."""
        start = self._own_end
        self.length += count
        trimmed = 0
        if not self.batches and self._log_start_offset > start:
            # If foreign records are missing too, nobody knows which offsets were ours.
            is_dense = target_to - start == count
            trimmed = min(count, self._log_start_offset - start) if is_dense else count
        if trimmed:
            split = target_to - (count - trimmed)
            self.spans.append(Missing(trimmed, start, split, is_trimmed=True))
            start = split
        if count > trimmed:
            self.spans.append(Missing(count - trimmed, start, target_to, is_trimmed=False))

    def _check_last_mapped(self, header: BatchHeader) -> None:
        base = self._base
        if not base.has_records or header.base_offset > base.target_next - 1:
            return
        at_end = advance_sequence(header.base_sequence, base.target_next - header.base_offset)
        ours = (header.producer_id, header.producer_epoch, at_end)
        if ours != (base.producer_id, base.producer_epoch, base.next_sequence):
            raise PairingError(
                f"target offset {base.target_next - 1} is not the record that was acknowledged "
                "there: the target lost records and has others in their place"
            )


def tail_copies(tail: TargetTail, copies_max: int) -> list[Copy]:
    """Return every copy of the tail with a known target offset. Raises PairingError."""
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
    """Return the copies of a batch; those that compaction took have no content.

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
            f"target offset {header.base_offset}: records of the batch have offsets outside the "
            "batch"
        )
    return [Copy(offset, contents.get(offset), index + n) for n, offset in enumerate(offsets)]
