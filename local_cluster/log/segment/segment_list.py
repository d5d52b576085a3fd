"""The segments of one log, oldest first: reading across them, rolling, dropping, truncating."""

from __future__ import annotations

import errno
import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from local_cluster.log.disk.disk_work import DeletedSegment, Deletion
from local_cluster.log.disk.files import Files
from local_cluster.log.segment.batch_lookup import (
    Boundary,
    batch_at,
    ends_before,
    find_boundary,
    last_batch_before,
)
from local_cluster.log.segment.file_names import DELETED_SUFFIX
from local_cluster.log.segment.index import IndexCorruptError
from local_cluster.log.segment.segment import LogSlice, Segment
from local_cluster.log.segment.swap import swap_steps
from local_cluster.log.segment.transaction_index import AbortedTransaction
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class SegmentList:
    """At least one segment; the last one, `active`, is appended to.

    Every method raises OSError where the disk fails. Unless it says otherwise, memory may then
    differ from the disk, and the log must not be written any more.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: list[Segment],
        hidden: list[Segment],
    ) -> None:
        """`hidden` are segments behind a corrupt place: kept on disk, never read."""
        self._files = files
        self.directory = directory
        self._segments = segments
        self._hidden = hidden
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    @property
    def all(self) -> Sequence[Segment]:
        """The segments to look at, the active one last."""
        return self._segments

    @property
    def base_offsets(self) -> Sequence[int]:
        return tuple(self._bases)

    @property
    def first_base_offset(self) -> int:
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    # -- reading ----------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, limit: int, at_least_one_batch: bool) -> LogSlice:
        """Return the slice of `LogReader.read`; offset and limit lie inside the log.

        Raises KafkaError(corrupt_message) where a damaged length is in the way to a batch. The
        batches behind it must not be skipped, nor served where they are not committed.
        """
        index = len(self._bases) - 1
        if offset < self._bases[index]:
            index = bisect_right(self._bases, offset) - 1
        for segment in self._segments[index:]:
            position = segment.position_of(offset)
            if position is not None:
                return self._slice(segment, position, offset, bytes_max, limit, at_least_one_batch)
            if not ends_before(segment, offset):
                raise _damaged(segment, offset)
        return LogSlice(self.active.file.open(), 0, 0, offset)

    def _slice(
        self,
        segment: Segment,
        position: int,
        offset: int,
        bytes_max: int,
        limit: int,
        at_least_one_batch: bool,
    ) -> LogSlice:
        end = segment.size_bytes
        next_offset = segment.next_offset
        if limit < next_offset:
            limit_position = segment.position_of(limit)
            if limit_position is not None:
                end, next_offset = limit_position, limit
            elif not ends_before(segment, limit):
                raise _damaged(segment, limit)
        file = segment.file.open()
        if end <= position:
            return LogSlice(file, position, 0, offset)
        if end - position > bytes_max:
            last = last_batch_before(segment, position, position + bytes_max)
            if last is None:
                if not at_least_one_batch:
                    return LogSlice(file, position, 0, offset)
                last = batch_at(segment, position)
                if last is None:
                    raise _damaged(segment, offset)
            if last.following_position < end:
                end, next_offset = last.following_position, last.next_offset
        segment.remember(next_offset, end)
        return LogSlice(file, position, end - position, next_offset)

    def aborted_from(self, offset: int) -> Iterator[Sequence[AbortedTransaction]]:
        """Yield the aborted transactions of the segment of `offset` and of each later one."""
        for index in range(max(bisect_right(self._bases, offset) - 1, 0), len(self._segments)):
            yield self._segments[index].transactions.entries

    # -- growing ----------------------------------------------------------------------------

    def roll(self, base_offset: int, now_ms: int) -> list[str]:
        """Start a new segment at the end of the log or beyond; return the paths to flush.

        On OSError the old segment is still active and can be appended to.
        """
        old = self.active
        finished = old.finish()
        new = self._new(base_offset)
        new.create(now_ms)
        old.close_for_appends()
        # It may lie beyond the last batch: a restart sets it in the same way.
        old.next_offset = base_offset
        self._segments.append(new)
        self._bases.append(base_offset)
        self.active = new
        return [*finished, self.directory]

    def set_index_interval(self, index_interval_bytes: int) -> None:
        """Apply index.interval.bytes to everything written after this call."""
        for segment in self._segments:
            segment.index_interval_bytes = index_interval_bytes

    # -- removing ---------------------------------------------------------------------------

    def drop_oldest(self, count: int) -> Deletion:
        """Take out the oldest segments, never all of them.

        If the disk refuses one after the first, the rest stay for now. An OSError has changed
        nothing.
        """
        assert count < len(self._segments), "the active segment stays"
        segments: list[DeletedSegment] = []
        paths: list[str] = []
        for segment in self._segments[:count]:
            try:
                paths += segment.mark_deleted()
            except OSError as error:
                if not segments:
                    raise
                log.warning("%s: old segments stay for now: %s", self.directory, error)
                break
            segments.append(DeletedSegment(segment.base_offset, segment.size_bytes))
        del self._segments[: len(segments)]
        del self._bases[: len(segments)]
        return Deletion(segments=segments, paths=paths, port=self._files)

    def swap_compacted(self, replaced: Sequence[Segment]) -> Deletion:
        """Put the `.cleaned` segment that was written for some closed segments in their place.

        Slices of the old segments stay readable.
        """
        first, last = replaced[0], replaced[-1]
        index = self._segments.index(first)
        bases = [segment.base_offset for segment in replaced]
        steps = swap_steps(self._files.list_dir(self.directory), first.base_offset, bases)
        for name, new_name in steps:
            self._files.rename(f"{self.directory}/{name}", f"{self.directory}/{new_name}")
        compacted = self._new(first.base_offset)
        try:
            compacted.load_closed(last.next_offset)
        except IndexCorruptError as error:
            raise OSError(errno.EIO, str(error)) from error
        self._segments[index : index + len(replaced)] = [compacted]
        self._bases[index : index + len(replaced)] = [first.base_offset]
        paths = [
            f"{self.directory}/{new_name}"
            for _, new_name in steps
            if new_name.endswith(DELETED_SUFFIX)
        ]
        return Deletion(segments=_deleted(replaced), paths=paths, port=self._files)

    def truncate(self, offset: int) -> tuple[Deletion, Boundary]:
        """Remove every batch that reaches `offset`, and the hidden segments; return the boundary.

        The files then end behind the last batch. A log that ends beyond it must be rolled by the
        caller. A segment that begins at `offset` stays, empty: it preserves the log end offset,
        though compaction may have left nothing right before it.
        """
        keep = max(1, bisect_right(self._bases, offset))
        deletion = self._delete([*self._segments[keep:], *self._hidden])
        self._hidden = []
        del self._segments[keep:]
        del self._bases[keep:]
        self.active = active = self._segments[-1]
        boundary = find_boundary(active, offset)
        active.truncate(boundary.position, boundary.next_offset)
        return deletion, boundary

    def replace_all(self, base_offset: int, now_ms: int) -> Deletion:
        """Remove everything and start over at `base_offset`."""
        deletion = self._delete([*self._segments, *self._hidden])
        self._hidden = []
        new = self._new(base_offset)
        new.create(now_ms)
        self._segments, self._bases, self.active = [new], [base_offset], new
        return deletion

    def move_to(self, directory: str) -> Deletion:
        """Rename the directory; return the deletion of it, for a log that is deleted.

        On OSError nothing has changed.
        """
        self._files.rename(self.directory, directory)
        self.directory = directory
        for segment in self._segments:
            segment.move_to(directory)
        return Deletion(segments=_deleted(self._segments), trees=[directory], port=self._files)

    def _new(self, base_offset: int) -> Segment:
        return Segment(
            self._files,
            self.directory,
            base_offset,
            index_interval_bytes=self.active.index_interval_bytes,
        )

    def _delete(self, segments: Sequence[Segment]) -> Deletion:
        paths: list[str] = []
        # The newest first: a failure or a crash then leaves a log without a gap.
        for segment in reversed(segments):
            paths += segment.mark_deleted()
        return Deletion(segments=_deleted(segments), paths=paths, port=self._files)


def _deleted(segments: Sequence[Segment]) -> list[DeletedSegment]:
    return [DeletedSegment(segment.base_offset, segment.size_bytes) for segment in segments]


def _damaged(segment: Segment, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.corrupt_message,
        f"{segment.log_path}: a damaged batch is in the way to offset {offset}",
    )
