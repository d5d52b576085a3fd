"""Logs of daemons, kept within a bound.

A daemon appends to its log by itself, so that it continues without its supervisor. When a log has
grown past the bound, its end is copied to `<name>.1` and the log is truncated. Lines that the
daemon writes between the copy and the truncation are lost.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

LOG_BYTES_MAX = 16 * 1024 * 1024
"""Most bytes of one log. With its copy, a daemon's logs take at most twice this, plus what it
writes between two checks."""

TAIL_BYTES_MAX = 64 * 1024

log = logging.getLogger(__name__)


def bound_logs(directory: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Truncate every log in the directory that has grown past the bound, if that is possible."""
    for path in directory.glob("*.log"):
        try:
            _bound(path, bytes_max)
        except OSError as error:  # such as a full disk: the daemons must continue
            log.warning("%s is not truncated: %s", path, error)


def _bound(path: Path, bytes_max: int) -> None:
    if path.stat().st_size <= bytes_max:
        return
    with open(path, "rb") as source, open(path.with_name(f"{path.name}.1"), "wb") as target:
        source.seek(-bytes_max, os.SEEK_END)
        shutil.copyfileobj(source, target)
    os.truncate(path, 0)


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log; empty if the log does not exist."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES_MAX))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:]
