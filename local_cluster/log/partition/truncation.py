"""Truncating one log. A rename that fails half-way fails the log until a restart."""

from __future__ import annotations

from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.partition.log_flusher import LogFlusher
from local_cluster.log.partition.log_state import LogState
from local_cluster.log.state.snapshot_files import ProducerSnapshots
from local_cluster.records.header import BatchHeader


class LogTruncation:
    """Removes records from the end. The caller runs the deletions that the methods return.

    The caller also checkpoints the directory before the next append, as Kafka does. A recovery
    point beyond the end would make a later crash look like lost records.
    """

    def __init__(self, state: LogState, flusher: LogFlusher, snapshots: ProducerSnapshots) -> None:
        self._state = state
        self._flusher = flusher
        self._snapshots = snapshots

    def truncate_to(self, offset: int, now_ms: int) -> Deletion:
        """Remove every batch that reaches `offset`, and what follows a damaged length before it.

        The log then ends at `offset` or before, never later. On a corrupt log this is the way
        back: what is left is whole, and replication fetches the rest again.
        Raises KafkaError(kafka_storage_error).
        """
        state = self._state
        if state.failure is not None:
            raise state.refusal()
        if offset >= state.log_end_offset and state.corruption is None:
            return Deletion(port=state.files)
        if offset < state.segments.first_base_offset:
            return self.truncate_fully(offset, now_ms)
        try:
            deletion, boundary = state.segments.truncate(offset)
            if boundary.end_offset > boundary.next_offset:
                # Only a segment that starts at the end offset preserves it over a stop. It is
                # created after the truncation: a stop in between leaves a log that ends too early,
                # not one with batches beyond the start of the next segment. Until both are
                # flushed, a start reads everything.
                self._flusher.add(*state.segments.roll(boundary.end_offset, now_ms))
                self._flusher.limit_flushed(boundary.next_offset)
            self._set_end(boundary.end_offset, now_ms)
        except OSError as error:
            raise state.broken("cannot be truncated", error) from error
        return deletion

    def truncate_fully(self, offset: int, now_ms: int) -> Deletion:
        """Remove everything and start over at `offset`: the follower is far behind its leader.

        Raises KafkaError(kafka_storage_error).
        """
        state = self._state
        if state.failure is not None:
            raise state.refusal()
        try:
            self._snapshots.drop_all()
            deletion = state.segments.replace_all(offset, now_ms)
            state.log_start_offset = offset
            state.leader_epochs.clear()
            state.epochs_unwritten = True
            self._set_end(offset, now_ms)
        except OSError as error:
            raise state.broken("cannot be truncated", error) from error
        return deletion

    def start_over_with(self, first: BatchHeader, now_ms: int) -> Deletion | None:
        """Start an empty log at the base offset of the next batch, if it starts within that batch.

        DeleteRecords moves a leader's log start offset into the middle of a batch, and a follower
        that fetches from there gets the whole batch (KAFKA-6975). The caller sets the log start
        offset once the batch is appended.
        None, and nothing done, in every other case. Raises KafkaError(kafka_storage_error).
        """
        state = self._state
        starts_within = first.base_offset < state.log_end_offset <= first.last_offset
        if not starts_within or state.log_start_offset != state.log_end_offset:
            return None
        return self.truncate_fully(first.base_offset, now_ms)

    def _set_end(self, end_offset: int, now_ms: int) -> None:
        state = self._state
        state.log_end_offset = end_offset
        state.log_start_offset = min(state.log_start_offset, end_offset)
        state.corruption = None
        self._flusher.truncated(end_offset)
        self._flusher.add(state.segments.directory)
        if state.leader_epochs.truncate_end(end_offset):
            state.epochs_unwritten = True
        self._snapshots.drop_newer(end_offset)
        state.producers = self._snapshots.load(state.segments.all, end_offset, now_ms)
