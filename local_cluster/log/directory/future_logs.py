"""The copies of replicas that move to one log directory from another (KIP-113).

Guarantees:
- A copy never counts as the replica before `promote` gives it that name.
- A copy that the end of the process interrupted starts over. Its directory is emptied and stays,
  so that the move continues.
"""

from __future__ import annotations

import logging
from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_directory import (
    MOVED_HERE,
    deleted_name,
    future_name,
    parse_future_name,
)
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.checkpoints import Key
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class FutureLogs:
    """The copies in one log directory, by topic and partition."""

    def __init__(self, files: Files, directory: str, disk: DiskState) -> None:
        self._files = files
        self._directory = directory
        self._disk = disk
        self._logs: dict[Key, PartitionLog] = {}
        self.interrupted: dict[Key, UUID] = {}
        """Topic ids of the copies that a former process began, and that did not start over yet."""

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, key: Key) -> PartitionLog | None:
        """Return the copy of a replica; None where there is none."""
        return self._logs.get(key)

    def keys_of(self, topic_id: UUID) -> list[Key]:
        """Return the copies of one incarnation of a topic, with the interrupted ones."""
        known = {key: log.topic_id for key, log in self._logs.items()} | self.interrupted
        return [key for key, each in known.items() if each == topic_id]

    def found(self, name: str) -> None:
        """Empty a copy that a former process left. Raises OSError."""
        parsed = parse_future_name(name)
        path = f"{self._directory}/{name}"
        if parsed is None:
            log.warning("%s is no copy of ours and is left alone", path)
            return
        topic, partition, topic_id = parsed
        self._files.remove_tree(path)
        self._files.make_dir(path)
        self.interrupted[topic, partition] = topic_id

    def create(self, key: Key, topic_id: UUID, config: LogConfig, now_ms: int) -> PartitionLog:
        """Create an empty copy.

        Raises KafkaError: kafka_storage_error, invalid_topic_exception.
        """
        assert key not in self._logs, "one copy of a replica"
        copy = PartitionLog.create(
            self._files,
            f"{self._directory}/{future_name(*key, topic_id)}",
            *key,
            config,
            now_ms=now_ms,
            topic_id=topic_id,
            disk=self._disk,
        )
        copy.relocation.mark_moved_here()
        self._logs[key] = copy
        self.interrupted.pop(key, None)
        return copy

    def drop(self, key: Key) -> list[str]:
        """Give up a copy; return the directories to delete.

        Raises KafkaError(kafka_storage_error).
        """
        copy = self._logs.get(key)
        topic_id = self.interrupted.get(key) if copy is None else copy.topic_id
        if topic_id is None:
            return []
        doomed = f"{self._directory}/{deleted_name(*key, topic_id)}"
        try:
            if self._files.exists(doomed):
                self._files.remove_tree(doomed)
            if copy is None:
                self._files.rename(f"{self._directory}/{future_name(*key, topic_id)}", doomed)
        except OSError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        if copy is not None:
            copy.delete(doomed)
            del self._logs[key]
        self.interrupted.pop(key, None)
        return [doomed]

    def promote(self, key: Key) -> PartitionLog:
        """Give a copy the name of the replica. Raises KafkaError(kafka_storage_error)."""
        copy = self._logs[key]
        copy.relocation.move_to(f"{self._directory}/{key[0]}-{key[1]}")
        del self._logs[key]
        return copy

    def was_moved_here(self, key: Key) -> bool:
        """Return whether this log replaced one in another directory, which may still exist."""
        return self._files.exists(f"{self._directory}/{key[0]}-{key[1]}/{MOVED_HERE}")

    def fail(self, reason: str) -> None:
        """Fail every copy: the disk cannot be trusted any more."""
        for copy in self._logs.values():
            copy.state.fail(reason)
