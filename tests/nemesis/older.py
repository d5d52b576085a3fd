"""An older version of this project's code, for brokers to run: from this repository's history."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.cluster import PRESENT_CODE

REVISION: Final = "bb4bed49ef158597f3eb6bc2c0e1b2409703ce81"
"""A broker of the older version is of this commit.

It is far back: since then brokers tell and ask each other more (images that say whether they are
whole, brokers that are waited for until they say what they cannot serve), follow in another way,
and leave files that it does not know. It is not farther back, because it is the first that passes
over stored configs which it does not know: without that nobody should go back to it.
"""


def why_not() -> str | None:
    """Why that code cannot be had here, or None."""
    if shutil.which("git") is None:
        return "there is no git on this machine"
    if _git("cat-file", "-e", f"{REVISION}^{{commit}}").returncode != 0:
        return f"commit {REVISION[:7]} is not in this clone"
    if _archive().returncode != 0:
        return f"the files of commit {REVISION[:7]} are not in this clone"
    return None


def code(directory: Path) -> Path:
    """Where a cluster's `directory` has it."""
    return directory / "older"


def unpacked(directory: Path) -> Path:
    """Have it in `code(directory)`. Raises subprocess.CalledProcessError."""
    archive = _archive()
    archive.check_returncode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        # What it is of is known; `filter` is not there before Python 3.11.4, which asks for none.
        if hasattr(tarfile, "data_filter"):
            files.extraction_filter = tarfile.data_filter
        files.extractall(code(directory))
    return code(directory)


def _archive() -> subprocess.CompletedProcess[bytes]:
    return _git("archive", REVISION, "local_cluster")


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", "-C", str(PRESENT_CODE), *arguments], capture_output=True, check=False
    )
