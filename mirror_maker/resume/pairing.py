"""Pairs a tail with a source that still has every record of it. Pure.

The walk goes over the tail and the source's copyable batches side by side, until every copy has its
source record. The result is exactly what a worker that never died would know.
"""

from __future__ import annotations

from collections import deque

from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import HEADER_BYTES, read_header
from mirror_maker.copy.batch_selection import CopyPath, SourceBatch
from mirror_maker.formats import Run
from mirror_maker.model import PairingError
from mirror_maker.tail.places import Copy, Hole, Piece, add_piece
from mirror_maker.tail.target_tail import Missing, ResumeBase, TargetBatch, TargetTail, open_copies


class Pairing:
    """Takes the source's batches in order until `is_done`. If the source lost records, see
    `alignment`."""

    def __init__(self, base: ResumeBase, tail: TargetTail) -> None:
        self._spans = deque(tail.spans)
        self._copies: deque[Copy] = deque()
        """Copies without a place yet, of a batch that is compared record by record."""
        self.pieces: list[Piece] = []
        self.source_next = base.source_next

    @property
    def is_done(self) -> bool:
        return not self._spans and not self._copies

    def advance(self, source_next: int) -> None:
        """Move the source position over offsets that are not copied."""
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
        """Pair record by record: the batch was encoded anew, or the batch boundaries differ."""
        for record in batch.records():
            if self.is_done:
                # The tail ends inside this batch: the rest of the batch is still to be copied.
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
        """Pair these records with the next copies that the target no longer has."""
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


def is_same_content(written: memoryview, found: memoryview) -> bool:
    """Return whether two batches hold the same records; their headers may differ.

    Raises PairingError if one of them cannot be opened.
    """
    ours, theirs = read_header(written), read_header(found)
    if ours.crc == theirs.crc and written[HEADER_BYTES:] == found[HEADER_BYTES:]:
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
        and source.payload == target.view[HEADER_BYTES:]
    )
