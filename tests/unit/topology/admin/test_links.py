"""`heliograph link`: tables, JSON and exit codes, over statuses of a deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from topology.admin import link_command
from topology.admin.link_command import link_lines
from topology.deployment.deployment import Daemon, Deployment, LinkView
from topology.main import app

LINK = {
    "name": "a-b",
    "source": "a",
    "target": "b",
    "state": "running",
    "reason": None,
    "topics": 1,
    "partitions": 2,
    "lag_records": 0,
    "lag_seconds": None,
}
HELD = {**LINK, "name": "b-a", "state": "held", "reason": "an operator has paused it"}


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [LINK]
    views = (LinkView(name="a-b", source="a", target="b", daemon="mirror-b"),)
    ready_file = str(tmp_path / "no-worker.json")
    worker = Daemon(key="mirror-b", role="mirror", label="b", argv=(), ready_file=ready_file)
    deployment = Deployment(name="shop", topology_file="shop.yaml", links=views, daemons=(worker,))

    def status(which: str | None, state_dir: Path | None) -> tuple[Deployment, dict[str, Any]]:
        return deployment, {"links": found}

    monkeypatch.setattr(link_command, "_status", status)
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["link", *arguments])


def test_list(links: list[dict[str, Any]]) -> None:
    result = run("list")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split() == [
        *["a-b", "a", "b", "running", "1", "2", "0", "-"]
    ]
    links.append(HELD)
    result = run("list", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["links"]) == (4, [LINK, HELD])
    assert "b-a: an operator has paused it" in run("list").stdout


def test_describe_a_link_whose_worker_does_not_run(links: list[dict[str, Any]]) -> None:
    links[0] = {**LINK, "state": "stopped"}

    result = run("describe", "a-b", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (4, {**links[0], "worker": None})
    assert "no partition is known" in run("describe", "a-b").stdout
    result = run("describe", "a-c")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no link 'a-c'; did you mean 'a-b'?" in result.stderr


def test_lines_of_a_link() -> None:
    worker = {
        "controls": {"paused": [{"topic": "t", "partition": 3}]},
        "topics_left_out": ["x.internal"],
        "rights_missing": ["READ on topic t"],
    }
    assert link_lines({**HELD, "worker": worker}) == [
        "link b-a: a -> b, held: an operator has paused it",
        "paused: t-3",
        "not copied: x.internal",
        "right missing: READ on topic t",
    ]
