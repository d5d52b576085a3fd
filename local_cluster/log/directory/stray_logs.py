"""What was set aside in one log directory: logs that nobody assigns to this broker.

Their directories bear the suffix `-stray` (as in Kafka), are no logs to anybody, and come back by
their name when their replica is assigned to this broker again, or are deleted after a while.

That while is time in which a broker ran with them, as its monotonic clock says: wall clocks that
jump do not shorten it, and a broker that was off for long finds nothing overdue. It is noted in
`kept-ms` in their directories now and then, so that a start goes on from there; what ran since the
last note before a crash does not count.
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
"""A file in the directory of a stray: for how long brokers ran with it so far, in digits."""
KEPT_MS_DIGITS_MAX: Final = 15
"""More is no time that anything was kept."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StrayNotes:
    """For how long each stray has been kept, to be written by a worker."""

    kept_ms: Mapping[str, int]
    """By the path of its directory."""
    port: Files

    def run(self) -> None:
        """Write it down. Blocks; may run in any thread. Raises OSError."""
        for path, kept_ms in self.kept_ms.items():
            # It may have come back, or be on its way out.
            with contextlib.suppress(FileNotFoundError):
                self.port.replace(f"{path}/{KEPT_MS}", str(kept_ms).encode(), durable=False)


class StrayLogs:
    """Kept by the log directory."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._since_ms: dict[str, int] = {}
        """By the name of the directory, since when (monotonic) it is kept, former runs included."""

    def found(self, name: str) -> None:
        """A stray of a former run is there."""
        _log.warning("%s/%s is assigned to no replica of this broker", self._directory, name)
        self._since_ms[name] = self._clock.monotonic_ms() - self._read_kept_ms(name)

    def has(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether this very replica is here."""
        return stray_name(topic, partition, topic_id) in self._since_ms

    def path(self, topic: str, partition: int, topic_id: UUID) -> str:
        """Where a replica is while it is set aside."""
        return f"{self._directory}/{stray_name(topic, partition, topic_id)}"

    def add(self, log: PartitionLog) -> str:
        """Set a log aside, which is then over: the path. Raises KafkaError(kafka_storage_error)."""
        assert log.topic_id is not None, "what it is of is known"
        name = stray_name(log.topic, log.partition, log.topic_id)
        path = f"{self._directory}/{name}"
        try:
            # It may have been a stray before, and come back while that was written.
            self._remove_note(f"{self._directory}/{log.topic}-{log.partition}")
        except OSError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        log.delete(path)
        self._since_ms[name] = self._clock.monotonic_ms()
        return path

    def bring_back(self, topic: str, partition: int, topic_id: UUID) -> None:
        """Give the directory of a replica its name back. Raises OSError."""
        name = stray_name(topic, partition, topic_id)
        path = f"{self._directory}/{topic}-{partition}"
        self._remove_note(f"{self._directory}/{name}")
        self._files.rename(f"{self._directory}/{name}", path)
        del self._since_ms[name]
        _log.warning("%s is assigned to this broker again", path)

    def prepare_notes(self) -> StrayNotes:
        """What a start is to know of how long they are kept."""
        now_ms = self._clock.monotonic_ms()
        kept_ms = {f"{self._directory}/{n}": now_ms - since for n, since in self._since_ms.items()}
        return StrayNotes(kept_ms, self._files)

    def take_old(self, older_than_ms: int) -> list[str]:
        """Give up what is kept for that long: the directories to be removed."""
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

    def _read_kept_ms(self, name: str) -> int:
        try:
            content = self._files.read_bytes(f"{self._directory}/{name}/{KEPT_MS}")
        except OSError:
            return 0
        # A note that was torn by a loss of power says nothing: it is kept for longer, then.
        return int(content) if content.isdigit() and len(content) <= KEPT_MS_DIGITS_MAX else 0

    def _remove_note(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(f"{directory}/{KEPT_MS}")
