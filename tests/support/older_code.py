"""Code of this project as it was at an earlier commit, out of this repository's history."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import PRESENT_CODE


@dataclass(frozen=True)
class OlderCode:
    """Packages as they were at a commit."""

    revision: str
    packages: tuple[str, ...]

    def why_not(self) -> str | None:
        """Why that code cannot be had here, or None."""
        if shutil.which("git") is None:
            return "there is no git on this machine"
        if _git("cat-file", "-e", f"{self.revision}^{{commit}}").returncode != 0:
            return f"commit {self.revision[:7]} is not in this clone"
        if self._archive().returncode != 0:
            return f"the files of commit {self.revision[:7]} are not in this clone"
        return None

    def unpack(self, directory: Path) -> Path:
        """Have it in a directory. Raises subprocess.CalledProcessError."""
        archive = self._archive()
        archive.check_returncode()
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            # What it is of is known; `filter` is not there before Python 3.11.4, which asks for
            # none.
            if hasattr(tarfile, "data_filter"):
                files.extraction_filter = tarfile.data_filter
            files.extractall(directory)
        return directory

    def _archive(self) -> subprocess.CompletedProcess[bytes]:
        return _git("archive", self.revision, *self.packages)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", "-C", str(PRESENT_CODE), *arguments], capture_output=True, check=False
    )
