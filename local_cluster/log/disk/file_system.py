"""syncfs(2): one system call that makes everything on the log directory's file system durable.

For several dirty logs it costs a fraction of an fdatasync for each, because the file system commits
its journal once. It covers every write that came before it. Since Linux 5.8 it also reports a
write-back error of any file since the descriptor was opened. So an error of another program's file
fails the log directory too, but no error of ours is missed.

`SyncChoice` decides when a round of group commit uses it. One dirty file is synced by itself. If
another program has much to write on the file system, a round would wait for that data: after a
round that took too long, rounds go file by file for a while.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Final

KERNEL_MIN: Final = (5, 8)
"""Before it syncfs did not report write-back errors."""
WHOLE_FILES_MIN: Final = 3
"""From this many dirty files on, the file system is synced as a whole."""
SLOW_SECONDS_MIN: Final = 0.05
"""A shorter round never counts as slow."""
SLOW_RATIO: Final = 2.0
"""How much longer than file by file (as estimated) a round may take."""
BACKOFF_SECONDS: Final = 60.0
FILE_SECONDS_START: Final = 0.002
"""The estimate for one file before any was measured."""
_MEMORY: Final = 0.9


class FileSystem:
    """An open directory of the file system; make one with `FileSystem.of`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._syncfs = ctypes.CDLL(None, use_errno=True).syncfs

    @staticmethod
    def of(directory: str) -> FileSystem | None:
        """Return the file system of a log directory; None where it cannot be synced as a whole.

        That is so where the kernel is too old, or where a partition's directory was mounted or
        linked from elsewhere. Raises OSError.
        """
        if sys.platform != "linux" or _kernel_version() < KERNEL_MIN:
            return None
        root = Path(directory)
        device = root.stat().st_dev
        if any(path.is_dir() and path.stat().st_dev != device for path in root.iterdir()):
            return None
        return FileSystem(os.open(directory, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY))

    def sync(self) -> None:
        """Wait until everything written so far is on the disk. Raises OSError."""
        if self._syncfs(self._fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def close(self) -> None:
        os.close(self._fd)


class SyncChoice:
    """Chooses how the next round syncs, from how long the last rounds took. Pure."""

    def __init__(self, *, has_whole: bool) -> None:
        """`has_whole`: whether the file system can be synced as a whole at all."""
        self._has_whole = has_whole
        self._file_seconds = FILE_SECONDS_START
        self._not_before_seconds = 0.0

    def is_whole(self, files_count: int, now_seconds: float) -> bool:
        """Return whether the next round, over this many files, syncs the whole file system."""
        return (
            self._has_whole
            and files_count >= WHOLE_FILES_MIN
            and now_seconds >= self._not_before_seconds
        )

    def record(
        self, files_count: int, seconds: float, now_seconds: float, *, is_whole: bool
    ) -> None:
        """Learn from a round that ended."""
        if not is_whole:
            share = seconds / files_count
            self._file_seconds = _MEMORY * self._file_seconds + (1 - _MEMORY) * share
        elif seconds > max(SLOW_SECONDS_MIN, SLOW_RATIO * files_count * self._file_seconds):
            self._not_before_seconds = now_seconds + BACKOFF_SECONDS


def _kernel_version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
