"""An older version of this project's code, for brokers to run: from this repository's history."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.older_code import OlderCode

REVISION: Final = "bb4bed49ef158597f3eb6bc2c0e1b2409703ce81"
"""A broker of the older version is of this commit.

It is far back: since then brokers tell and ask each other more (images that say whether they are
whole, brokers that are waited for until they say what they cannot serve), follow in another way,
and leave files that it does not know. It is not farther back, because it is the first that passes
over stored configs which it does not know: without that nobody should go back to it.
"""


def why_not() -> str | None:
    """Why that code cannot be had here, or None."""
    return _older_code().why_not()


def code(directory: Path) -> Path:
    """Where a cluster's `directory` has it."""
    return directory / "older"


def unpacked(directory: Path) -> Path:
    """Have it in `code(directory)`. Raises subprocess.CalledProcessError."""
    return _older_code().unpack(code(directory))


def _older_code() -> OlderCode:
    return OlderCode(REVISION, ("local_cluster",))
