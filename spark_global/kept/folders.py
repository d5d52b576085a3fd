"""The folder of a table that is no URI of another storage."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit


class FolderRefusedError(ValueError):
    """A table is to lie somewhere else than in a folder."""


def table_folder(path: str) -> Path:
    """Return the folder of a table, also of a `file:` URI. Raises FolderRefusedError."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise FolderRefusedError(
            f"{path} is not a directory; give one that the driver and all executors reach"
        )
    return Path(parts.path if parts.scheme else path).absolute()
