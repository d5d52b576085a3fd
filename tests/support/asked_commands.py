"""Runs `heliograph` in this process, for tests without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from topology.deployment.deployment import Deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.main import app


class AskedCommands:
    """Its calls end with the exit code that is expected, or fail with the output."""

    def __init__(self, *options: str) -> None:
        self.options = options

    def lines(self, *words: str, code: int = 0) -> list[str]:
        """Return what standard output has for people, with one space between words."""
        return [" ".join(line.split()) for line in self._output(words, code)[0].splitlines()]

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self._output((*words, "-o", "json"), code)[0])

    def refusal(self, *words: str, code: int = 1) -> str:
        """Return what standard error has; nothing stands in standard output."""
        shown, said = self._output(words, code)
        assert shown == "", shown
        return said

    def _output(self, words: tuple[str, ...], code: int) -> tuple[str, str]:
        done = CliRunner().invoke(app, [*words, *self.options], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done.stdout, done.stderr


def stopped_deployment(state: StateDir, text: str) -> Deployment:
    """Return the deployment of a topology file, stored as one that was started and stopped."""
    file = state.path / "topology.yaml"
    file.write_text(text)
    found = render(parse_topology(text), state, topology_file=Path(file))
    state.deployment_file.write_text(encode_deployment(found))
    return found
