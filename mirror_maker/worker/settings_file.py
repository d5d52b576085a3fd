"""The settings file of a worker, as it was read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple


class SettingsFile(NamedTuple):
    """A file and its text."""

    path: Path
    text: bytes

    @staticmethod
    def read(path: Path) -> SettingsFile:
        """Raises OSError."""
        return SettingsFile(path, path.read_bytes())

    def read_again(self) -> SettingsFile:
        """Raises OSError."""
        return self.read(self.path)

    @property
    def digest(self) -> str:
        """The SHA-256 of the text, by which a supervisor sees that it was taken over."""
        return hashlib.sha256(self.text).hexdigest()
