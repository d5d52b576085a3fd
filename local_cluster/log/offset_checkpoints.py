"""The four offset checkpoints of a log directory: what they said at the start, what they say now.

    recovery-point-offset-checkpoint   below it everything was flushed
    log-start-offset-checkpoint        where it is not the base offset of the first segment
    replication-offset-checkpoint      high watermarks; with `flush: fsync` only what is on the disk
    cleaner-offset-checkpoint          how far a log was compacted; written only when it changed

What is known of a partition that is offline or corrupt stays as it was: lowered to what is still
readable, it would let the next start take the damage for a torn tail.

The files name logs by topic and partition. Until they are written again they also tell of logs that
are gone, and after a crash a new log of the same name would be opened by the old one's offsets:
`tells_of_former` says so, and whoever makes the new one writes the checkpoints first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from . import checkpoints as c
from .files import Files
from .partition_log import PartitionLog
from .tickets import LogDirectoryError

_log = logging.getLogger(__name__)

Key = tuple[str, int]
"""Topic and partition."""


class Turns:
    """Checkpoints are written one at a time, and none over a newer one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.written: dict[str, int] = {}
        """The newest checkpoint in each file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The offsets as they were when it was made; `run` writes them and may do so in any thread."""

    files: Files
    offsets: Mapping[str, Mapping[Key, int]]
    """By the path of the file."""
    number: int
    turns: Turns

    def run(self) -> None:
        """Blocks. Raises LogDirectoryError; what was written before stays as it is."""
        with self.turns.lock:
            try:
                for path, offsets in self.offsets.items():
                    if self.number < self.turns.written.get(path, 0):
                        continue
                    self.files.replace(path, c.encode_offsets(offsets), durable=True)
                    self.turns.written[path] = self.number
            except OSError as error:
                raise LogDirectoryError(f"checkpoint failed: {error}", error.errno) from error


class OffsetCheckpoints:
    """The offsets of every partition in one log directory, and their files."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._recovery_points: dict[Key, int] = {}
        self._log_starts: dict[Key, int] = {}
        self._high_watermarks: dict[Key, int] = {}
        self._cleaned: dict[Key, int] = {}
        self._cleaned_changed = False
        self._number = 0
        """Of the newest checkpoint that was prepared."""
        self._gone: dict[Key, int] = {}
        """Logs that are gone, and the newest checkpoint that may still tell of them."""
        self._turns = Turns()

    def load(self) -> None:
        """Read the files that are there. Raises OSError, CheckpointCorruptError."""
        self._recovery_points = self._read(c.RECOVERY_POINTS)
        self._log_starts = self._read(c.LOG_START_OFFSETS)
        self._high_watermarks = self._read(c.HIGH_WATERMARKS)
        self._cleaned = self._read(c.CLEANER_OFFSETS)

    def recovery_point(self, key: Key) -> int:
        return self._recovery_points.get(key, 0)

    def log_start(self, key: Key) -> int:
        return self._log_starts.get(key, 0)

    def high_watermark(self, key: Key) -> int:
        return self._high_watermarks.get(key, 0)

    def cleaned(self, key: Key) -> int:
        return self._cleaned.get(key, 0)

    def set_cleaned(self, key: Key, offset: int) -> None:
        self._cleaned[key] = offset
        self._cleaned_changed = True

    def keep(self, keys: Collection[Key]) -> None:
        """Forget what is known of logs that are not there any more."""
        known_of = (self._recovery_points, self._log_starts, self._high_watermarks)
        for key in {key for offsets in known_of for key in offsets if key not in keys}:
            self._forget_offsets(key)
        known = {key: at for key, at in self._cleaned.items() if key in keys}
        self._cleaned_changed = known != self._cleaned
        self._cleaned = known

    def forget(self, key: Key) -> None:
        """The log was taken out. Blocks for a write without a sync where it was compacted."""
        self._forget_offsets(key)
        if self._cleaned.pop(key, None) is None:
            return
        # At once: a log of the same name must not be taken for one that is compacted.
        path = f"{self._directory}/{c.CLEANER_OFFSETS}"
        try:
            self._files.replace(path, c.encode_offsets(self._cleaned), durable=False)
        except OSError as error:
            self._cleaned_changed = True
            _log.warning("%s is written later: %s", path, error)

    def _forget_offsets(self, key: Key) -> None:
        for offsets in (self._recovery_points, self._log_starts, self._high_watermarks):
            offsets.pop(key, None)
        self._gone[key] = self._number

    def tells_of_former(self, key: Key) -> bool:
        """Whether a file may still hold offsets of a log that is gone and had this name."""
        return key in self._gone and self._gone[key] >= self._number_written()

    def _number_written(self) -> int:
        """The newest checkpoint that is in every file."""
        names = (c.RECOVERY_POINTS, c.LOG_START_OFFSETS, c.HIGH_WATERMARKS)
        return min(self._turns.written.get(f"{self._directory}/{name}", 0) for name in names)

    def prepare(
        self,
        logs: Mapping[Key, PartitionLog],
        offline: Collection[Key],
        high_watermarks: Mapping[Key, int],
        *,
        only_flushed: bool,
    ) -> Checkpoint:
        """The checkpoints as of now, to be written by a worker.

        `high_watermarks` replace those known for the partitions they name; with `only_flushed`
        as far as the logs are on the disk.
        """
        self._number += 1
        written = self._number_written()
        self._gone = {key: number for key, number in self._gone.items() if number >= written}
        for key, high_watermark in high_watermarks.items():
            log = logs.get(key)
            if log is not None and log.corruption is None:
                # A follower that is not in sync may not have flushed yet what others committed.
                flushed = max(log.flushed_end_offset, self.high_watermark(key))
                self._high_watermarks[key] = (
                    min(high_watermark, flushed) if only_flushed else high_watermark
                )
        recovery_points = {key: self.recovery_point(key) for key in offline}
        log_starts = {key: self._log_starts[key] for key in offline if key in self._log_starts}
        for key, log in logs.items():
            recovery_points[key] = (
                log.flushed_end_offset if log.corruption is None else self.recovery_point(key)
            )
            if log.log_start_offset > log.first_base_offset:
                log_starts[key] = log.log_start_offset
        known = {key: hw for key, hw in self._high_watermarks.items() if key in recovery_points}
        offsets = {
            f"{self._directory}/{c.RECOVERY_POINTS}": recovery_points,
            f"{self._directory}/{c.LOG_START_OFFSETS}": log_starts,
            f"{self._directory}/{c.HIGH_WATERMARKS}": known,
        }
        if self._cleaned_changed:
            self._cleaned_changed = False
            offsets[f"{self._directory}/{c.CLEANER_OFFSETS}"] = dict(self._cleaned)
        return Checkpoint(self._files, offsets, self._number, self._turns)

    def _read(self, name: str) -> dict[Key, int]:
        path = f"{self._directory}/{name}"
        if not self._files.exists(path):
            return {}
        return c.decode_offsets(self._files.read_bytes(path))
