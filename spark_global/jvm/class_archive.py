"""Where the archive of a program's loaded classes is, and the options that name it (JEP 350).

With an archive a local session takes about half of the CPU time to start. The JVM ignores one that
another Java or other jars have made: it compares the jars' order, sizes and times of change.
Without an archive everything works as before.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

PREFIX: Final = "spark-classes-"
SUFFIX: Final = ".jsa"
SILENT: Final = "-Xlog:disable"
"""Otherwise a JVM that ignores its archive says so on its standard output."""


def archive_options(archive: Path) -> tuple[str, ...]:
    """Return the options of a JVM that starts from an archive; none if it is not there."""
    return (f"-XX:SharedArchiveFile={archive}", SILENT) if archive.is_file() else ()


def archive_path() -> Path:
    """Return where the archive of the present Java and Spark is, or would be."""
    import pyspark

    return archive_of(Path(pyspark.__file__).parent / "jars", PREFIX)


@functools.cache
def archive_of(jars: Path, prefix: str) -> Path:
    """Return where the archive of the present Java for a directory of jars is, or would be."""
    java = _java()
    made_ns = java.stat().st_mtime_ns if java.is_file() else 0
    digest = hashlib.sha256(f"{java} {made_ns} {jars}".encode())
    for name, size_bytes, changed_ns in _listed(jars):
        digest.update(f"\n{name} {size_bytes} {changed_ns}".encode())
    return cache_directory() / f"{prefix}{digest.hexdigest()[:12]}{SUFFIX}"


def cache_directory() -> Path:
    """Return the user's directory for what can be made again."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("heliograph", appauthor=False))


def _listed(jars: Path) -> list[tuple[str, int, int]]:
    """Return name, bytes and time of change of each jar, in the order of the JVM's class path.

    Java expands `jars/*` in the order in which the directory gives its entries.
    """
    with contextlib.suppress(FileNotFoundError), os.scandir(jars) as entries:
        found = ((each.name, each.stat()) for each in entries)
        return [(name, state.st_size, state.st_mtime_ns) for name, state in found]
    return []


def _java() -> Path:
    """Return the Java that `spark-class` starts."""
    home = os.environ.get("JAVA_HOME")
    return Path(home, "bin", "java") if home else Path(shutil.which("java") or "java").resolve()
