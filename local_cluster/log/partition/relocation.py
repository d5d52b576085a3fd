"""The steps of a log that moves to another log directory of its broker (KIP-113).

step              what it does to the new log
mark_moved_here   marks its directory: if two directories have its name, this one is right
begin_full_flush  (`LogFlusher`) flushes all of it, its directory included
take_over         copies what the replaced log knows beyond the batches that both have
move_to           renames `-future` to its own name; the next flush covers the rename
succeed           shares the producers of the replaced log: two logs would diverge
unmark            removes the mark, once the replaced directory is gone
"""

from __future__ import annotations

from local_cluster.log.partition.log_flusher import LogFlusher
from local_cluster.log.partition.log_state import LogState
from local_cluster.log.partition.partition_directory import MOVED_HERE
from local_cluster.log.state.snapshot_files import ProducerSnapshots


class LogRelocation:
    """The steps on the new log. They raise KafkaError(kafka_storage_error)."""

    def __init__(self, state: LogState, flusher: LogFlusher, snapshots: ProducerSnapshots) -> None:
        self._state = state
        self._flusher = flusher
        self._snapshots = snapshots

    def mark_moved_here(self) -> None:
        """Write the mark; the next flush makes it durable."""
        directory = self._state.segments.directory
        path = f"{directory}/{MOVED_HERE}"
        try:
            self._state.files.replace(path, b"", durable=False)
        except OSError as error:
            raise self._state.write_error("cannot be marked", error) from error
        self._flusher.add(path, directory)

    def unmark(self) -> None:
        """Remove the mark: no other directory has this name any more."""
        directory = self._state.segments.directory
        try:
            self._state.files.remove(f"{directory}/{MOVED_HERE}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._state.write_error("its mark cannot be removed", error) from error
        self._flusher.add(directory)

    def take_over(self, other: LogRelocation) -> None:
        """Copy config, log start offset and leader epochs of the replaced log; write its producers.

        Both logs end at the same offset. No more counts as flushed than in the other log until a
        flush covers the rename: without it a start would find only the other one.
        """
        state, former = self._state, other._state
        assert former.log_end_offset == state.log_end_offset, "the logs end at the same offset"
        state.update_config(former.config)
        state.log_start_offset = former.log_start_offset
        state.leader_epochs.replace(former.leader_epochs.entries)
        state.epochs_unwritten = True
        self._flusher.limit_flushed(other._flusher.flushed_end_offset)
        try:
            self._flusher.add(self._snapshots.write(former.producers))
        except OSError as error:
            raise state.write_error("cannot write its producers", error) from error

    def move_to(self, directory: str) -> None:
        """Rename the directory; readers do not notice. On an error nothing has changed."""
        former = self._state.segments.directory
        try:
            self._state.segments.move_to(directory)
        except OSError as error:
            raise self._state.write_error("cannot be renamed", error) from error
        self._snapshots.move_to(directory)
        self._flusher.move(former, directory)
        self._flusher.add(directory.rpartition("/")[0])

    def succeed(self, other: LogRelocation) -> None:
        """Share the producers of the log that this one has replaced."""
        self._state.producers = other._state.producers
