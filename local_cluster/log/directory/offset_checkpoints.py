"""The four offset checkpoints of a log directory: what they said at the start, what they say now.

    recovery-point-offset-checkpoint   below it everything was flushed
    log-start-offset-checkpoint        where it is not the base offset of the first segment
    replication-offset-checkpoint      high watermarks; with `flush: fsync` only what is on the disk
    cleaner-offset-checkpoint          how far a log was compacted, never beyond where it ends;
                                       written only when it changed, and before the others

What is known of a partition that is offline or corrupt stays as it was: lowered to what is still
readable, it would let the next start take the damage for a torn tail.

The files name logs by topic and partition. Until they are written again they also tell of logs that
are gone, and after a crash a new log of the same name would be opened by the old one's offsets:
`tells_of_former` says so, and whoever makes the new one writes the checkpoints first.

What they knew of a log that is set aside lies in its own directory, in `stray-offsets`: it is what
the log is opened by when it comes back, and what a start goes by as long as no checkpoint tells of
the log. What is left of it after that is read by nobody, and replaced when the log is set aside
again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state import checkpoints as c

Key = tuple[str, int]
"""Topic and partition."""

STRAY_OFFSETS: Final = "stray-offsets"
"""A file in the directory of a log that is or was set aside: its lines are those of a checkpoint,
with the name of the checkpoint that it is of in place of the topic."""


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
        self._cleaned_due = 0
        """The first checkpoint that has the cleaned offsets as they are."""
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
        self._cleaned_due = self._number + 1

    def bound_cleaned(self, logs: Mapping[Key, PartitionLog]) -> bool:
        """Have no log cleaned beyond its end, as after a truncation: what comes there next was
        never compacted. Whether any was.

        To be on the disk before the log is appended to: beyond the old cleaned offset nothing
        shows any more that it was cut. Kafka's LogCleaner.maybeTruncateCheckpoint.
        """
        beyond = [
            (key, logs[key].log_end_offset)
            for key, cleaned in self._cleaned.items()
            if key in logs and cleaned > logs[key].log_end_offset
        ]
        for key, end_offset in beyond:
            self.set_cleaned(key, end_offset)
        return bool(beyond)

    def note(self, key: Key, log: PartitionLog) -> None:
        """Have known of a log what holds now, also when it is offline or opened again later.

        Of one that ended in the middle of a cut both are right: what is left of it was flushed as
        far as it was before, and opening it bounds both by where it ends.
        """
        if log.corruption is None:
            self._recovery_points[key] = log.flushed_end_offset
            self._log_starts[key] = log.log_start_offset

    def leave_in(self, directory: str, key: Key, log: PartitionLog) -> None:
        """Have what is known of a log in its directory, and on the disk. Blocks. Raises OSError."""
        self.note(key, log)
        self._high_watermarks.setdefault(key, 0)
        offsets = {
            (c.RECOVERY_POINTS, key[1]): self.recovery_point(key),
            (c.LOG_START_OFFSETS, key[1]): self.log_start(key),
            (c.HIGH_WATERMARKS, key[1]): self.high_watermark(key),
        }
        content = c.encode_offsets(offsets)
        self._files.replace(f"{directory}/{STRAY_OFFSETS}", content, durable=True)

    def take_from(self, directory: str, key: Key) -> None:
        """Know of a log what its directory says, if it does and no checkpoint tells of the log.

        Raises OSError, CheckpointCorruptError.
        """
        path = f"{directory}/{STRAY_OFFSETS}"
        # Of such a log a high watermark is always known, and its file is the last to be written:
        # a crash in the middle of a checkpoint leaves some files that tell and some that do not.
        if key in self._high_watermarks or not self._files.exists(path):
            return
        offsets = c.decode_offsets(self._files.read_bytes(path))
        self._recovery_points[key] = offsets.get((c.RECOVERY_POINTS, key[1]), 0)
        self._log_starts[key] = offsets.get((c.LOG_START_OFFSETS, key[1]), 0)
        self._high_watermarks[key] = offsets.get((c.HIGH_WATERMARKS, key[1]), 0)

    def keep(self, keys: Collection[Key]) -> None:
        """Forget what is known of logs that are not there any more."""
        known_of = self._all_known()
        for key in {key for offsets in known_of for key in offsets if key not in keys}:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """The log was taken out."""
        if key in self._cleaned:
            self._cleaned_due = self._number + 1
        for offsets in self._all_known():
            offsets.pop(key, None)
        self._gone[key] = self._number

    def _all_known(self) -> Sequence[dict[Key, int]]:
        return self._recovery_points, self._log_starts, self._high_watermarks, self._cleaned

    def tells_of_former(self, key: Key) -> bool:
        """Whether a file may still hold offsets of a log that is gone and had this name."""
        return key in self._gone and self._gone[key] >= self._number_written()

    def _number_written(self) -> int:
        """The newest checkpoint that is in every file; the cleaned offsets go before these."""
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
        self.bound_cleaned(logs)
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
        for key, log in logs.items():
            self.note(key, log)
        first_offsets = dict.fromkeys(offline, 0)
        first_offsets |= {key: log.first_base_offset for key, log in logs.items()}
        # What is not known is left out: its directory may say it, once it can be read.
        points = {key: at for key, at in self._recovery_points.items() if key in first_offsets}
        log_starts = {
            key: self.log_start(key)
            for key, first_offset in first_offsets.items()
            if self.log_start(key) > first_offset
        }
        known = {key: hw for key, hw in self._high_watermarks.items() if key in first_offsets}
        offsets: dict[str, Mapping[Key, int]] = {}
        cleaned_path = f"{self._directory}/{c.CLEANER_OFFSETS}"
        if self._turns.written.get(cleaned_path, 0) < self._cleaned_due:
            # Again and again until it is written: a full disk may refuse a checkpoint.
            offsets[cleaned_path] = dict(self._cleaned)
        offsets |= {
            f"{self._directory}/{c.RECOVERY_POINTS}": points,
            f"{self._directory}/{c.LOG_START_OFFSETS}": log_starts,
            f"{self._directory}/{c.HIGH_WATERMARKS}": known,
        }
        return Checkpoint(self._files, offsets, self._number, self._turns)

    def _read(self, name: str) -> dict[Key, int]:
        path = f"{self._directory}/{name}"
        if not self._files.exists(path):
            return {}
        return c.decode_offsets(self._files.read_bytes(path))
