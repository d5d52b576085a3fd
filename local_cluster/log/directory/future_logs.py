"""Copies, in one log directory, of replicas that are moving here from another one (KIP-113).

Guarantees: a copy never counts as the replica before `promote` gave it that name; one that was
interrupted by the end of the process is begun anew (its directory is emptied, and stays, so that
the move goes on).
"""

from __future__ import annotations

import logging
from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_directory import (
    deleted_name,
    future_name,
    parse_future_name,
)
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

Key = tuple[str, int]
"""Topic and partition."""


class FutureLogs:
    """Kept by the log directory."""

    def __init__(self, files: Files, directory: str, disk: DiskState) -> None:
        self._files = files
        self._directory = directory
        self._disk = disk
        self._logs: dict[Key, PartitionLog] = {}
        self.interrupted: dict[Key, UUID] = {}
        """Topic ids of moves that a former run began, and that were not begun anew yet."""

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, key: Key) -> PartitionLog | None:
        """The copy of a replica, None where none is made here."""
        return self._logs.get(key)

    def keys_of(self, topic_id: UUID) -> list[Key]:
        """The copies of one incarnation of a topic, those that were interrupted among them."""
        known = {key: log.topic_id for key, log in self._logs.items()} | self.interrupted
        return [key for key, each in known.items() if each == topic_id]

    def found(self, name: str) -> None:
        """A copy of a former run is there: empty it. Raises OSError."""
        parsed = parse_future_name(name)
        path = f"{self._directory}/{name}"
        if parsed is None:
            _log.warning("%s is no copy of ours and is left alone", path)
            return
        topic, partition, topic_id = parsed
        self._files.remove_tree(path)
        self._files.make_dir(path)
        self.interrupted[topic, partition] = topic_id

    def create(self, key: Key, topic_id: UUID, config: LogConfig, now_ms: int) -> PartitionLog:
        """Begin a copy, empty. Raises KafkaError: kafka_storage_error, invalid_topic_exception."""
        assert key not in self._logs, "one copy of a replica"
        log = PartitionLog.create(
            self._files,
            f"{self._directory}/{future_name(*key, topic_id)}",
            *key,
            config,
            now_ms=now_ms,
            topic_id=topic_id,
            disk=self._disk,
        )
        log.mark_moved_here()
        self._logs[key] = log
        self.interrupted.pop(key, None)
        return log

    def drop(self, key: Key) -> list[str]:
        """Give a copy up: the directories to be removed. Raises KafkaError(kafka_storage_error)."""
        log = self._logs.get(key)
        topic_id = self.interrupted.get(key) if log is None else log.topic_id
        if topic_id is None:
            return []
        doomed = f"{self._directory}/{deleted_name(*key, topic_id)}"
        try:
            if self._files.exists(doomed):
                self._files.remove_tree(doomed)
            if log is None:
                self._files.rename(f"{self._directory}/{future_name(*key, topic_id)}", doomed)
        except OSError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        if log is not None:
            log.delete(doomed)
            del self._logs[key]
        self.interrupted.pop(key, None)
        return [doomed]

    def promote(self, key: Key) -> PartitionLog:
        """Give a copy the name of the replica. Raises KafkaError(kafka_storage_error)."""
        log = self._logs[key]
        log.move_to(f"{self._directory}/{key[0]}-{key[1]}")
        del self._logs[key]
        return log

    def fail(self, reason: str) -> None:
        """End every copy: the disk cannot be trusted any more."""
        for log in self._logs.values():
            log.fail(reason)
