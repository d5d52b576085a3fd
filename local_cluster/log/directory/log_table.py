"""The logs of one log directory: those that are open, and the partitions that are offline."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import UUID

from local_cluster.clock import Clock
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.offset_checkpoints import OffsetCheckpoints
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_directory import deleted_name, load_topic_id
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.checkpoints import CheckpointCorruptError, Key
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class LogTable:
    """Opens logs with the offsets that the checkpoints hold for them."""

    def __init__(
        self,
        files: Files,
        directory: str,
        clock: Clock,
        disk: DiskState,
        offsets: OffsetCheckpoints,
    ) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._disk = disk
        self._offsets = offsets
        self.logs: dict[Key, PartitionLog] = {}
        self.offline: dict[Key, str] = {}
        """Partitions that could not be opened, and why."""
        self.config = LogConfig()
        """The config of the logs until `LogState.update_config`."""
        self.flushes = True
        """Whether the broker acknowledges only flushed records (`flush: fsync`)."""

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self.logs.values()))

    def require(self, key: Key) -> PartitionLog:
        """Return a log. Raises KafkaError(kafka_storage_error) where it is offline."""
        found = self.logs.get(key)
        if found is None:
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline[key])
        return found

    def find(self, key: Key, topic_id: UUID, config: LogConfig) -> PartitionLog | None:
        """Return the log of one incarnation of a topic, with the config applied; None if not here.

        Raises KafkaError: kafka_storage_error where it is offline, inconsistent_topic_id where the
        log belongs to another incarnation.
        """
        if key in self.offline:
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline[key])
        known = self.logs.get(key)
        if known is None:
            return None
        if known.topic_id is None:
            # Its partition.metadata is missing: without an id nobody could delete it.
            known.adopt_topic_id(topic_id)
        if known.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.inconsistent_topic_id,
                f"{known} has topic id {known.topic_id}, not {topic_id}",
            )
        known.state.update_config(config)
        return known

    def create(self, key: Key, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """Create the log of a new partition. Raises KafkaError(kafka_storage_error)."""
        created = self.logs[key] = PartitionLog.create(
            self._files,
            f"{self._directory}/{key[0]}-{key[1]}",
            *key,
            config,
            now_ms=self._clock.now_ms(),
            topic_id=topic_id,
            disk=self._disk,
        )
        return created

    def rename_deleted(self, deleted: PartitionLog) -> Deletion:
        """Rename the directory of a log to `-delete`; the log stays in the table.

        Raises KafkaError(kafka_storage_error).
        """
        name = deleted_name(deleted.topic, deleted.partition, deleted.topic_id)
        new_path = f"{self._directory}/{name}"
        if self._files.exists(new_path):
            # An earlier deletion of the same incarnation did not complete.
            try:
                self._files.remove_tree(new_path)
            except OSError as error:
                raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        return deleted.delete(new_path)

    def load(self, key: Key, *, is_clean: bool) -> None:
        """Open the log in the directory of its name, or take its partition offline."""
        path = f"{self._directory}/{key[0]}-{key[1]}"
        try:
            # A log may have been a stray, with no checkpoint written since it came back.
            self._offsets.take_from(path, key)
            topic_id = load_topic_id(self._files, path)
        except (OSError, CheckpointCorruptError) as error:
            self._set_offline(key, f"{path}: {error}")
            return
        except KafkaError as error:
            # Its first flush makes partition.metadata durable before anything else counts.
            if self._durable_offset(key):
                self._set_offline(key, str(error))
            else:
                self._recreate(key, path, error)
            return
        recovery_point = self._offsets.recovery_point(key)
        # After a crash the recovery point may lie beyond a truncation. The high watermark lies
        # beyond one only after an unclean leader election; then the replica is fetched again, as
        # it must be.
        end_offset_min = recovery_point if is_clean else 0
        if self.flushes:
            end_offset_min = end_offset_min or self._offsets.high_watermark(key)
        try:
            self.logs[key] = PartitionLog.open(
                self._files,
                path,
                *key,
                self.config,
                now_ms=self._clock.now_ms(),
                topic_id=topic_id,
                recovery_point=recovery_point,
                durable_offset=self._durable_offset(key),
                end_offset_min=end_offset_min,
                log_start_offset=self._offsets.log_start(key),
                is_clean=is_clean,
                disk=self._disk,
            )
        except KafkaError as error:
            self._set_offline(key, str(error))

    def reload(self) -> bool:
        """Open again what is offline, or failed when a change of its files was refused. Blocks.

        Return whether a log failed: its recovery point may lie beyond its end, so the checkpoints
        must be written before anything is appended.
        """
        any_failed = False
        for key, failed in list(self.logs.items()):
            if failed.failure is not None:
                # It is not closed: a flush of it may be running.
                self._offsets.note(key, failed)
                any_failed = True
                del self.logs[key]
                self._set_offline(key, failed.failure)
        for key in list(self.offline):
            del self.offline[key]
            self.load(key, is_clean=False)
        return any_failed

    def _durable_offset(self, key: Key) -> int:
        recovery_point = self._offsets.recovery_point(key)
        if not self.flushes:
            return recovery_point
        return max(recovery_point, self._offsets.high_watermark(key))

    def _set_offline(self, key: Key, reason: str) -> None:
        log.error("a partition is offline: %s", reason)
        self.offline[key] = reason

    def _recreate(self, key: Key, path: str, reason: KafkaError) -> None:
        log.warning("%s was never flushed and is deleted to be re-created: %s", path, reason)
        try:
            self._files.remove_tree(path)
        except OSError as error:
            self._set_offline(key, f"{path}: {error}")
