"""Where the archive of a program's loaded classes is, and the options that name it (JEP 350).

With an archive a local session takes about half of the CPU time to start. The JVM ignores one that
another Java or other jars have made. Without an archive everything works as before.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from importlib.metadata import version
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

    jars = Path(pyspark.__file__).parent / "jars"
    return archive_of(jars, PREFIX, version("pyspark"))


@functools.cache
def archive_of(jars: Path, prefix: str, jars_version: str = "") -> Path:
    """Return where the archive of the present Java for a directory of jars is, or would be."""
    java = _java()
    made_ns = java.stat().st_mtime_ns if java.is_file() else 0
    digest = hashlib.sha256(f"{java} {made_ns} {jars} {jars_version}".encode())
    return cache_directory() / f"{prefix}{digest.hexdigest()[:12]}{SUFFIX}"


def cache_directory() -> Path:
    """Return the user's directory for what can be made again."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("heliograph", appauthor=False))


def _java() -> Path:
    """Return the Java that `spark-class` starts."""
    home = os.environ.get("JAVA_HOME")
    return Path(home, "bin", "java") if home else Path(shutil.which("java") or "java").resolve()
