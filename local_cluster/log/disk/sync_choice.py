"""How a round of group commit reaches the disk: file by file, or the file system as a whole. Pure.

One dirty file is synced by itself. For several, syncing the file system is cheaper by far (a
journal commit instead of one each), unless somebody else has much to write there: then a round
would wait for the stranger's data. A round that took too long that way is followed by a while of
file by file.
"""

from __future__ import annotations

from typing import Final

WHOLE_FILES_MIN: Final = 3
"""From how many dirty files on the file system is synced as a whole."""
SLOW_SECONDS_MIN: Final = 0.05
"""A shorter round is never held against the file system."""
SLOW_RATIO: Final = 2.0
"""How much longer than file by file (as estimated) a round may take."""
BACKOFF_SECONDS: Final = 60.0
FILE_SECONDS_START: Final = 0.002
"""What one file is thought to take before any was measured."""
_MEMORY: Final = 0.9


class SyncChoice:
    """Learns what the disk does and chooses for the next round."""

    def __init__(self, *, has_whole: bool) -> None:
        """`has_whole`: whether the file system can be synced as a whole at all."""
        self._has_whole = has_whole
        self._file_seconds = FILE_SECONDS_START
        self._not_before_seconds = 0.0

    def is_whole(self, files_count: int, now_seconds: float) -> bool:
        """Whether the next round, over so many files, is for the whole file system."""
        return (
            self._has_whole
            and files_count >= WHOLE_FILES_MIN
            and now_seconds >= self._not_before_seconds
        )

    def took(self, files_count: int, seconds: float, now_seconds: float, *, is_whole: bool) -> None:
        """Learn from a round that is over."""
        if not is_whole:
            share = seconds / files_count
            self._file_seconds = _MEMORY * self._file_seconds + (1 - _MEMORY) * share
        elif seconds > max(SLOW_SECONDS_MIN, SLOW_RATIO * files_count * self._file_seconds):
            self._not_before_seconds = now_seconds + BACKOFF_SECONDS
