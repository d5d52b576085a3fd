"""Which files of a table were replaced, and since when. Shell.

    _compacted/1764352800000-<uuid>.json   ["datacenter=JFK/hour=.../part-....parquet", ...]

A replaced file stays for a while: a reader may have read the log before. The time that it was
written does not tell, since old files are replaced too.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spark_global.parquet.durable import write_durably

FOLDER: Final = "_compacted"
"""Readers of a table ignore names that begin with an underscore."""


def note_replaced(table: Path, files: Iterable[Path], now_ms: int) -> None:
    """Note files that are about to be replaced. Raises OSError."""
    names = sorted(str(each.relative_to(table)) for each in files)
    write_durably(table / FOLDER / f"{now_ms}-{uuid.uuid4()}.json", json.dumps(names).encode())


def replaced_since(table: Path) -> dict[Path, int]:
    """Return the files that were replaced, with the last time in milliseconds. Raises OSError."""
    found: dict[Path, int] = {}
    for note in _notes(table):
        for name in json.loads(note.read_bytes()):
            path = table / name
            found[path] = max(found.get(path, 0), _time_ms(note))
    return found


def forget_replaced(table: Path, before_ms: int) -> None:
    """Remove the notes from before a time. Raises OSError."""
    for note in _notes(table):
        if _time_ms(note) < before_ms:
            note.unlink()


def _notes(table: Path) -> list[Path]:
    return sorted((table / FOLDER).glob("[0-9]*.json"))


def _time_ms(note: Path) -> int:
    return int(note.name.partition("-")[0])
