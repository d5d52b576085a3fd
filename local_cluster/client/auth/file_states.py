"""Whether files changed since they were read, so that a new secret needs no restart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FileState = tuple[int, int, int]
"""Time of the last change (ns), size (bytes) and inode."""
FileStates = dict[str, FileState | None]
"""By path; None for a file that cannot be read."""


def file_states(paths: Iterable[str]) -> FileStates:
    """Return the state of each file."""
    return {path: _state_of(path) for path in paths}


def _state_of(path: str) -> FileState | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
