"""Run a command of the simulation in a process whose environment decides nothing by chance."""

from __future__ import annotations

import os
import sys
from typing import Final

from local_cluster.compilation.builds import PURE_VARIABLE

HASH_SEED: Final = "0"
"""The order of a set of strings depends on it."""


def fixed_environment(*, is_broken: bool) -> dict[str, str]:
    """Return the variables that a play needs.

    A broken variant replaces functions of hot modules. Compiled code calls them directly, so such
    a variant plays on plain Python.
    """
    return {"PYTHONHASHSEED": HASH_SEED, **({PURE_VARIABLE: "1"} if is_broken else {})}


def fix_process(module: str, *, is_broken: bool) -> None:
    """Start the command again, unless this process has the environment that it needs."""
    needed = fixed_environment(is_broken=is_broken)
    if needed.items() <= os.environ.items():
        return
    command = [sys.executable, "-m", module, *sys.argv[1:]]
    os.execve(sys.executable, command, os.environ | needed)
