"""Let `import` take a compiled module instead of the plain one."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from local_cluster.compilation.builds import Build, present_build
from local_cluster.compilation.modules import COMPILED_MODULES, GROUP

log = logging.getLogger(__name__)

LIBRARY: Final = f"{GROUP}__mypyc"
EXTENSIONS: Final = frozenset((LIBRARY, *COMPILED_MODULES))


class CompiledModules(MetaPathFinder):
    """Finds the compiled modules of a build. All other modules are left to Python."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a compiled module; None leaves the module to others."""
        if fullname not in EXTENSIONS:
            return None
        extension = self._directory / f"{fullname}{importlib.machinery.EXTENSION_SUFFIXES[0]}"
        return importlib.util.spec_from_file_location(fullname, extension)


@functools.cache
def install() -> Build:
    """Choose this process's build, once. Has to run before any compiled module is imported."""
    build = present_build()
    if build.is_stale:
        log.warning("running plain Python: %s; `make compile` compiles it again", build.reason)
    if build.directory is not None:
        sys.meta_path.insert(0, CompiledModules(build.directory))
    return build
