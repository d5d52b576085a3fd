"""The command with real daemons: two clusters and a link, from `up` to `down --purge`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.heliograph_command import COMMAND_TIMEOUT_S, HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports
from tests.support.scraping import get_json

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: two
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    datacenter: Queens
    brokers: [{{id: 1, port: {1}}}]
  - name: nyc
    kind: aggregate
    brokers: [{{id: 1, port: {2}}}]
    config: {{group.initial.rebalance.delay.ms: 0}}
    topic_defaults: {{partitions: 2}}
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


def test_from_yaml_to_running_clusters_and_back(command: HeliographCommand) -> None:
    zookeeper, jfk, nyc = quiet_ports(3)
    command.file.write_text(TOPOLOGY.format(zookeeper, jfk, nyc))
    status = command.up()

    assert status["state"] == "running"
    running = pids(status)
    urls = [broker.pop("url") for cluster in status["clusters"] for broker in cluster["brokers"]]
    assert [get_json(f"{url}/readyz") for url in urls] == [(200, {"ready": True})] * 2
    assert status["clusters"] == [
        {
            "name": name,
            "kind": kind,
            "datacenter": datacenter,
            "bootstrap": f"127.0.0.1:{port}",
            "brokers": [
                {
                    "id": 1,
                    "host": "127.0.0.1",
                    "port": port,
                    "pid": running[f"broker-{name}-1"],
                    "state": "running",
                    "reason": None,
                }
            ],
            "reason": None,
        }
        for name, kind, datacenter, port in (
            ("jfk", "local", "Queens", jfk),
            ("nyc", "aggregate", "nyc", nyc),
        )
    ]
    (link,) = status["links"]
    assert set(link) == {
        "name",
        "source",
        "target",
        "state",
        "reason",
        "standing_still",
        "standing_still_more",
        "topics",
        "partitions",
        "lag_records",
        "lag_seconds",
        "gaps",
        "paused",
        "throttle",
        "probe",
        "waits_for",
    }
    assert (link["name"], link["source"], link["target"]) == ("jfk-nyc", "jfk", "nyc")
    (aggregator,) = status["aggregators"]
    assert aggregator["url"].startswith("http://127.0.0.1:")
    assert status["problems"] == []
    for port in (zookeeper, jfk, nyc):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()

    os.kill(running["broker-jfk-1"], signal.SIGKILL)
    repaired = command.up()
    assert repaired["state"] == "running"
    assert pids(repaired)["broker-jfk-1"] != running["broker-jfk-1"]
    assert {**pids(repaired), "broker-jfk-1": 0} == {**running, "broker-jfk-1": 0}

    edited = TOPOLOGY.replace("partitions: 2", "partitions: 3").format(zookeeper, jfk, nyc)
    command.file.write_text(edited)
    plan = command.run("plan", str(command.file), "--exit-code", code=3)
    (step,) = plan["steps"]
    assert (step["action"], step["key"]) == ("restart", "broker-nyc-1")
    assert step["reasons"] == ["config.num.partitions: 2 -> 3"]
    before = pids(repaired)
    after = pids(command.up())
    assert {key for key in after if after[key] != before[key]} == {"broker-nyc-1"}
    assert command.run("status")["state"] == "running"

    stopped = command.run("down")["stopped"]
    assert len(stopped) == len(after)
    assert not any(psutil.pid_exists(pid) for pid in after.values())
    assert command.run("status", code=4)["state"] == "stopped"
    assert (command.state_dir / "data" / "jfk" / "broker-1").is_dir()
    command.run("down", "--purge")
    assert not command.state_dir.exists()


def test_the_foreground_stays_until_it_is_interrupted(command: HeliographCommand) -> None:
    zookeeper, jfk = quiet_ports(2)
    command.file.write_text(
        f"""\
name: one
zookeepers: [{{name: zookeeper, port: {zookeeper}}}]
clusters: [{{name: jfk, brokers: [{{id: 1, port: {jfk}}}]}}]
"""
    )
    arguments = ("up", str(command.file), "--foreground", *command.options)
    stays = subprocess.Popen(
        [sys.executable, "-m", "topology", *arguments],
        cwd=Path(__file__).resolve().parents[3],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert stays.stderr is not None
    assert stays.stderr.readline() == b"running; Ctrl-C stops it\n"
    running = pids(command.run("status"))
    assert len(running) == 2
    stays.send_signal(signal.SIGINT)
    assert stays.wait(COMMAND_TIMEOUT_S) == 0
    stays.stderr.close()
    assert not any(psutil.pid_exists(pid) for pid in running.values())
    assert command.run("status", code=4)["state"] == "stopped"
