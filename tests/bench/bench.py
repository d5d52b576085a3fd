"""What all works of one run share."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench.model import Scale


class Bench:
    """Sizes, files and names of one run."""

    def __init__(
        self,
        scale: Scale,
        directory: Path,
        payload: Path,
        tls_client_config: Mapping[str, str] | None = None,
    ) -> None:
        self.scale = scale
        self.directory = directory
        self.payload = payload
        """A file of records for the Java producer."""
        self.tls_client_config = tls_client_config or {}
        """What Java's clients need for `System.tls_bootstrap`."""
        self.failures: list[str] = []
        """Rows that were not measured, and why."""
        self._names = itertools.count(1)

    def note_failure(self, row: str, side: str, error: Exception) -> None:
        """Remember that a row was not measured on a side."""
        self.failures.append(failure_text(row, side, error))

    def new_name(self, name: str) -> str:
        """A topic or group that was not used before."""
        return f"{name}-{next(self._names)}"


def failure_text(row: str, side: str, error: Exception) -> str:
    """Say which row was not measured on which side, and why.

    Of a text of many lines, such as a traceback of another process, the last one says it.
    """
    last_line = str(error).strip().rpartition("\n")[2]
    return f"{row} of {side}: {type(error).__name__}: {last_line}"


def progress() -> Callable[[str], None]:
    """Reports progress on the error stream, with the seconds since the start."""
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start:6.0f} s] {text}", file=sys.stderr, flush=True)

    return say
