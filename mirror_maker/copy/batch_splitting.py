"""Batches that the target refuses, split into smaller ones. Pure.

Where a batch is split needs no agreement between workers: a record keeps its sequence however the
batches are split (see `resume`). So each flow learns it from refusals alone.

- *Size*: once the target refused a batch as too large, every larger batch is split.
- *Suspects*: if the target refuses some record of a batch, the batch is sent again in halves, until
  the refused batch is a single record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from local_cluster.records.batch import Record
from mirror_maker.copy.batch_selection import CopyPath, SourceBatch
from mirror_maker.copy.passthrough import PreparedBatch, encode_dense, prepare
from mirror_maker.model import UncopyableBatchError
from mirror_maker.rules.trouble import Trouble

_OFFSET_MAX: Final = (1 << 63) - 1


class BatchSplitter:
    """What one flow has learned about the batches that its target accepts."""

    def __init__(self) -> None:
        self.bytes_max: int | None = None
        """No larger batch is sent, except a single record."""
        self._suspects: tuple[int, int] | None = None
        """Source offsets [from, to) of the batch with a record that the target refuses."""
        self._records_max = 0
        self._separate_until = 0
        """Below this source offset tiny batches are sent one by one."""

    def limit(self, bytes_max: int) -> None:
        """Record that the target accepts no larger batch."""
        if self.bytes_max is None or bytes_max < self.bytes_max:
            self.bytes_max = bytes_max

    def separate(self, refused: PreparedBatch, trouble: Trouble) -> None:
        """Send tiny batches one by one after a coalesced batch was refused."""
        # A coalesced batch is small. If it is too large, the target accepts only tiny batches.
        is_lasting = trouble is Trouble.TOO_LARGE
        self._separate_until = (
            _OFFSET_MAX if is_lasting else max(self._separate_until, refused.source_next)
        )

    def may_coalesce(self, source_offset: int) -> bool:
        """Return whether tiny batches from this offset on may be sent as one."""
        return source_offset >= self._separate_until

    def suspect(self, refused: PreparedBatch) -> None:
        """Record that the target refuses some record of this batch."""
        assert refused.records_count > 1
        self._suspects = (refused.source_first, refused.source_next)
        self._records_max = (refused.records_count + 1) // 2

    def prepare(self, batch: SourceBatch) -> list[PreparedBatch]:
        """Return the batches to send for a source batch, in order. Raises UncopyableBatchError."""
        prepared = prepare(batch)
        if prepared is None:
            return []
        if not self._must_split(prepared):
            return [prepared]
        return list(self._split(batch, prepared))

    def _must_split(self, prepared: PreparedBatch) -> bool:
        if prepared.records_count == 1 or prepared.path is CopyPath.COALESCED:
            return False  # one record cannot be split; `separate` takes coalesced ones apart
        return self._is_too_large(len(prepared.data)) or self._is_suspect(prepared)

    def _is_too_large(self, size_bytes: int) -> bool:
        return self.bytes_max is not None and size_bytes > self.bytes_max

    def _is_suspect(self, prepared: PreparedBatch) -> bool:
        if self._suspects is None:
            return False
        start, end = self._suspects
        return (
            prepared.source_first < end
            and start < prepared.source_next
            and prepared.records_count > self._records_max
        )

    def _split(self, batch: SourceBatch, prepared: PreparedBatch) -> Iterator[PreparedBatch]:
        records = batch.records()
        if len(records) != prepared.records_count:
            raise UncopyableBatchError(
                prepared.source_first, "the header's record count differs from its records"
            )
        waiting: list[Sequence[Record]] = [records]
        while waiting:
            piece = waiting.pop()
            is_last = piece[-1] is records[-1]
            source_first = prepared.source_first if piece[0] is records[0] else piece[0].offset
            data, segments = encode_dense(piece, batch.header.codec)
            split = PreparedBatch(
                memoryview(data),
                len(piece),
                source_first,
                prepared.source_next if is_last else piece[-1].offset + 1,
                segments,
                CopyPath.SPLIT,
            )
            if self._must_split(split):
                middle = (len(piece) + 1) // 2
                waiting += [piece[middle:], piece[:middle]]
            else:
                yield split
