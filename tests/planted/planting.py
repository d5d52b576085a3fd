"""Puts a fault into modules of the product while a process imports them.

Nothing of the product knows of this: `environment` has the processes of one test load
`startup/sitecustomize.py`, and that calls `plant`. Each fault is a few lines that stood in the
product once. A process says on stderr what it has planted.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from local_cluster.compilation.builds import PURE_VARIABLE

VARIABLE: Final = "HELIOGRAPH_PLANTED_FAULT"
STARTUP: Final = Path(__file__).parent / "startup"
ROOT: Final = Path(__file__).parents[2]

Change = Callable[[ModuleType], None]
"""Changes a module that was just executed, before anybody else has it."""


def environment(fault: str) -> dict[str, str]:
    """Variables for processes that shall have a fault, and for all that they start."""
    paths = [str(STARTUP), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # A fault replaces functions of modules, which compiled code would not notice.
    return {VARIABLE: fault, "PYTHONPATH": os.pathsep.join(paths), PURE_VARIABLE: "1"}


def plant(fault: str) -> None:
    """Have this process import the product with a fault. Raises KeyError for an unknown name."""
    from tests.planted.table import FAULTS  # it is of no use to processes without a fault

    changes = FAULTS[fault].changes
    too_late = changes.keys() & sys.modules.keys()
    assert not too_late, f"{too_late} were imported before"
    sys.meta_path.insert(0, Planter(fault, changes))


class Planter(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and changes some of them once they are executed."""

    def __init__(self, fault: str, changes: Mapping[str, Change]) -> None:
        self._fault = fault
        self._changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None and spec.loader is not None, f"no module {name}"
        spec.loader = _Changing(spec.loader, self._changes[name], f"{self._fault} in {name}")
        return spec


class _Changing(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, change: Change, told: str) -> None:
        self._loader = loader
        self._change = change
        self._told = told

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)
        print(f"planted: {self._told}", file=sys.stderr, flush=True)
