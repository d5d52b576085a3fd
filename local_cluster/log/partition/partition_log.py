"""One partition's log on one broker: append, read, flush, roll, truncate, delete.

Guarantees (README.md names the test of each):
- an append is visible whole or not at all; an I/O error leaves the log as it was
- no append opens a record; one write call per append
- a repetition of one of a producer's last 5 batches answers the original offsets
- `flushed_end_offset` moves only over bytes that an fsync covered; a failed one ends the log
- slices stay readable after their segment is deleted
- a corrupt log is never shortened; it refuses appends until someone truncates it on purpose
- aborted transactions are indexed: rebuilt after a crash, cut with a truncation

Not here: high watermark and replication (told from outside), what compaction writes (only the
swap), who may open a transaction (the produce handler asks the coordinator). Sync, one thread;
only tickets run elsewhere.
"""

from __future__ import annotations

from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState, is_out_of_space
from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.disk.files import Files
from local_cluster.log.partition import recovery
from local_cluster.log.partition.follower_appender import FollowerAppends
from local_cluster.log.partition.leader_appender import AppendResult, LeaderAppends
from local_cluster.log.partition.log_reader import LogReads
from local_cluster.log.partition.log_state import storage_error
from local_cluster.log.partition.relocation import Relocation
from local_cluster.log.partition.truncation import LogCuts
from local_cluster.log.segment.segment import LogSlice
from local_cluster.log.state.checkpoints import PARTITION_METADATA, encode_partition_metadata
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.log.state.snapshot_files import ProducerSnapshots
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError

__all__ = ["AppendResult", "FlushJob", "LogSlice", "PartitionLog"]


class PartitionLog(LeaderAppends, FollowerAppends, LogReads, Relocation, LogCuts):
    """The log of one replica. Make one with `PartitionLog.open` or `PartitionLog.create`."""

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
        """Open a partition directory that exists. See `recovery.open_files` for the offsets.

        `disk` is what the logs of one log directory share.
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
            end_offset = opened.segments[-1].next_offset
            snapshots = ProducerSnapshots(files, directory, opened.snapshots)
            rebuilt = [item for item in opened.segments if item.needs_transactions]
            producers = snapshots.load(opened.segments, end_offset, now_ms)
            for segment in rebuilt:
                segment.needs_transactions = False
                opened.unsynced += segment.write_transactions()
        except (CorruptRecordError, CompressionError) as error:
            # Below the recovery point nothing was checked. Without the marker nobody knows which
            # transaction ended, so the log must not lead.
            opened.corruption = opened.corruption or f"unreadable control batch: {error}"
            producers = ProducerState(end_offset)
        except OSError as error:
            if is_out_of_space(error):
                disk.note(error)
            raise storage_error(f"{topic}-{partition} cannot be opened", error) from error
        log_start_offset = min(max(log_start_offset, opened.segments[0].base_offset), end_offset)
        if opened.epochs.truncate_start(log_start_offset):
            opened.epochs_changed = True
        log = PartitionLog(
            files,
            directory,
            topic,
            partition,
            config,
            topic_id=topic_id,
            opened=opened,
            snapshots=snapshots,
            producers=producers,
            log_start_offset=log_start_offset,
            flushed_end_offset=end_offset if is_clean else min(recovery_point, end_offset),
            disk=disk,
        )
        if is_clean and not opened.unsynced and not opened.epochs_changed:
            log._settled_end_offset = end_offset
        if not is_clean:
            # The run that made the log may have died before its first flush.
            log._flush_creation()
        return log

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
        """Make the directory of a new partition, with its partition.metadata.

        The disk is waited for by the first flush, before anything is acknowledged.
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

    def adopt_topic_id(self, topic_id: UUID) -> None:
        """Note whose log it is, where its partition.metadata is missing.

        Raises KafkaError(kafka_storage_error).
        """
        assert self.topic_id is None, "a topic id never changes"
        path = f"{self.directory}/{PARTITION_METADATA}"
        try:
            self._files.replace(path, encode_partition_metadata(topic_id), durable=False)
        except OSError as error:
            raise self._write_error("cannot note its topic id", error) from error
        self.topic_id = topic_id
        self._flushing.add(path, self.directory)

    def _flush_creation(self) -> None:
        """Have the next flush make durable that the log is there, and whose it is."""
        if self.topic_id is not None:
            self._flushing.add(f"{self.directory}/{PARTITION_METADATA}")
        self._flushing.add(self.directory, self.directory.rpartition("/")[0])

    def close(self) -> None:
        """Make everything durable for a clean restart. Blocks.

        A log that failed or is corrupt stays as it is. Raises KafkaError(kafka_storage_error).
        """
        ticket = self.begin_close()
        if ticket is not None:
            ticket.run()
            self.complete_flush(ticket)

    def begin_close(self) -> FlushJob | None:
        """Write what a clean restart wants to find; what is returned makes it durable.

        None where everything is there already, as after a clean start without any append, or
        where the log failed or is corrupt. Raises KafkaError(kafka_storage_error).
        """
        if self.corruption is not None or self.failure is not None or self._is_settled():
            return None
        try:
            self._flushing.add(*self._segments.active.finish())
            self._flushing.add(self._snapshots.write(self.producers), self.directory)
        except OSError as error:
            raise self._write_error("cannot be closed", error) from error
        return self._make_ticket()

    def _is_settled(self) -> bool:
        """Whether the files are still as a clean stop left them."""
        return (
            self._settled_end_offset == self.log_end_offset
            and not self._flushing.is_touched
            and not self._epochs_unwritten
        )
