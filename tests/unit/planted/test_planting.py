"""Faults are planted into the processes that are to have them, and into no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.planting import VARIABLE, environment
from tests.planted.table import FAULTS

ROOT = Path(__file__).parents[3]


def imported(modules: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A process that imports modules."""
    without = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", f"import {modules}"],
        cwd=ROOT,
        env=without | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_process_says_what_it_has_planted(name: str) -> None:
    modules = FAULTS[name].changes
    done = imported(", ".join(modules), environment(name))
    assert done.returncode == 0, done.stderr
    said = {line for line in done.stderr.splitlines() if line.startswith("planted: ")}
    assert said == {f"planted: {name} in {module}" for module in modules}


def test_without_the_variable_nothing_is_planted() -> None:
    variables = environment("merge-collision")
    del variables[VARIABLE]
    done = imported("mirror_maker.flow.sender", variables)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_fault_is_refused() -> None:
    """Python says what its sitecustomize raised, and goes on without it."""
    done = imported("mirror_maker.flow.sender", environment("no-such-fault"))
    assert "KeyError: 'no-such-fault'" in done.stderr


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_changed_is_there_to_be_changed(name: str) -> None:
    """A fault that sets a name that the product does not have any more would do nothing."""
    check = (
        "import importlib\n"
        "from tests.planted.table import FAULTS\n"
        f"for name, change in FAULTS[{name!r}].changes.items():\n"
        "    module = importlib.import_module(name)\n"
        "    holders = [module, *(each for each in vars(module).values() if type(each) is type\n"
        "               or isinstance(each, type))]\n"
        "    before = [(each, set(vars(each))) for each in holders]\n"
        "    change(module)\n"
        "    for holder, names in before:\n"
        "        added = set(vars(holder)) - names\n"
        "        assert not added, (holder, added)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
