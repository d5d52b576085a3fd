"""A disk that can fill up: a small tmpfs under one broker's log directory. Takes root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

SMALL_DISK_BYTES: Final = 96 << 20


def why_not() -> str | None:
    """Why no disk can be mounted here, or None."""
    if os.geteuid() != 0:
        return "mounting a small disk takes root"
    if shutil.which("mount") is None:
        return "there is no mount on this machine"
    return None


@contextlib.contextmanager
def mounted(log_directory: Callable[[int], Path], node: int | None) -> Iterator[None]:
    """The node's log directory is such a disk meanwhile; None mounts nothing."""
    if node is None:
        yield
        return
    place = log_directory(node)
    place.mkdir(parents=True, exist_ok=True)
    size = f"size={SMALL_DISK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave not a byte."""
    with contextlib.suppress(OSError), _ballast(place).open("ab") as file:
        while True:
            file.write(bytes(max(shutil.disk_usage(place).free, 1)))
            file.flush()


def empty(place: Path) -> None:
    """Give the space back."""
    _ballast(place).unlink(missing_ok=True)


def _ballast(place: Path) -> Path:
    return place / "ballast"
