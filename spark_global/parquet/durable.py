"""Files that are on disk, whole, before their name is there. Shell."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Write a file, or replace it at one moment. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
    unfinished.write_bytes(content)
    move_durably(unfinished, path)


def move_durably(unfinished: Path, path: Path) -> None:
    """Give a file its name once its content is on disk. Raises OSError."""
    sync(unfinished)
    unfinished.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file or the names of a folder are on disk. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
