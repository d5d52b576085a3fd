"""What was set aside in one log directory: logs that nobody assigns to this broker.

Their directories bear the suffix `-stray` (as in Kafka), are no logs to anybody, and come back by
their name when their replica is assigned to this broker again, or are deleted after a while.
"""

from __future__ import annotations

import logging
from uuid import UUID

from local_cluster.clock import Clock

from .files import Files
from .partition_directory import DELETE_SUFFIX, STRAY_SUFFIX, stray_name
from .partition_log import PartitionLog

_log = logging.getLogger(__name__)


class StrayLogs:
    """Kept by the log directory."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._since_ms: dict[str, int] = {}
        """By the name of the directory, since when (monotonic) this run of the broker knows it."""

    def found(self, name: str) -> None:
        """A stray of a former run is there."""
        _log.warning("%s/%s is assigned to no replica of this broker", self._directory, name)
        self._since_ms[name] = self._clock.monotonic_ms()

    def has(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether this very replica is here."""
        return stray_name(topic, partition, topic_id) in self._since_ms

    def add(self, log: PartitionLog) -> str:
        """Set a log aside, which is then over: the path. Raises KafkaError(kafka_storage_error)."""
        assert log.topic_id is not None, "what it is of is known"
        name = stray_name(log.topic, log.partition, log.topic_id)
        path = f"{self._directory}/{name}"
        log.delete(path)
        self._since_ms[name] = self._clock.monotonic_ms()
        return path

    def bring_back(self, topic: str, partition: int, topic_id: UUID) -> None:
        """Give the directory of a replica its name back. Raises OSError."""
        name = stray_name(topic, partition, topic_id)
        path = f"{self._directory}/{topic}-{partition}"
        self._files.rename(f"{self._directory}/{name}", path)
        del self._since_ms[name]
        _log.warning("%s is assigned to this broker again", path)

    def take_old(self, older_than_ms: int) -> list[str]:
        """Give up what was set aside that long ago: the directories to be removed."""
        now_ms = self._clock.monotonic_ms()
        given_up = []
        for name in [n for n, since in self._since_ms.items() if now_ms - since >= older_than_ms]:
            doomed = f"{self._directory}/{name.removesuffix(STRAY_SUFFIX)}{DELETE_SUFFIX}"
            try:
                # Renamed first: what is half removed must not come back as a replica.
                self._files.rename(f"{self._directory}/{name}", doomed)
            except OSError as error:
                _log.error("%s/%s stays for now: %s", self._directory, name, error)
                continue
            _log.warning("%s/%s was set aside for long, and is deleted", self._directory, name)
            del self._since_ms[name]
            given_up.append(doomed)
        return given_up
