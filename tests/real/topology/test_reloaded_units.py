"""`systemctl reload`: the commands of rendered units, on real processes."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.rendering.systemd import UNITS, systemd_files

pytestmark = pytest.mark.real

REPOSITORY = Path(__file__).parents[3]
READY_SECONDS_MAX = 60
HOST = "127.0.0.1"
CLUSTERS = """\
name: units
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - {{name: jfk, brokers: [{{id: 1, port: {1}}}]}}
  - {{name: ewr, brokers: [{{id: 1, port: {2}}}]}}
  - name: nyc
    kind: aggregate
    config: {{group.initial.rebalance.delay.ms: 0}}
    brokers: [{{id: 1, port: {3}}}]
"""
LINKS = """\
links:
  - {source: jfk, target: nyc, topics: [flights]}
"""
EDITED = """\
links:
  - {source: jfk, target: nyc, topics: [flights, gates]}
  - {source: ewr, target: nyc, topics: [flights]}
"""


class Units:
    """The units of a topology whose state is in a directory of the test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._state = StateDir(directory)
        self._files: dict[str, str] = {}

    def render(self, text: str) -> None:
        """Write the settings, as the operator copies them to the host."""
        deployment = render(
            parse_topology(text), self._state, topology_file=self._directory / "topology.yaml"
        )
        self._files = systemd_files(deployment, sys.executable)
        for name, content in self._files.items():
            path = Path(name.removeprefix(HOST))
            if path.is_relative_to(self._directory):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
        self._state.ready_dir.mkdir(exist_ok=True)

    def command(self, key: str, setting: str) -> list[str]:
        """Return a command of a unit."""
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(self._files[f"{HOST}/{UNITS}/heliograph-units-{key}.service"])
        return shlex.split(parser["Service"][setting])

    @contextmanager
    def started(self, key: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a unit, and wait until it notifies that it is ready."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            address = str(self._directory / f"notify-{key}")
            systemd.bind(address)
            systemd.settimeout(READY_SECONDS_MAX)
            process = subprocess.Popen(
                self.command(key, "ExecStart"),
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "NOTIFY_SOCKET": address},
            )
            try:
                assert systemd.recv(100) == b"READY=1"
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()

    def reload(self, key: str, process: subprocess.Popen[bytes]) -> None:
        """Do as `systemctl reload`."""
        reload = [
            each.replace("$MAINPID", str(process.pid)) for each in self.command(key, "ExecReload")
        ]
        subprocess.run(reload, check=True)

    def ask(self, key: str, path: str) -> Any:
        """Return what a process answers over HTTP."""
        ready = json.loads((self._state.ready_dir / f"{key}.json").read_text())
        url = f"http://{ready['http_host']}:{ready['http_port']}{path}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[str]:
    """The clusters of a topology, which run."""
    command = HeliographCommand(tmp_path)
    text = CLUSTERS.format(*quiet_ports(4))
    command.file.write_text(text)
    command.up()
    yield text
    command.run("down", "--purge")


async def test_a_reload_takes_over_edited_links(clusters: str, tmp_path: Path) -> None:
    units = Units(tmp_path / "host")
    units.render(clusters + LINKS)
    with units.started("mirror-nyc") as mirror, units.started("aggregator-nyc") as aggregator:

        def links() -> list[list[str]]:
            at_worker = units.ask("mirror-nyc", "/status")["links"]
            at_aggregator = units.ask("aggregator-nyc", "/api/v1/links")["links"]
            return [[each["name"] for each in links] for links in (at_worker, at_aggregator)]

        assert links() == [["jfk-nyc"]] * 2
        units.render(clusters + EDITED)
        units.reload("mirror-nyc", mirror)
        units.reload("aggregator-nyc", aggregator)

        async def links_are_edited() -> bool:
            return await asyncio.to_thread(links) == [["jfk-nyc", "ewr-nyc"]] * 2

        await eventually(links_are_edited)

        async def is_joined() -> bool:
            # It joins again with its new links.
            status = await asyncio.to_thread(units.ask, "mirror-nyc", "/status")
            return bool(status["group"]["joined"])

        await eventually(is_joined)
        assert (mirror.poll(), aggregator.poll()) == (None, None)
