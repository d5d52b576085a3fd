"""`heliograph top` without a screen: one view as text, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import topology.top.collect
from tests.unit.topology.top.test_view import BEFORE, NOW
from topology.deployment.state_dir import StateDir
from topology.main import app
from topology.top.view import Snapshot


def test_once_prints_tables_with_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Iterator[Snapshot] = iter([BEFORE, NOW])

    def take(state: StateDir) -> Snapshot:
        assert state.path == tmp_path
        return next(looks)

    monkeypatch.setattr(topology.top.collect, "take_snapshot", take)
    words = ["top", "--once", "--interval", "0.5", "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("flights: degraded; broker 2 of jfk does not run")
    assert [line for line in lines if line in ("Clusters", "Links", "Brokers", "Groups")]
    assert any(line.split()[:4] == ["jfk", "1", "running", "50%"] for line in lines)


def test_a_screen_needs_a_terminal_and_a_deployment(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["top", "--state-dir", str(tmp_path)])
    assert refused.exit_code == 2
    assert "--once prints one view" in refused.output
    absent = CliRunner().invoke(app, ["top", "--once", "--state-dir", str(tmp_path)])
    assert absent.exit_code == 1
    assert "nothing was deployed in" in absent.output
