"""The command of a simulation, run in a process of its own for a fixed order of sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sim.fixed_process import fixed_environment

ROOT = Path(__file__).parents[2]


def every_second(names: Iterable[str]) -> list[Any]:
    """Return names as values of a parameter; every second one is left to the long run."""
    return [
        pytest.param(name, marks=pytest.mark.long) if index % 2 else name
        for index, name in enumerate(sorted(names))
    ]


def played(module: str, *arguments: str) -> dict[str, Any]:
    """Return what the command printed."""
    return played_with_log(module, *arguments)[0]


def played_with_log(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return what the command printed, and the lines that it logged."""
    # With what it needs the command does not have to start itself again.
    fixed = fixed_environment(is_broken="--broken" in arguments)
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | fixed | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result, done.stderr.splitlines()
