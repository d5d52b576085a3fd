"""Removing old records from one log: retention, compacted segments, the log start offset."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.partition.log_flusher import LogFlusher
from local_cluster.log.partition.log_state import LogState
from local_cluster.log.partition.log_writer import LogWriter
from local_cluster.log.segment.file_names import DELETED_SUFFIX
from local_cluster.log.segment.retention import decide_expired
from local_cluster.log.segment.segment import Segment
from local_cluster.log.state.snapshot_files import ProducerSnapshots
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class LogCleanup:
    """What `cleanup.policy` asks for, and DeleteRecords. The active segment stays."""

    def __init__(
        self,
        state: LogState,
        writer: LogWriter,
        flusher: LogFlusher,
        snapshots: ProducerSnapshots,
    ) -> None:
        self._state = state
        self._writer = writer
        self._flusher = flusher
        self._snapshots = snapshots

    def apply_retention(self, now_ms: int, high_watermark: int) -> Deletion:
        """Take out the expired segments and forget idle producers; the caller runs the deletion.

        Raises KafkaError(kafka_storage_error).
        """
        state = self._state
        if state.failure is not None or state.corruption is not None:
            return Deletion(port=state.files)
        state.producers.expire(now_ms, state.config.producer_id_expiration_ms)
        state.producers.forget_replicated(high_watermark)
        count = decide_expired(
            state.segments.all,
            state.config,
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=state.log_start_offset,
        )
        if count == len(state.segments.all):
            try:
                self._writer.roll(now_ms)
            except KafkaError as error:
                # On a full disk the older segments must go all the more.
                log.warning("%s", error)
                count -= 1
        if not count:
            return Deletion(port=state.files)
        try:
            deletion = state.segments.drop_oldest(count)
        except OSError as error:
            raise state.write_error("cannot drop old segments", error) from error
        self._flusher.forget(path.removesuffix(DELETED_SUFFIX) for path in deletion.paths)
        first = state.segments.first_base_offset
        self.advance_log_start(first)
        self._snapshots.drop_older(first)
        return deletion

    def swap_compacted(self, replaced: Sequence[Segment]) -> Deletion | None:
        """Put the `.cleaned` segment that was written for some closed segments in their place.

        None, and nothing done, where these are no longer consecutive segments of this log:
        retention or a truncation came first. Raises KafkaError(kafka_storage_error).
        """
        state = self._state
        segments = state.segments.all
        bases = state.segments.base_offsets
        first = replaced[0].base_offset
        index = bases.index(first) if first in bases else 0
        if (
            state.failure is not None
            or state.corruption is not None
            or list(segments[index : index + len(replaced)]) != list(replaced)
            or index + len(replaced) >= len(segments)
        ):
            return None
        try:
            deletion = state.segments.swap_compacted(replaced)
        except OSError as error:
            raise state.broken("cannot take over a compacted segment", error) from error
        self._flusher.add(state.segments.directory)
        self._snapshots.drop_at(segment.base_offset for segment in replaced[1:])
        return deletion

    def advance_log_start(self, offset: int) -> None:
        """Raise the log start offset, for DeleteRecords or a follower of a leader that did.

        Nothing happens below the current one. Raises KafkaError(offset_out_of_range).
        """
        state = self._state
        if offset > state.log_end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{state}: log start offset {offset} is beyond the end {state.log_end_offset}",
            )
        if offset > state.log_start_offset:
            state.log_start_offset = offset
            if state.leader_epochs.truncate_start(offset):
                state.epochs_unwritten = True
