"""The log of one replica: its state, and the parts that work on it.

part         what it does
as_leader    appends of producers and transaction coordinators
as_follower  appends of batches fetched from the leader
reader       slices by offset, offsets by time and epoch, aborted transactions
flusher      flush jobs, and how far the log is durable
cleanup      retention, compacted segments, the log start offset
truncation   truncation at the end
relocation   the steps of a move to another log directory
writer       rolling

Guarantees (docs/guarantees/log.md names the test of each):
- an append is visible whole or not at all; an I/O error leaves the log unchanged
- no append opens a record; one write call per append
- a repetition of one of a producer's last 5 batches returns the original offsets
- `flushed_end_offset` rises only over bytes that an fsync covered; a failed one fails the log
- slices stay readable after their segment is deleted
- a corrupt log is never shortened; it refuses appends until it is truncated on purpose
- aborted transactions are indexed: rebuilt after a crash, removed by a truncation

Not here: the high watermark and replication, what compaction writes (only the swap), and who may
open a transaction (the produce handler asks the coordinator). Everything is synchronous and
belongs to one thread; only disk work (`disk_work`) runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState, is_out_of_space
from local_cluster.log.disk.disk_work import Deletion, FlushJob
from local_cluster.log.disk.files import Files
from local_cluster.log.partition import recovery
from local_cluster.log.partition.follower_appender import FollowerAppender
from local_cluster.log.partition.leader_appender import AppendResult, LeaderAppender
from local_cluster.log.partition.log_cleanup import LogCleanup
from local_cluster.log.partition.log_flusher import LogFlusher
from local_cluster.log.partition.log_reader import LogReader
from local_cluster.log.partition.log_state import LogState, storage_error
from local_cluster.log.partition.log_writer import LogWriter
from local_cluster.log.partition.relocation import LogRelocation
from local_cluster.log.partition.truncation import LogTruncation
from local_cluster.log.segment.segment import LogSlice
from local_cluster.log.segment.segment_list import SegmentList
from local_cluster.log.state.checkpoints import PARTITION_METADATA, encode_partition_metadata
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.log.state.snapshot_files import ProducerSnapshots
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError

__all__ = ["AppendResult", "FlushJob", "LogSlice", "PartitionLog"]


class PartitionLog:
    """The log of one replica. Make one with `PartitionLog.open` or `PartitionLog.create`."""

    def __init__(
        self,
        state: LogState,
        snapshots: ProducerSnapshots,
        *,
        flushed_end_offset: int,
        unflushed: Sequence[str],
    ) -> None:
        self.state = state
        self.topic = state.topic
        self.partition = state.partition
        self.segments = state.segments
        self.leader_epochs = state.leader_epochs
        self._snapshots = snapshots
        self.flusher = LogFlusher(state, flushed_end_offset, unflushed)
        self.reader = LogReader(state)
        self.writer = LogWriter(state, self.flusher, snapshots)
        self.as_leader = LeaderAppender(state, self.writer)
        self.as_follower = FollowerAppender(state, self.writer)
        self.cleanup = LogCleanup(state, self.writer, self.flusher, snapshots)
        self.truncation = LogTruncation(state, self.flusher, snapshots)
        self.relocation = LogRelocation(state, self.flusher, snapshots)
        self.torn_bytes = 0
        """Bytes of a torn tail that opening the log truncated."""
        self._settled_end_offset: int | None = None
        """Where the log ended when a clean start found everything on the disk."""

    @staticmethod
    def open(
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: UUID | None = None,
        recovery_point: int = 0,
        durable_offset: int = 0,
        end_offset_min: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
        disk: DiskState | None = None,
    ) -> PartitionLog:
        """Open a partition directory that exists. `recovery.open_files` explains the offsets.

        `disk` is shared by the logs of one log directory.
        Raises KafkaError(kafka_storage_error) where the disk fails.
        """
        disk = disk or DiskState(directory)
        try:
            opened = recovery.open_files(
                files,
                directory,
                index_interval_bytes=config.index_interval_bytes,
                recovery_point=recovery_point,
                durable_offset=durable_offset,
                end_offset_min=end_offset_min,
                log_start_offset=log_start_offset,
                is_clean=is_clean,
                now_ms=now_ms,
            )
            snapshots = ProducerSnapshots(files, directory, opened.snapshots)
            producers = _load_producers(opened, snapshots, now_ms)
        except OSError as error:
            if is_out_of_space(error):
                disk.note(error)
            raise storage_error(f"{topic}-{partition} cannot be opened", error) from error
        end_offset = opened.end_offset
        log_start_offset = min(max(log_start_offset, opened.segments[0].base_offset), end_offset)
        if opened.epochs.truncate_start(log_start_offset):
            opened.epochs_changed = True
        state = LogState(
            files,
            topic,
            partition,
            topic_id=topic_id,
            config=config,
            segments=SegmentList(files, directory, opened.segments, opened.hidden),
            leader_epochs=opened.epochs,
            producers=producers,
            log_start_offset=log_start_offset,
            corruption=opened.corruption,
            disk=disk,
        )
        state.epochs_unwritten = opened.epochs_changed
        log = PartitionLog(
            state,
            snapshots,
            flushed_end_offset=end_offset if is_clean else min(recovery_point, end_offset),
            unflushed=opened.unflushed,
        )
        log._note_recovery(opened, is_clean=is_clean)
        return log

    def _note_recovery(self, opened: recovery.OpenedFiles, *, is_clean: bool) -> None:
        self.torn_bytes = opened.torn_bytes
        if is_clean and not opened.unflushed and not opened.epochs_changed:
            self._settled_end_offset = opened.end_offset
        if not is_clean:
            # The process that created the log may have died before its first flush.
            self._flush_creation()

    @staticmethod
    def create(
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: UUID,
        disk: DiskState | None = None,
    ) -> PartitionLog:
        """Create the directory of a new partition, with its partition.metadata.

        The first flush waits for the disk, before anything is acknowledged.
        Raises KafkaError(kafka_storage_error).
        """
        disk = disk or DiskState(directory)
        metadata_path = f"{directory}/{PARTITION_METADATA}"
        try:
            files.make_dir(directory)
            files.replace(metadata_path, encode_partition_metadata(topic_id), durable=False)
        except OSError as error:
            disk.note(error)
            raise storage_error(f"{topic}-{partition} cannot be created", error) from error
        return PartitionLog.open(
            files, directory, topic, partition, config, now_ms=now_ms, topic_id=topic_id, disk=disk
        )

    # -- what the log knows -----------------------------------------------------------------

    @property
    def topic_id(self) -> UUID | None:
        return self.state.topic_id

    @property
    def config(self) -> LogConfig:
        return self.state.config

    @property
    def directory(self) -> str:
        return self.state.segments.directory

    @property
    def log_start_offset(self) -> int:
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.state.log_end_offset

    @property
    def flushed_end_offset(self) -> int:
        return self.flusher.flushed_end_offset

    @property
    def producers(self) -> ProducerState:
        return self.state.producers

    @property
    def corruption(self) -> str | None:
        return self.state.corruption

    @property
    def failure(self) -> str | None:
        return self.state.failure

    def __str__(self) -> str:
        return str(self.state)

    # -- its directory ----------------------------------------------------------------------

    def adopt_topic_id(self, topic_id: UUID) -> None:
        """Write the topic id of a log whose partition.metadata is missing.

        Raises KafkaError(kafka_storage_error).
        """
        assert self.topic_id is None, "a topic id never changes"
        path = f"{self.directory}/{PARTITION_METADATA}"
        try:
            self.state.files.replace(path, encode_partition_metadata(topic_id), durable=False)
        except OSError as error:
            raise self.state.write_error("cannot write its topic id", error) from error
        self.state.topic_id = topic_id
        self.flusher.add(path, self.directory)

    def delete(self, new_directory: str) -> Deletion:
        """Rename the directory out of the way and fail the log; slices in use stay readable.

        Raises KafkaError(kafka_storage_error).
        """
        try:
            deletion = self.segments.move_to(new_directory)
        except OSError as error:
            raise self.state.write_error("cannot be deleted", error) from error
        self.state.fail("the partition was deleted")
        return deletion

    def close(self) -> None:
        """Make everything durable for a clean restart. Blocks.

        A log that failed or is corrupt stays as it is. Raises KafkaError(kafka_storage_error).
        """
        job = self.begin_close()
        if job is not None:
            job.run()
            self.flusher.complete_flush(job)

    def begin_close(self) -> FlushJob | None:
        """Write what a clean restart expects; return the job that makes it durable.

        None where the files are already complete, as after a clean start without an append, or
        where the log failed or is corrupt. Raises KafkaError(kafka_storage_error).
        """
        state = self.state
        if state.corruption is not None or state.failure is not None or self._is_settled():
            return None
        try:
            self.flusher.add(*state.segments.active.finish())
            self.flusher.add(self._snapshots.write(state.producers), self.directory)
        except OSError as error:
            raise state.write_error("cannot be closed", error) from error
        return self.flusher.make_job()

    def _is_settled(self) -> bool:
        """Return whether the files are still as a clean shutdown left them."""
        return (
            self._settled_end_offset == self.state.log_end_offset
            and self.flusher.is_unchanged
            and not self.state.epochs_unwritten
        )

    def _flush_creation(self) -> None:
        """Let the next flush cover the directory of the log and its partition.metadata."""
        if self.topic_id is not None:
            self.flusher.add(f"{self.directory}/{PARTITION_METADATA}")
        self.flusher.add(self.directory, self.directory.rpartition("/")[0])


def _load_producers(
    opened: recovery.OpenedFiles, snapshots: ProducerSnapshots, now_ms: int
) -> ProducerState:
    """Load the producers, and write the transaction indexes that had to be rebuilt."""
    rebuilt = [item.transactions for item in opened.segments if item.transactions.needs_rebuild]
    try:
        producers = snapshots.load(opened.segments, opened.end_offset, now_ms)
    except (CorruptRecordError, CompressionError) as error:
        # Below the recovery point nothing was checked. Without the marker nobody knows which
        # transaction ended, so the log must not lead.
        opened.corruption = opened.corruption or f"unreadable control batch: {error}"
        return ProducerState(opened.end_offset)
    for transactions in rebuilt:
        transactions.needs_rebuild = False
        opened.unflushed += transactions.write_out()
    return producers
