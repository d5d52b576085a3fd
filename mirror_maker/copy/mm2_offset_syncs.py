"""The offset syncs that MirrorMaker 2's readers get for acknowledged runs. Pure.

MirrorMaker 2 writes a sync for the first record, after every gap or step back, and after every
`offset.lag.max` records. Since 3.7 it also writes the latest one at every commit. Here the unit is
a run, not a record: a sync for the first offset of a run after a jump, and for the last offset of
each flush. A reader uses the newest sync at or below the offset it translates, so syncs between
these two would change no answer.
"""

from __future__ import annotations

from typing import Final

from local_cluster.client.model import TopicPartition
from mirror_maker.formats import Run
from mirror_maker.formats.mm2 import OffsetSync

SYNCS_PENDING_MAX: Final = 1_000
"""Syncs of one flow between two flushes; beyond, the newest replaces the one before it."""


class FlowSyncs:
    """The syncs of one flow that wait for the next flush."""

    def __init__(self, source: TopicPartition) -> None:
        self._source = source
        self._pending: list[OffsetSync] = []
        self._next_upstream = -1
        self._next_downstream = -1
        self._last: OffsetSync | None = None

    def append(self, run: Run) -> None:
        """Add an acknowledged run; runs come in source order."""
        if (run.source_offset, run.target_offset) != (self._next_upstream, self._next_downstream):
            # The first run, or a gap on either side: readers before the gap need its bounds.
            self._flush_last()
            self._put(run.source_offset, run.target_offset)
        self._next_upstream, self._next_downstream = run.source_next, run.target_next
        last = OffsetSync(*self._source, run.source_next - 1, run.target_next - 1)
        self._last = last if not self._pending or self._pending[-1] != last else None

    def take(self) -> list[OffsetSync]:
        """Return the syncs to write now, in order."""
        self._flush_last()
        taken, self._pending = self._pending, []
        return taken

    def put_back(self, syncs: list[OffsetSync]) -> None:
        """Queue the result of `take` again: its write failed."""
        self._pending[:0] = syncs
        del self._pending[: max(0, len(self._pending) - SYNCS_PENDING_MAX)]

    def _flush_last(self) -> None:
        if self._last is not None:
            self._put(self._last.upstream_offset, self._last.downstream_offset)
            self._last = None

    def _put(self, upstream: int, downstream: int) -> None:
        if len(self._pending) >= SYNCS_PENDING_MAX:
            self._pending.pop()
        self._pending.append(OffsetSync(*self._source, upstream, downstream))
