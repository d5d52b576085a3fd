"""Batches that the target refuses as they are, cut into smaller ones. Pure.

A record keeps its place in the sequence however batches are cut, so where they are cut needs no
agreement between workers (see the README, "Why it is right"): a flow learns it from refusals.

- *Size*: once a batch is known to be too large, everything larger than the limit is cut.
- *Suspects*: of a refused batch it is not known which records the target refuses. Its range is
  sent again in halves, until what is refused is a single record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from local_cluster.records.batch import Record
from mirror_maker.copy.passthrough import CopyPath, PreparedBatch, SourceBatch, prepare
from mirror_maker.copy.record_path import encode_dense
from mirror_maker.model import UncopyableBatchError
from mirror_maker.rules.trouble import Trouble


class Cutting:
    """What one flow has learned about the batches that its target takes."""

    def __init__(self) -> None:
        self.bytes_max: int | None = None
        """No larger batch is sent, but for a single record."""
        self._suspects: tuple[int, int] | None = None
        self._records_max = 0
        self._separate_until: float = 0
        """Below this source offset tiny batches are sent one by one."""

    def limit(self, bytes_max: int) -> None:
        """The target takes no batch larger than this."""
        if self.bytes_max is None or bytes_max < self.bytes_max:
            self.bytes_max = bytes_max

    def separate(self, refused: PreparedBatch, trouble: Trouble) -> None:
        """A batch that was made of tiny ones is refused: the source's own may be taken."""
        # One that is too large shows that the target takes no more than little ones.
        is_lasting = trouble is Trouble.TOO_LARGE
        self._separate_until = inf if is_lasting else max(self._separate_until, refused.source_next)

    def may_coalesce(self, source_offset: int) -> bool:
        """Whether tiny batches from this offset on may be sent as one."""
        return source_offset >= self._separate_until

    def suspect(self, refused: PreparedBatch) -> None:
        """Somewhere in this batch is a record that the target refuses."""
        assert refused.records_count > 1
        self._suspects = (refused.source_first, refused.source_next)
        self._records_max = (refused.records_count + 1) // 2

    def prepare(self, batch: SourceBatch) -> list[PreparedBatch]:
        """The batches to send for a source batch, in order. Raises UncopyableBatchError."""
        prepared = prepare(batch)
        if prepared is None:
            return []
        if not self._must_cut(prepared):
            return [prepared]
        return list(self._cut(batch, prepared))

    def _must_cut(self, prepared: PreparedBatch) -> bool:
        if prepared.records_count == 1 or prepared.path is CopyPath.COALESCED:
            return False  # what cannot be cut; coalesced ones are taken apart by `separate`
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

    def _cut(self, batch: SourceBatch, prepared: PreparedBatch) -> Iterator[PreparedBatch]:
        records = batch.records()
        if len(records) != prepared.records_count:
            raise UncopyableBatchError(prepared.source_first, "its count of records is wrong")
        waiting: list[Sequence[Record]] = [records]
        while waiting:
            piece = waiting.pop()
            is_last = piece[-1] is records[-1]
            source_first = prepared.source_first if piece[0] is records[0] else piece[0].offset
            data, segments = encode_dense(piece, batch.header.codec)
            cut = PreparedBatch(
                memoryview(data),
                len(piece),
                source_first,
                prepared.source_next if is_last else piece[-1].offset + 1,
                segments,
                CopyPath.CUT,
            )
            if self._must_cut(cut):
                middle = (len(piece) + 1) // 2
                waiting += [piece[middle:], piece[:middle]]
            else:
                yield cut
