"""A log that moves to another log directory of its broker (KIP-113): the steps of the new log.

step              what it does
mark_moved_here   before anything: should two directories ever bear its name, this is the one
begin_sync        all of it, its directory included, to the disk
take_over         what the log that it replaces knows beyond the batches that both have
move_to           from `-future` to its own name; the next flush covers the renaming
succeed           the other one's producers, which are one state, and never that of two logs
unmark            the other one is gone
"""

from __future__ import annotations

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.partition.log_flusher import LogFlushes
from local_cluster.log.partition.partition_directory import MOVED_HERE
from local_cluster.log.state.epochs import LeaderEpochs


class Relocation(LogFlushes):
    """What a move does to the new log. Its methods raise KafkaError(kafka_storage_error)."""

    def mark_moved_here(self) -> None:
        """Leave the mark; the next flush makes it durable."""
        path = f"{self.directory}/{MOVED_HERE}"
        try:
            self._files.replace(path, b"", durable=False)
        except OSError as error:
            raise self._write_error("cannot be marked", error) from error
        self._flushing.add(path, self.directory)

    def unmark(self) -> None:
        """Take the mark away: there is no other directory of this name any more."""
        try:
            self._files.remove(f"{self.directory}/{MOVED_HERE}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._write_error("its mark stays", error) from error
        self._flushing.add(self.directory)

    def begin_sync(self) -> FlushJob:
        """A flush, also where no record waits for one."""
        if self.failure is not None or self.corruption is not None:
            raise self._refusal()
        return self._make_ticket()

    def take_over(self, other: Relocation) -> None:
        """Know what another log of the same records knows: its config, its log start, the epochs
        whose batches are gone; and note its producers.

        No more counts as flushed than in the other one, until a flush has covered the renaming:
        without it a start would find the other one alone.
        """
        assert other.log_end_offset == self.log_end_offset, "the logs end together"
        self.update_config(other.config)
        self.log_start_offset = other.log_start_offset
        self.leader_epochs = LeaderEpochs(other.leader_epochs.entries)
        self._latest_epoch = self.leader_epochs.latest
        self._epochs_unwritten = True
        self._flushing.count_at_most(other.flushed_end_offset)
        try:
            self._flushing.add(self._snapshots.write(other.producers))
        except OSError as error:
            raise self._write_error("cannot note its producers", error) from error

    def move_to(self, directory: str) -> None:
        """Rename the directory; readers do not notice. On an error everything is as it was."""
        former = self.directory
        try:
            self._segments.move_to(directory)
        except OSError as error:
            raise self._write_error("cannot be renamed", error) from error
        self._snapshots.move_to(directory)
        self._flushing.move(former, directory)
        self._flushing.add(directory.rpartition("/")[0])

    def succeed(self, other: Relocation) -> None:
        """Go on with the producers of another log, in whose place this one is now."""
        self.producers = other.producers
