"""The strays of one log directory: logs that no replica of this broker uses.

Their directories have the suffix `-stray`, as in Kafka. A stray gets its name back when its replica
is assigned to this broker again; otherwise it is deleted after a while.

The while is measured by the monotonic clock of running brokers. So a wall clock that jumps does not
shorten it, and a broker that was down for long finds nothing overdue. It is written to `kept-ms` in
each directory now and then, and a start continues from there. Time between the last note and a
crash does not count.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from local_cluster.clock import Clock
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_directory import DELETE_SUFFIX, STRAY_SUFFIX, stray_name
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.wire.errors import ErrorCode, KafkaError

KEPT_MS: Final = "kept-ms"
"""A file in the directory of a stray: the time that it was kept so far, as decimal digits."""
KEPT_MS_DIGITS_MAX: Final = 15
"""A note with more digits is not valid."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StrayNotes:
    """How long each stray has been kept, to be written by a worker."""

    kept_ms: Mapping[str, int]
    """By the path of its directory."""
    port: Files

    def run(self) -> None:
        """Write the notes. Blocks; may run in any thread. Raises OSError."""
        for path, kept_ms in self.kept_ms.items():
            # The stray may have got its name back, or be renamed for deletion.
            with contextlib.suppress(FileNotFoundError):
                self.port.replace(f"{path}/{KEPT_MS}", str(kept_ms).encode(), durable=False)


class StrayLogs:
    """The strays of one log directory, by the name of their directory."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._since_ms: dict[str, int] = {}
        """Since when each is kept, on the monotonic clock; former processes count."""

    def found(self, name: str) -> None:
        """Take in a stray that a former process left."""
        log.warning("%s/%s is assigned to no replica of this broker", self._directory, name)
        self._since_ms[name] = self._clock.monotonic_ms() - self._read_kept_ms(name)

    def has(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Return whether this replica is set aside here."""
        return stray_name(topic, partition, topic_id) in self._since_ms

    def path(self, topic: str, partition: int, topic_id: UUID) -> str:
        """Return the directory of a replica while it is set aside."""
        return f"{self._directory}/{stray_name(topic, partition, topic_id)}"

    def add(self, stray: PartitionLog) -> str:
        """Set a log aside and fail it; return its path. Raises KafkaError(kafka_storage_error)."""
        assert stray.topic_id is not None, "the topic id is known"
        name = stray_name(stray.topic, stray.partition, stray.topic_id)
        path = f"{self._directory}/{name}"
        try:
            # It may have been a stray before, and got its name back while a note was written.
            self._remove_note(f"{self._directory}/{stray.topic}-{stray.partition}")
        except OSError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        stray.delete(path)
        self._since_ms[name] = self._clock.monotonic_ms()
        return path

    def bring_back(self, topic: str, partition: int, topic_id: UUID) -> None:
        """Give the directory of a replica its name back. Raises OSError."""
        name = stray_name(topic, partition, topic_id)
        path = f"{self._directory}/{topic}-{partition}"
        self._remove_note(f"{self._directory}/{name}")
        self._files.rename(f"{self._directory}/{name}", path)
        del self._since_ms[name]
        log.warning("%s is assigned to this broker again", path)

    def prepare_notes(self) -> StrayNotes:
        """Return the notes that a later start continues from."""
        now_ms = self._clock.monotonic_ms()
        kept_ms = {f"{self._directory}/{n}": now_ms - since for n, since in self._since_ms.items()}
        return StrayNotes(kept_ms, self._files)

    def take_old(self, older_than_ms: int) -> list[str]:
        """Give up the strays that were kept for that long; return the directories to delete."""
        now_ms = self._clock.monotonic_ms()
        given_up = []
        for name in [n for n, since in self._since_ms.items() if now_ms - since >= older_than_ms]:
            doomed = f"{self._directory}/{name.removesuffix(STRAY_SUFFIX)}{DELETE_SUFFIX}"
            try:
                # Renamed first: a half deleted stray must not come back as a replica.
                self._files.rename(f"{self._directory}/{name}", doomed)
            except OSError as error:
                log.error("%s/%s stays for now: %s", self._directory, name, error)
                continue
            log.warning("%s/%s was kept long enough and is deleted", self._directory, name)
            del self._since_ms[name]
            given_up.append(doomed)
        return given_up

    def _read_kept_ms(self, name: str) -> int:
        try:
            content = self._files.read_bytes(f"{self._directory}/{name}/{KEPT_MS}")
        except OSError:
            return 0
        # A note that a power failure tore says nothing: the stray is kept for longer then.
        return int(content) if content.isdigit() and len(content) <= KEPT_MS_DIGITS_MAX else 0

    def _remove_note(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(f"{directory}/{KEPT_MS}")
