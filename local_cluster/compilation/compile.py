"""Make a build: mypyc compiles copies of the sources, so that no extension lies beside them.

    python -m local_cluster.compilation

Does nothing if a build fits the sources, or if there is no C compiler; either is said in one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from local_cluster.compilation.builds import (
    MADE_BUILDS,
    MANIFEST,
    PURE_VARIABLE,
    ROOT,
    SOURCE_PACKAGES,
    build_name,
    builds_of,
    interpreter,
    present_build,
    sources,
    stamp,
)
from local_cluster.compilation.modules import COMPILED_MODULES, GROUP

COMPILE_SECONDS_MAX: Final = 900
ERROR_LINES_SHOWN_MAX: Final = 30
BUILDS_KEPT_MAX: Final = 3
"""Builds of one place. A process that still imports from an older one keeps it so long."""
SETUP_SCRIPT: Final = ROOT / ".ci" / "compiled_modules_setup.py"


def main() -> int:
    """Run the command."""
    if os.environ.get(PURE_VARIABLE) == "1":
        _say(f"not compiled: {PURE_VARIABLE}=1")
        return 0
    if present_build().directory is not None:
        _say("compiled already")
        return 0
    if not SETUP_SCRIPT.exists():
        _say("not compiled: this is an installed wheel, and no checkout")
        return 0
    if c_compiler() is None:
        _say("not compiled: no C compiler here; everything runs as plain Python")
        return 0
    begun_s = time.monotonic()
    _say(f"compiling {len(COMPILED_MODULES)} modules, which takes a minute or two")
    error = build(MADE_BUILDS, ROOT)
    if error:
        sys.stderr.write(f"not compiled, everything runs as plain Python:\n{error}\n")
        return 1
    _say(f"compiled {len(COMPILED_MODULES)} modules in {time.monotonic() - begun_s:.0f} s")
    return 0


def c_compiler() -> str | None:
    """Return the path of the C compiler that extensions of this interpreter are built with."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(str(named).split()[0])


def build(place: Path, root: Path) -> str:
    """Make a build in `place` from the sources below `root`. Returns an error or ""."""
    place.mkdir(parents=True, exist_ok=True)
    _delete_leftovers(place)
    work = place / f".work-{os.getpid()}"
    try:
        _copy(root, work)
        # The copy is what is compiled: a source that is edited meanwhile makes the build stale.
        stamps = {source: stamp(work / source) for source in sources(work)}
        error = _run_mypyc(work)
        if error:
            return error
        made = work / "made"
        _collect(work, made)
        (made / MANIFEST).write_text(
            json.dumps({"interpreter": interpreter(), "sources": stamps}), encoding="utf-8"
        )
        with contextlib.suppress(OSError):  # another process has made the same build
            made.rename(place / build_name(stamps))
        for old in builds_of(place)[BUILDS_KEPT_MAX:]:
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _delete_leftovers(place: Path) -> None:
    """Delete what a compilation left that was killed."""
    for left in place.glob(".work-*"):
        if time.time() - left.stat().st_mtime > COMPILE_SECONDS_MAX:
            shutil.rmtree(left, ignore_errors=True)


def _copy(root: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for package in SOURCE_PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__", "compiled")
        shutil.copytree(root / package, work / package, ignore=ignore)
    shutil.copy(root / "pyproject.toml", work / "mypy.toml")
    paths = [f"{module.replace('.', '/')}.py" for module in COMPILED_MODULES]
    described = {"group": GROUP, "paths": paths}
    (work / "compiled.json").write_text(json.dumps(described), encoding="utf-8")
    shutil.copy(SETUP_SCRIPT, work / "setup.py")


def _run_mypyc(work: Path) -> str:
    command: Sequence[str] = (sys.executable, "setup.py", "-q", "build_ext", "--inplace")
    ended = subprocess.run(
        command,
        cwd=work,
        env=os.environ | {PURE_VARIABLE: "1", "MYPY_CACHE_DIR": str(work / "mypy")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMPILE_SECONDS_MAX,
        check=False,
    )
    if ended.returncode == 0:
        return ""
    return "\n".join(ended.stdout.splitlines()[-ERROR_LINES_SHOWN_MAX:])


def _collect(work: Path, made: Path) -> None:
    """Move the extension modules into one directory, each under its module's name."""
    made.mkdir()
    suffix = EXTENSION_SUFFIXES[0]
    for module in COMPILED_MODULES:
        built = work.joinpath(*module.split("."))
        built.with_name(built.name + suffix).rename(made / f"{module}{suffix}")
    library = f"{GROUP}__mypyc{suffix}"
    (work / library).rename(made / library)
