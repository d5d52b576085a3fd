"""A ZooKeeper of one node grows to three under load; kills at each step lose nothing.

After each kill `up` runs again. Then all three nodes are members, and any one may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports, quiet_range
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    create_topic_eventually,
    eventually,
)
from topology.deployment.zookeeper import EmbeddedZooKeeper
from topology.ensemble.members import Membership, decode_membership
from topology.ensemble.node_files import DIRECTORY, SECRET_NAME
from topology.ensemble.start_form import setting

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: growing
zookeepers: [{{name: main, port: {0}}}]
clusters:
  - name: jfk
    brokers: [{{id: 1, port: {1}}}, {{id: 2, port: {2}}}]
    topic_defaults:
      partitions: 1
      replication_factor: 2
      config: {{retention.ms: -1}}  # the producer's timestamps are small
"""
GROWTH = "ZooKeeper main grows from 1 to 3 nodes"
KEYS = tuple(f"zookeeper-main.{number}" for number in (1, 2, 3))


class Growing:
    """A deployment of two brokers with a ZooKeeper of one node, and a producer at work."""

    def __init__(self, directory: Path) -> None:
        self.command = HeliographCommand(directory)
        self.ports = quiet_range(9)
        brokers = quiet_ports(2)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in brokers)
        self.command.file.write_text(TOPOLOGY.format(self.ports[0], *brokers))

    def edit(self) -> None:
        """Give the ZooKeeper three nodes in the file."""
        text = self.command.file.read_text()
        before = f"port: {self.ports[0]}"
        self.command.file.write_text(text.replace(before, f"{before}, nodes: 3", 1))

    def begin_up(self) -> subprocess.Popen[bytes]:
        """Start `up`, and do not wait for it."""
        arguments = ("up", str(self.command.file), *self.command.options)
        return subprocess.Popen(
            [sys.executable, "-m", "topology", *arguments],
            cwd=Path(__file__).resolve().parents[3],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def pid(self, key: str) -> int | None:
        """Return the process of a daemon, as the supervisor has recorded it."""
        path = self.command.state_dir / "processes.json"
        found = json.loads(path.read_bytes())["processes"].get(key)
        return None if found is None else int(found["identity"]["pid"])

    def members(self, number: int) -> Membership | None:
        """Return the members that a node has on disk."""
        place = self.command.state_dir / "data" / f"zookeeper-main.{number}" / DIRECTORY
        with contextlib.suppress(OSError, ValueError):
            pointer = setting((place / "zookeeper.cfg").read_text(), "dynamicConfigFile")
            return decode_membership(Path(pointer or "").read_text())
        return None

    def is_grown(self, number: int) -> bool:
        found = self.members(number)
        return found is not None and set(found.members) == {1, 2, 3} and not found.is_weighted

    def port_answers(self, number: int) -> bool:
        """Return whether a node listens for clients; perhaps it does not serve them yet."""
        return self.mode(number) is not None

    def mode(self, number: int) -> str | None:
        """Return what the node answers to `srvr` about its mode; empty while it does not serve."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.ports[number - 1]), 1) as connection,
        ):
            connection.sendall(b"srvr")
            text = b""
            while chunk := connection.recv(4096):
                text += chunk
            lines = text.decode().splitlines()
            return next((each[6:] for each in lines if each.startswith("Mode: ")), "")
        return None

    def leader(self) -> int | None:
        return next((number for number in (1, 2, 3) if self.mode(number) == "leader"), None)


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    growing = Growing(tmp_path)
    yield growing
    if growing.command.state_dir.exists():
        growing.command.run("down", "--purge")


@contextlib.asynccontextmanager
async def under_load(growing: Growing) -> AsyncIterator[IdempotentProducer]:
    """Produce all the time; at the end every acknowledged record is there once, in order."""
    async with KafkaClient(growing.bootstrap, request_timeout_ms=30_000) as client:
        assert (await client.create_topics([NewTopic(name="t")]))["t"] is None
        await eventually(lambda: all_in_sync(client, "t"))
        producer = IdempotentProducer(growing.bootstrap, "t")
        await producer.advance(10)
        yield producer
        await producer.advance(10)
        await producer.stop()
        await eventually(lambda: all_in_sync(client, "t"))
        assert [each.value async for each in read_topic(client, "t")] == producer.acknowledged


async def tolerates_a_loss(growing: Growing) -> None:
    """Check that brokers create a topic while the leader of the ensemble is lost."""
    assert all(growing.is_grown(number) for number in (1, 2, 3))
    leader = growing.leader()
    assert leader is not None
    pid = growing.pid(KEYS[leader - 1])
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        async with KafkaClient(growing.bootstrap, request_timeout_ms=30_000) as client:
            await create_topic_eventually(client, "later")
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_one_node_grows_to_three_and_nothing_is_lost(growing: Growing) -> None:
    command = growing.command
    command.up()
    before = pids(command.document("status"))
    secret = command.state_dir / "data" / "zookeeper-main" / DIRECTORY / SECRET_NAME
    password = secret.read_text().strip()
    assert secret.stat().st_mode & 0o077 == 0
    async with under_load(growing):
        growing.edit()
        plan = command.run("plan", str(command.file))
        reasons = {each["key"]: each["reasons"] for each in plan["steps"]}
        assert all(reasons[key] == [GROWTH] for key in ("zookeeper-main", *KEYS))
        status = await asyncio.to_thread(command.up)
        assert status["state"] == "running"
        grown = pids(status)
        assert set(grown) == {*KEYS, "broker-jfk-1", "broker-jfk-2"}
        assert command.run("plan", str(command.file))["steps"] == []
        again = await asyncio.to_thread(command.up)
        assert pids(again) == grown, "a second `up` restarts nothing"
        await tolerates_a_loss(growing)
    assert before.keys() == {"zookeeper-main", "broker-jfk-1", "broker-jfk-2"}
    readable = [path for path in command.state_dir.rglob("*") if path.is_file() and path != secret]
    moved = command.state_dir / "data" / KEYS[0] / DIRECTORY / SECRET_NAME
    assert moved.read_text().strip() == password
    for path in (each for each in readable if each != moved):
        assert password.encode() not in path.read_bytes(), path
    for pid in grown.values():
        assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()

    growing.command.file.write_text(command.file.read_text().replace(", nodes: 3", ""))
    for refusal in (
        command.complain("up", str(command.file)),
        command.complain("plan", str(command.file)),
    ):
        assert "an ensemble does not shrink" in refusal


@pytest.mark.long
async def test_the_data_of_an_older_version_grows(growing: Growing, tmp_path: Path) -> None:
    """An older version ran a single server that could not grow."""
    address = f"127.0.0.1:{growing.ports[0]}"
    server = EmbeddedZooKeeper(
        directory=tmp_path / "old",
        data_directory=growing.command.state_dir / "data" / "zookeeper-main",
        port=growing.ports[0],
    )
    server.directory.mkdir()
    server.data_directory.mkdir(parents=True)
    for path, text in server.files.items():
        path.write_text(text)
    process = subprocess.Popen(server.argv, stderr=subprocess.DEVNULL)
    try:
        await eventually(lambda: growing.mode(1) == "standalone")
        await asyncio.to_thread(_with_client, address, lambda client: client.create("/kept", b"x"))
    finally:
        process.kill()
        process.wait()
    growing.edit()
    assert (await asyncio.to_thread(growing.command.up))["state"] == "running"
    await tolerates_a_loss(growing)
    for port in growing.ports[:3]:
        found = await asyncio.to_thread(
            _with_client, f"127.0.0.1:{port}", lambda client: client.get("/kept")
        )
        assert found[0] == b"x"


def _with_client(address: str, work: Callable[[KazooClient], Any]) -> Any:
    client = KazooClient(address, timeout=10.0)
    client.start(timeout=30.0)
    try:
        return work(client)
    finally:
        client.stop()
        client.close()


def _kill(growing: Growing, key: str) -> None:
    pid = growing.pid(key)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _started(key: str) -> Callable[[Growing], bool]:
    return lambda growing: growing.pid(key) is not None


KILLS: dict[str, tuple[Callable[[Growing], bool], Callable[[Growing, Any], None]]] = {
    "the first node, as it takes its data over": (
        _started(KEYS[0]),
        lambda growing, up: _kill(growing, KEYS[0]),
    ),
    "a new node before it is added": (
        _started(KEYS[1]),
        lambda growing, up: _kill(growing, KEYS[1]),
    ),
    "a new node while it waits for the data": (
        lambda growing: growing.port_answers(2),
        lambda growing, up: _kill(growing, KEYS[1]),
    ),
    "the leader right after the change of members": (
        lambda growing: growing.is_grown(1),
        lambda growing, up: _kill(growing, KEYS[(growing.leader() or 1) - 1]),
    ),
    "up, when the nodes have started": (_started(KEYS[2]), lambda growing, up: up.kill()),
    "up, when the nodes serve": (
        lambda growing: all(growing.mode(number) for number in (1, 2, 3)),
        lambda growing, up: up.kill(),
    ),
    "up, right after the change of members": (
        lambda growing: growing.is_grown(1),
        lambda growing, up: up.kill(),
    ),
}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", list(KILLS))
async def test_a_kill_during_growth_loses_nothing(growing: Growing, kill: str) -> None:
    moment, strike = KILLS[kill]
    growing.command.up()
    async with under_load(growing):
        growing.edit()
        up = growing.begin_up()
        try:
            await asyncio.to_thread(_await, lambda: moment(growing))
            strike(growing, up)
            await asyncio.to_thread(up.wait, 240)
        finally:
            up.kill()
            up.wait()
        status = await asyncio.to_thread(growing.command.up)
        assert status["state"] == "running"
        await tolerates_a_loss(growing)


def _await(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "the moment to kill never came"
        time.sleep(0.005)
