"""Every script in scenarios/ produces its trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.local_cluster.groups.scenario import Scenario

SCRIPTS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
REWRITE = "HELIOGRAPH_REWRITE_SCENARIOS"


def replayed(script: str) -> str:
    """Return the script with the trace that its commands produce."""
    scenario = Scenario()
    out = []
    expected_part = False
    produced: list[str] = []
    for line in script.splitlines():
        if expected_part:
            if not line:
                expected_part = False
                out += [*produced, ""]
                produced = []
        elif line == "----":
            expected_part = True
            out.append(line)
        else:
            out.append(line)
            if line and not line.startswith("#"):
                produced += scenario.run(line)
    assert not expected_part, "a block must end with an empty line"
    assert not produced, "the last block has no ---- and trace"
    return "\n".join(out) + "\n"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    script = path.read_text()
    actual = replayed(script)
    if os.environ.get(REWRITE):
        path.write_text(actual)
    else:
        assert actual == script
