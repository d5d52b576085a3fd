"""Starts a process: imports what it needs, then runs it; and the settings file that it reads."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class SettingsFile(NamedTuple):
    """The settings file of a process, and its text as it was read."""

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


def run(import_main: Callable[[], Callable[[], int | None]]) -> int | None:
    """Run the function that `import_main` imports; return its exit code.

    Imports make very many objects, and nearly all of them stay. To look for garbage among them
    took a third of a broker's start. So collections begin after the imports, and without these.
    """
    gc.disable()
    main = import_main()
    gc.freeze()
    gc.enable()
    return main()
