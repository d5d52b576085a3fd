"""The four offset checkpoints of a log directory: as a start read them, and as they are.

    recovery-point-offset-checkpoint   everything below was flushed
    log-start-offset-checkpoint        where it is not the base offset of the first segment
    replication-offset-checkpoint      high watermarks; with `flush: fsync` only flushed offsets
    cleaner-offset-checkpoint          how far a log was compacted, never beyond its end;
                                       written only when it changed, and before the others

The offsets of a partition that is offline or corrupt stay unchanged. Lowered to what is still
readable, they would let the next start take the damage for a torn tail.

The files name logs by topic and partition. Until they are written again, they also name deleted
logs. After a crash a new log of the same name would be opened with the old one's offsets.
`names_former` shows that; the checkpoints are then written before the new log is created.

The offsets of a stray lie in its own directory, in `stray-offsets`. The log is opened with them
when it comes back, and a start uses them as long as no checkpoint names the log. After that nobody
reads the file, and it is replaced when the log is set aside again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    Key,
    decode_offsets,
    encode_offsets,
)

STRAY_OFFSETS: Final = "stray-offsets"
"""A file in the directory of a stray, with the lines of a checkpoint. The topic of each line is the
name of the checkpoint file that the offset belongs to."""


class CheckpointWrites:
    """The order of writes: one checkpoint at a time, and never over a newer one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.written: dict[str, int] = {}
        """The number of the newest checkpoint in each file, by path."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The offsets as they were when it was made, to be written by a worker."""

    files: Files
    offsets: Mapping[str, Mapping[Key, int]]
    """By the path of the file."""
    number: int
    writes: CheckpointWrites

    def run(self) -> None:
        """Write them. Blocks; may run in any thread. Raises OSError; earlier writes stay."""
        with self.writes.lock:
            for path, offsets in self.offsets.items():
                if self.number < self.writes.written.get(path, 0):
                    continue
                self.files.replace(path, encode_offsets(offsets), durable=True)
                self.writes.written[path] = self.number


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
        """The number of the first checkpoint with the current cleaned offsets."""
        self._number = 0
        """The number of the newest checkpoint that was prepared."""
        self._gone: dict[Key, int] = {}
        """Deleted logs, each with the newest checkpoint that may still name it."""
        self._writes = CheckpointWrites()

    def load(self) -> None:
        """Read the files that exist. Raises OSError, CheckpointCorruptError."""
        self._recovery_points = self._read(RECOVERY_POINTS)
        self._log_starts = self._read(LOG_START_OFFSETS)
        self._high_watermarks = self._read(HIGH_WATERMARKS)
        self._cleaned = self._read(CLEANER_OFFSETS)

    def recovery_point(self, key: Key) -> int:
        """Return the recovery point of a log, 0 if none is known."""
        return self._recovery_points.get(key, 0)

    def log_start(self, key: Key) -> int:
        """Return the log start offset of a log, 0 if none is known."""
        return self._log_starts.get(key, 0)

    def high_watermark(self, key: Key) -> int:
        """Return the high watermark that was checkpointed last, 0 if none was."""
        return self._high_watermarks.get(key, 0)

    def cleaned(self, key: Key) -> int:
        """Return how far a log was compacted, 0 if it never was."""
        return self._cleaned.get(key, 0)

    def set_cleaned(self, key: Key, offset: int) -> None:
        """Note how far a log was compacted; the next checkpoint writes it.

        The swap must be on the disk.
        """
        self._cleaned[key] = offset
        self._cleaned_due = self._number + 1

    def bound_cleaned(self, logs: Mapping[Key, PartitionLog]) -> bool:
        """Lower cleaned offsets beyond the end of their log; return whether there were any.

        A truncation leaves such an offset, and the records that come next were never compacted.
        The change must be on the disk before the log is appended to: once the log reaches the old
        cleaned offset again, nothing shows the truncation. Source: Kafka's
        LogCleaner.maybeTruncateCheckpoint.
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
        """Note the current offsets of a log, for when it goes offline or is opened again.

        They also hold for a log that failed in the middle of a truncation. The rest of it is
        flushed as far as before, and opening the log bounds both offsets by its end.
        """
        if log.corruption is None:
            self._recovery_points[key] = log.flushed_end_offset
            self._log_starts[key] = log.log_start_offset

    def leave_in(self, directory: str, key: Key, log: PartitionLog) -> None:
        """Write the offsets of a log to its own directory, durably. Blocks. Raises OSError."""
        self.note(key, log)
        self._high_watermarks.setdefault(key, 0)
        offsets = {
            (RECOVERY_POINTS, key[1]): self.recovery_point(key),
            (LOG_START_OFFSETS, key[1]): self.log_start(key),
            (HIGH_WATERMARKS, key[1]): self.high_watermark(key),
        }
        content = encode_offsets(offsets)
        self._files.replace(f"{directory}/{STRAY_OFFSETS}", content, durable=True)

    def take_from(self, directory: str, key: Key) -> None:
        """Read the offsets in a log's own directory, if there are any and no checkpoint names it.

        Raises OSError, CheckpointCorruptError.
        """
        path = f"{directory}/{STRAY_OFFSETS}"
        # A crash in the middle of a checkpoint leaves files that name the log and files that do
        # not. Such a log always has a high watermark, and that file is written last.
        if key in self._high_watermarks or not self._files.exists(path):
            return
        offsets = decode_offsets(self._files.read_bytes(path))
        self._recovery_points[key] = offsets.get((RECOVERY_POINTS, key[1]), 0)
        self._log_starts[key] = offsets.get((LOG_START_OFFSETS, key[1]), 0)
        self._high_watermarks[key] = offsets.get((HIGH_WATERMARKS, key[1]), 0)

    def keep(self, keys: Collection[Key]) -> None:
        """Forget the offsets of every other log."""
        for key in {key for offsets in self._all_known() for key in offsets if key not in keys}:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Forget the offsets of a log that was taken out."""
        if key in self._cleaned:
            self._cleaned_due = self._number + 1
        for offsets in self._all_known():
            offsets.pop(key, None)
        self._gone[key] = self._number

    def _all_known(self) -> Sequence[dict[Key, int]]:
        return self._recovery_points, self._log_starts, self._high_watermarks, self._cleaned

    def names_former(self, key: Key) -> bool:
        """Return whether a file may still hold offsets of a former log of this name."""
        return key in self._gone and self._gone[key] >= self._number_written()

    def _number_written(self) -> int:
        """Return the newest checkpoint that is in every file; cleaned offsets go before these."""
        names = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
        return min(self._writes.written.get(f"{self._directory}/{name}", 0) for name in names)

    def prepare(
        self,
        logs: Mapping[Key, PartitionLog],
        offline: Collection[Key],
        high_watermarks: Mapping[Key, int],
        *,
        only_flushed: bool,
    ) -> Checkpoint:
        """Return the checkpoints as they are, to be written by a worker.

        `high_watermarks` replace the known ones of the partitions that they name. `only_flushed`
        limits them to what each log has flushed.
        """
        self.bound_cleaned(logs)
        self._number += 1
        written = self._number_written()
        self._gone = {key: number for key, number in self._gone.items() if number >= written}
        for key, high_watermark in high_watermarks.items():
            log = logs.get(key)
            if log is not None and log.corruption is None:
                # A follower that is not in sync may not have flushed what others committed.
                flushed = max(log.flushed_end_offset, self.high_watermark(key))
                self._high_watermarks[key] = (
                    min(high_watermark, flushed) if only_flushed else high_watermark
                )
        for key, log in logs.items():
            self.note(key, log)
        first_offsets = dict.fromkeys(offline, 0)
        first_offsets |= {key: log.segments.first_base_offset for key, log in logs.items()}
        # Unknown offsets are left out: the log's own directory may hold them.
        points = {key: at for key, at in self._recovery_points.items() if key in first_offsets}
        log_starts = {
            key: self.log_start(key)
            for key, first_offset in first_offsets.items()
            if self.log_start(key) > first_offset
        }
        known = {key: hw for key, hw in self._high_watermarks.items() if key in first_offsets}
        offsets: dict[str, Mapping[Key, int]] = {}
        cleaned_path = f"{self._directory}/{CLEANER_OFFSETS}"
        if self._writes.written.get(cleaned_path, 0) < self._cleaned_due:
            # In every checkpoint until one is written: a full disk may refuse it.
            offsets[cleaned_path] = dict(self._cleaned)
        offsets |= {
            f"{self._directory}/{RECOVERY_POINTS}": points,
            f"{self._directory}/{LOG_START_OFFSETS}": log_starts,
            f"{self._directory}/{HIGH_WATERMARKS}": known,
        }
        return Checkpoint(self._files, offsets, self._number, self._writes)

    def _read(self, name: str) -> dict[Key, int]:
        path = f"{self._directory}/{name}"
        if not self._files.exists(path):
            return {}
        return decode_offsets(self._files.read_bytes(path))
