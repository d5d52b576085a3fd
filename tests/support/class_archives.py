"""Archives of Kafka's loaded classes, with which its Java programs start in half of the CPU time.

`make_class_archives.py` makes them. A JVM ignores an archive of other jars or of another Java
(JEP 350), and tests need none.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from pathlib import Path

import platformdirs


def archive_options(jars: Path) -> tuple[str, ...]:
    """The options of a JVM with these jars as its class path; none without an archive."""
    archive = archive_of(jars)
    if not archive.is_file():
        return ()
    # Otherwise a JVM that ignores its archive says so on its standard output.
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")


@functools.cache
def archive_of(jars: Path) -> Path:
    """Where the archive of the installed Java for a directory of jars is, or would be."""
    java = Path(shutil.which("java") or "java").resolve()
    made = java.stat().st_mtime_ns if java.exists() else 0
    digest = hashlib.sha256(f"{jars} {java} {made}".encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("heliograph")) / f"classes-{digest[:12]}.jsa"
