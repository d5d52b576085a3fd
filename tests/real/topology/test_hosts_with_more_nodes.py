"""A ZooKeeper grows over hosts: from one to three with TLS among its nodes, and on to five.

Loopback addresses stand for hosts. A producer works all the time, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.real.topology.test_hosts import Host
from tests.support.authority import Authority
from tests.support.heliograph_command import pids
from tests.support.quiet_ports import quiet_port, quiet_range
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    create_topic_eventually,
    eventually,
)

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: spreading
zookeepers: [{{name: main, port: {port}, {nodes}}}]
clusters:
  - name: jfk
    zookeeper: {{embedded: main}}
    brokers:
      - {{id: 1, host: 127.0.1.1, port: {broker}}}
      - {{id: 2, host: 127.0.1.2, port: {broker}}}
    topic_defaults:
      partitions: 1
      replication_factor: 2
      config: {{retention.ms: -1}}  # the producer's timestamps are small
"""
NAMES = tuple(f"127.0.1.{number}" for number in range(1, 6))


class Spread:
    """Five hosts with one file."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "topology.yaml"
        self.hosts = [Host(directory / name, self.file, name) for name in NAMES]
        self._ports = {"port": quiet_range(3)[0], "broker": quiet_port()}
        authority = Authority(directory / "ca")
        certificate = authority.issue("node").pem
        self._tls = (
            f"quorum_tls: {{keystore_file: {certificate}, ca_file: {authority.ca_file},"
            " check_hostname: false}"
        )
        self.write("host: 127.0.1.1")

    @property
    def bootstrap(self) -> str:
        return f"127.0.1.1:{self._ports['broker']},127.0.1.2:{self._ports['broker']}"

    def write(self, nodes: str) -> None:
        self.file.write_text(TOPOLOGY.format(nodes=nodes, **self._ports))

    def spread(self, names: Sequence[str]) -> None:
        self.write(f"hosts: [{', '.join(names)}], {self._tls}")

    async def up(self, *indexes: int) -> list[str]:
        """Run `up` on these hosts, one after the other; return the states."""
        return [(await asyncio.to_thread(self.hosts[each].up))["state"] for each in indexes]


@pytest.fixture
def spread(tmp_path: Path) -> Iterator[Spread]:
    spread = Spread(tmp_path)
    yield spread
    for host in reversed(spread.hosts):
        if host.command.state_dir.exists():
            host.command.run("down", "--purge")


@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_one_host_grows_to_three_and_to_five(spread: Spread) -> None:
    await spread.up(0, 1)
    first, second = spread.hosts[0].command, spread.hosts[1]
    async with KafkaClient(spread.bootstrap, request_timeout_ms=30_000) as client:
        assert (await client.create_topics([NewTopic(name="t")]))["t"] is None
        await eventually(lambda: all_in_sync(client, "t"))
        producer = IdempotentProducer(spread.bootstrap, "t")
        await producer.advance(10)

        # The host with the data comes first. It goes on, and the last new host makes the step.
        spread.spread(NAMES[:3])
        assert await spread.up(0) == ["waiting"]
        problem = first.document("status")["problems"][0]
        assert "grows from 1 to 3 nodes" in problem["reason"]
        assert "node 2 on 127.0.1.2" in problem["reason"]
        assert (await spread.up(1, 2))[-1] == "running"
        assert await spread.up(0, 1, 2) == ["running"] * 3
        await producer.advance(10)

        # A node that hangs: no growth, and nothing has changed.
        spread.spread(NAMES)
        before = [pids(host.status()) for host in spread.hosts[:3]]
        hanging = before[1]["zookeeper-main.2"]
        os.kill(hanging, signal.SIGSTOP)
        try:
            refusal = await asyncio.to_thread(
                first.complain, "up", str(spread.file), "--host", NAMES[0]
            )
        finally:
            os.kill(hanging, signal.SIGCONT)
        assert "grows from 3 to 5 nodes only while all its nodes serve clients" in refusal
        assert "node 2 on 127.0.1.2 does not serve clients" in refusal

        async def all_serve() -> bool:
            return bool(second.status()["state"] == "running")

        await eventually(all_serve)
        await spread.up(0, 1, 2, 3)
        assert (await spread.up(4))[-1] == "running"
        assert await spread.up(0, 1, 2, 3, 4) == ["running"] * 5
        for index, known in enumerate(before):
            now = pids(spread.hosts[index].status())
            key = f"zookeeper-main.{index + 1}"
            assert now[key] == known[key], "nodes do not restart for new members"

        # Two of five are lost.
        for index in (0, 4):
            os.kill(
                pids(spread.hosts[index].status())[f"zookeeper-main.{index + 1}"], signal.SIGKILL
            )
        await eventually(lambda: all_in_sync(client, "t"))
        await producer.advance(10)
        await producer.stop()
        await eventually(lambda: all_in_sync(client, "t"))
        assert [each.value async for each in read_topic(client, "t")] == producer.acknowledged


@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_a_host_of_an_ensemble_is_replaced(spread: Spread) -> None:
    """The new host has no data. Afterwards it counts: the ensemble tolerates another loss."""
    spread.spread(NAMES[:3])
    await spread.up(0, 2, 1)  # brokers start when the ensemble works
    assert await spread.up(0, 1, 2) == ["running"] * 3, "each host has seen the file"
    async with KafkaClient(spread.bootstrap, request_timeout_ms=30_000) as client:
        assert (await client.create_topics([NewTopic(name="t")]))["t"] is None
        await eventually(lambda: all_in_sync(client, "t"))
        producer = IdempotentProducer(spread.bootstrap, "t")
        await producer.advance(10)
        replaced = (NAMES[0], NAMES[3], NAMES[2])
        spread.spread(replaced)
        await spread.up(1, 0, 2)  # the one that leaves first: it may be the leader
        assert (await spread.up(3))[-1] == "running"
        assert await spread.up(0, 1, 2, 3) == ["running"] * 4
        for index in (0, 2, 3):
            (node,) = (each for each in pids(spread.hosts[index].status()) if "zookeeper" in each)
            config = spread.hosts[index].command.state_dir / "data" / node / "config"
            (members,) = config.glob("zookeeper.cfg.dynamic.*")
            assert f"server.2={NAMES[3]}:" in members.read_text()
        os.kill(pids(spread.hosts[0].status())["zookeeper-main.1"], signal.SIGSTOP)
        await create_topic_eventually(client, "later")
        os.kill(pids(spread.hosts[0].status())["zookeeper-main.1"], signal.SIGCONT)
        await producer.advance(10)
        await producer.stop()
        await eventually(lambda: all_in_sync(client, "t"))
        assert [each.value async for each in read_topic(client, "t")] == producer.acknowledged
