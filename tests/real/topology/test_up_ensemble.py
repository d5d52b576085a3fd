"""The command with an ensemble of ZooKeeper nodes, and brokers with racks and log directories."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports, quiet_range
from tests.support.replicas import all_in_sync, create_topic_eventually, eventually

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: ensemble
zookeepers: [{{name: main, port: {0}, nodes: 3}}]
clusters:
  - name: jfk
    brokers:
      - {{id: 1, port: {1}, rack: a, log_dirs: [., second]}}
      - {{id: 2, port: {2}, rack: b}}
    topic_defaults: {{partitions: 2, replication_factor: 2}}
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


async def test_all_of_it_runs_and_a_killed_node_is_started_again(
    command: HeliographCommand,
) -> None:
    zookeeper = quiet_range(9)
    ports = quiet_ports(2)
    command.file.write_text(TOPOLOGY.format(zookeeper[0], *ports))
    status = command.up()
    assert status["state"] == "running"
    running = pids(status)
    nodes = {f"zookeeper-main.{number}" for number in (1, 2, 3)}
    assert set(running) == nodes | {"broker-jfk-1", "broker-jfk-2"}
    async with KafkaClient(f"127.0.0.1:{ports[0]}") as client:
        assert (await client.create_topics([NewTopic(name="t")]))["t"] is None
        await eventually(lambda: all_in_sync(client, "t"))
        data = command.state_dir / "data"
        places = [data / "jfk" / "broker-1", data / "second" / "jfk" / "broker-1"]
        replicas = sorted(path.name for place in places for path in place.glob("t-*"))
        assert replicas == ["t-0", "t-1"]
        assert all((place / "meta.properties").exists() for place in places)

        os.kill(running["zookeeper-main.2"], signal.SIGKILL)
        repaired = command.up()
        assert repaired["state"] == "running"
        assert pids(repaired)["zookeeper-main.2"] != running["zookeeper-main.2"]
        await create_topic_eventually(client, "later")
    command.run("down", "--purge")
    assert not command.state_dir.exists()
