"""Where builds lie, and which of them fits the present sources.

A build is a directory that holds an extension module per compiled module, one shared library, and
a manifest of its sources. `make compile` puts it below `build/compiled/` beside the packages; a
wheel brings it in `local_cluster/compiled/`. mypyc puts constants of other modules into its code,
so the manifest names all sources of both packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PURE_VARIABLE: Final = "HELIOGRAPH_PURE"
ROOT: Final = Path(__file__).parents[2]
MADE_BUILDS: Final = ROOT / "build" / "compiled"
WHEEL_BUILDS: Final = ROOT / "local_cluster" / "compiled"
MANIFEST: Final = "manifest.json"
SOURCE_PACKAGES: Final = ("local_cluster", "mirror_maker")
NAME_DIGITS: Final = 16
"""Hex digits of a build's name that come from its sources."""

Stamp = tuple[int, int, str]
"""Of one source: (size in bytes, mtime in ns, sha256)."""


@dataclass(frozen=True, slots=True)
class Build:
    """What this process runs: the directory of a build, or None and why it runs plain Python."""

    directory: Path | None
    reason: str = ""
    is_stale: bool = False

    @property
    def text(self) -> str:
        """What this process runs, for people."""
        return f"plain Python: {self.reason}" if self.directory is None else "compiled modules"


def sources(root: Path = ROOT) -> Iterator[str]:
    """Yield the sources that decide about a build, as paths below the root."""
    for package in SOURCE_PACKAGES:
        for directory, folders, files in os.walk(root / package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(".py"):
                    yield (Path(directory) / name).relative_to(root).as_posix()


def stamp(path: Path) -> Stamp:
    """Return what tells whether a source has changed."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()


def build_name(stamps: Mapping[str, Stamp]) -> str:
    """Return the name of the build of these sources for this interpreter."""
    digest = hashlib.sha256()
    for source in sorted(stamps):
        digest.update(f"{source} {stamps[source][2]}\n".encode())
    return f"{interpreter()}-{digest.hexdigest()[:NAME_DIGITS]}"


def present_build(places: Iterable[Path] = (MADE_BUILDS, WHEEL_BUILDS), root: Path = ROOT) -> Build:
    """Return the build that this process has to run."""
    if os.environ.get(PURE_VARIABLE) == "1":
        return Build(None, f"{PURE_VARIABLE}=1")
    return newest_fitting(places, root)


def newest_fitting(places: Iterable[Path], root: Path) -> Build:
    """Return the newest build that fits the sources and this interpreter."""
    found = [build for place in places for build in builds_of(place)]
    if not found:
        return Build(None, "not compiled")
    changed = ""
    for directory in found:
        manifest = _manifest(directory)
        if manifest is None or manifest.get("interpreter") != interpreter():
            continue
        first = first_change(manifest["sources"], root)
        if not first:
            return Build(directory)
        changed = changed or first
    if changed:
        return Build(None, f"{changed} has changed since `make compile`", is_stale=True)
    return Build(None, "not compiled for this interpreter")


def builds_of(place: Path) -> list[Path]:
    """Return the builds of one place, the newest first."""
    try:
        found = [entry for entry in place.iterdir() if not entry.name.startswith(".")]
        return sorted(found, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    except OSError:
        return []


def first_change(stamps: Mapping[str, Stamp], root: Path = ROOT) -> str:
    """Return the first source that differs from its stamp, is new or is gone; "" if none."""
    found = set()
    for source in sources(root):
        found.add(source)
        known = stamps.get(source)
        if known is None or not _is_same(root / source, known):
            return source
    return min(stamps.keys() - found, default="")


def interpreter() -> str:
    """Return what extension modules have to fit."""
    return f"{sys.implementation.cache_tag}-{sys.platform}-{os.uname().machine}"


def _is_same(path: Path, known: Stamp) -> bool:
    """Compare a source with its stamp. One with another mtime is read: git changes mtimes."""
    size_bytes, mtime_ns, digest = known
    status = path.stat()
    if status.st_size != size_bytes:
        return False
    return status.st_mtime_ns == mtime_ns or stamp(path)[2] == digest


def _manifest(directory: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((directory / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "sources" in found else None
