"""A disk that takes some writes and then fails: for tests that are let mount file systems.

It is a file system in a sparse image that lies on a file system too small for it: writes go to the
page cache, and the sync that should bring them to the disk fails with EIO.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

GROUND_MIB = 10
"""What the image may take before its writes fail."""
IMAGE_MIB = 48


def run(*command: str) -> None:
    """Skips the test where the machine does not let us."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]} on this machine")
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")


class SickDisk:
    """The file system at `path`; `heal` gives its image the room that it lacks."""

    def __init__(self, directory: Path, path: Path) -> None:
        self._ground, self.path = directory / "ground", path
        self._image = self._ground / "image"
        self._mounted: list[Path] = []

    def make(self) -> None:
        self._ground.mkdir()
        self.path.mkdir(parents=True)
        size = f"size={GROUND_MIB}m"
        run("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._ground))
        self._mounted.append(self._ground)
        with self._image.open("wb") as image:
            image.truncate(IMAGE_MIB << 20)
        run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def heal(self) -> None:
        """Mounted anew, so that nothing is left of the page cache."""
        run("umount", str(self.path))
        self._mounted.remove(self.path)
        run("mount", "-o", f"remount,size={2 * IMAGE_MIB}m", str(self._ground))
        self._mount()

    def unmount(self) -> None:
        for path in reversed(self._mounted):
            subprocess.run(["umount", "--lazy", str(path)], check=True)

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))
        self._mounted.append(self.path)
        shutil.rmtree(self.path / "lost+found", ignore_errors=True)


@contextlib.contextmanager
def sick_disk(directory: Path, path: Path) -> Iterator[SickDisk]:
    """A sick disk mounted at `path`; its ground is made in `directory`."""
    disk = SickDisk(directory, path)
    try:
        disk.make()
        yield disk
    finally:
        disk.unmount()
