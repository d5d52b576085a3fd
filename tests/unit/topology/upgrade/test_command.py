"""What `heliograph upgrade` refuses before it asks ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from topology.deployment.state_dir import StateDir
from topology.main import app


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    found = StateDir(tmp_path / "state")
    found.create()
    found.deployment_file.write_text(
        '{"version": 1, "name": "d", "topology_file": "", "daemons": [],'
        ' "clusters": [], "links": []}'
    )
    return found


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--back", "--stop"], 2, "only one of --status, --stop, --back and --finalize"),
        (["--finalize", "--order", "a"], 2, "--order goes with a new upgrade only"),
        (["--status"], 1, "the deployment has no cluster of its own"),
        ([], 1, "install the package and run `heliograph up` on each host"),
    ],
)
def test_refusals(options: list[str], code: int, says: str, state: StateDir) -> None:
    result = CliRunner().invoke(app, ["upgrade", "--state-dir", str(state.path), *options])
    assert result.exit_code == code
    assert says in result.stderr


def test_nothing_is_deployed(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["upgrade", "--state-dir", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "nothing was deployed" in result.stderr
