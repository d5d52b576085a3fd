"""Shortening one log: retention, the swap of compacted segments, truncation, deletion."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.partition.log_writer import LogWrites
from local_cluster.log.segment.retention import decide_expired
from local_cluster.log.segment.segment import DELETED_SUFFIX, Segment
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)


class LogCuts(LogWrites):
    """What takes batches out. A rename that fails half-way ends the log until a restart."""

    def apply_retention(self, now_ms: int, high_watermark: int) -> Deletion:
        """Take out the segments that have had their time; the caller runs the deletion.

        Forgets idle producers as well. Raises KafkaError(kafka_storage_error).
        """
        if self.failure is not None or self.corruption is not None:
            return Deletion(port=self._files)
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        self.producers.forget_replicated(high_watermark)
        count = decide_expired(
            self._segments.all,
            self.config,
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
        )
        if not count:
            return Deletion(port=self._files)
        if count == len(self._segments.all):
            try:
                self.roll(now_ms)
            except KafkaError as error:
                # A full disk is when the old segments should go most of all.
                _log.warning("%s", error)
                count -= 1
                if not count:
                    return Deletion(port=self._files)
        try:
            deletion = self._segments.drop_oldest(count)
        except OSError as error:
            raise self._write_error("cannot be shortened", error) from error
        self._flushing.forget(path.removesuffix(DELETED_SUFFIX) for path in deletion.paths)
        first = self._segments.all[0].base_offset
        self.advance_log_start(first)
        self._snapshots.drop_older(first)
        return deletion

    def swap_compacted(self, replaced: Sequence[Segment]) -> Deletion | None:
        """Take over the `.cleaned` segment written for some of the closed segments.

        None, and nothing done, where these are no longer a run of this log: retention or a
        truncation came first. Raises KafkaError(kafka_storage_error).
        """
        segments = self._segments.all
        bases = self._segments.base_offsets
        first = replaced[0].base_offset
        index = bases.index(first) if first in bases else 0
        if (
            self.failure is not None
            or self.corruption is not None
            or list(segments[index : index + len(replaced)]) != list(replaced)
            or index + len(replaced) >= len(segments)
        ):
            return None
        try:
            deletion = self._segments.swap_compacted(replaced)
        except OSError as error:
            raise self._broken("cannot take over a compacted segment", error) from error
        self._flushing.add(self.directory)
        self._snapshots.drop_at(segment.base_offset for segment in replaced[1:])
        return deletion

    def advance_log_start(self, offset: int) -> None:
        """Move the log start offset up (DeleteRecords, or a follower after its leader).

        Raises KafkaError(offset_out_of_range).
        """
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{self}: start offset {offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.leader_epochs.truncate_start(offset):
                self._epochs_unwritten = True

    def truncate_to(self, offset: int, now_ms: int) -> Deletion:
        """Cut off every batch that reaches to `offset` or beyond, and what lies behind a damaged
        length before it: the log ends there or before, never later.

        On a corrupt log this is the way back: what is left is whole, and replication fetches the
        rest again. The caller checkpoints the directory before the next append, as Kafka does:
        a recovery point beyond the end would make a later crash look like lost records.
        Raises KafkaError(kafka_storage_error).
        """
        if self.failure is not None:
            raise self._refusal()
        if offset >= self.log_end_offset and self.corruption is None:
            return Deletion(port=self._files)
        if offset < self._segments.all[0].base_offset:
            return self.truncate_fully(offset, now_ms)
        try:
            deletion, boundary = self._segments.cut(offset)
            if boundary.end_offset > boundary.next_offset:
                # Only a segment that begins there says so over a stop. It comes after the cut: a
                # stop in between leaves a log that ends too early, not one with batches beyond
                # where the next segment begins. Until both are flushed a start reads it all.
                self._flushing.add(*self._segments.roll(boundary.end_offset, now_ms))
                self._flushing.count_at_most(boundary.next_offset)
            self._set_end(boundary.end_offset, now_ms)
        except OSError as error:
            raise self._broken("cannot be truncated", error) from error
        return deletion

    def truncate_fully(self, offset: int, now_ms: int) -> Deletion:
        """Throw everything away and begin again at `offset` (a follower far behind its leader).

        Raises KafkaError(kafka_storage_error).
        """
        if self.failure is not None:
            raise self._refusal()
        try:
            self._snapshots.drop_all()
            deletion = self._segments.replace_all(offset, now_ms)
            self.log_start_offset = offset
            self.leader_epochs.clear()
            self._epochs_unwritten = True
            self._set_end(offset, now_ms)
        except OSError as error:
            raise self._broken("cannot be truncated", error) from error
        return deletion

    def begin_with(self, first: BatchHeader, now_ms: int) -> Deletion | None:
        """Where an empty log begins within a batch that comes next, have it begin with that.

        DeleteRecords moves a leader's log start to within a batch, and who copies from there gets
        that batch whole (KAFKA-6975); the log start is to be taken over once the batch is there.
        None, and nothing done, everywhere else. Raises KafkaError(kafka_storage_error).
        """
        begins_within = first.base_offset < self.log_end_offset <= first.last_offset
        if not begins_within or self.log_start_offset != self.log_end_offset:
            return None
        return self.truncate_fully(first.base_offset, now_ms)

    def _set_end(self, end_offset: int, now_ms: int) -> None:
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.corruption = None
        self._flushing.truncate(end_offset)
        self._flushing.add(self.directory)
        if self.leader_epochs.truncate_end(end_offset):
            self._epochs_unwritten = True
        self._latest_epoch = self.leader_epochs.latest
        self._snapshots.drop_newer(end_offset)
        self.producers = self._snapshots.load(self._segments.all, end_offset, now_ms)

    def delete(self, new_directory: str) -> Deletion:
        """Rename the directory out of the way; slices in use stay readable, the log is finished.

        Raises KafkaError(kafka_storage_error).
        """
        try:
            deletion = self._segments.move_to(new_directory)
        except OSError as error:
            raise self._write_error("cannot be deleted", error) from error
        self.fail("the partition was deleted")
        return deletion
