"""Logs of daemons that stay within a bound.

A daemon appends to its log by itself, so that it goes on when its supervisor is gone. When the
log has grown past the bound, its end is kept as `<name>.1` and the log is cut to nothing; what is
written at that very moment may be lost.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

LOG_BYTES_MAX = 16 * 1024 * 1024
"""Of one log; with the kept one, a daemon takes at most twice this, and what it writes between
two checks."""

TAIL_BYTES_MAX = 64 * 1024

log = logging.getLogger("heliograph.logs")


def bound_logs(directory: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Cut every log in the directory that has grown past the bound, and can be cut now."""
    for path in directory.glob("*.log"):
        try:
            _bound(path, bytes_max)
        except OSError as error:  # a full disk, a file that is gone: no reason to stop anything
            log.warning("%s is not cut: %s", path, error)


def _bound(path: Path, bytes_max: int) -> None:
    if path.stat().st_size <= bytes_max:
        return
    with open(path, "rb") as source, open(path.with_name(f"{path.name}.1"), "wb") as target:
        source.seek(-bytes_max, os.SEEK_END)
        shutil.copyfileobj(source, target)
    os.truncate(path, 0)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log; none if there is no log."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES_MAX))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:]
