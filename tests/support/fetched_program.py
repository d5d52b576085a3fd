"""Programs in other languages: fetched by lock files, built once into the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import platformdirs
import pytest

FETCH_SECONDS_MAX: Final = 300.0


def built(source: Path, needs: str, fetch: list[str], build: list[str]) -> Path:
    """Return the program's directory in the cache, after `fetch` and `build`.

    `source` is the directory of the program. The test is skipped without the command `needs`, or if
    `fetch` fails.
    """
    if shutil.which(needs) is None:
        pytest.skip(f"no {needs} on this machine")
    paths = [path for path in sorted(source.rglob("*")) if path.is_file()]
    content = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
    directory = Path(platformdirs.user_cache_dir("heliograph")) / f"compat-{source.name}-{content}"
    if directory.is_dir():
        return directory
    partial = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}")
    shutil.copytree(source, partial)
    try:
        fetched = finished(fetch, partial, FETCH_SECONDS_MAX)
        if fetched.returncode:
            pytest.skip(f"{' '.join(fetch)}: {fetched.stdout[-500:]}{fetched.stderr[-500:]}")
        made = finished(build, partial, FETCH_SECONDS_MAX)
        assert made.returncode == 0, made.stdout + made.stderr
        with contextlib.suppress(OSError):  # another test process was faster
            partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def finished(
    command: list[str],
    directory: Path,
    seconds_max: float,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `environment` is beside that of this process."""
    return subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
        env=os.environ | dict(environment or {}),
    )
