"""All hosts of a cluster take over another version at once, under load, and go back."""

from __future__ import annotations

import asyncio
import datetime
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.real.topology.test_hosts import Host
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import IdempotentProducer, all_in_sync, eventually
from tests.support.scraping import scrape
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.restart_turn import PATH, SharedTurn

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

NAMES = [f"127.0.1.{number}" for number in (1, 2, 3)]
TOPOLOGY = """\
name: up
zookeepers: [{{name: main, host: 127.0.1.1, port: {0}}}]
clusters:
  - name: ewr
    zookeeper: {{embedded: main, chroot: /ewr}}
    brokers:
      - {{id: 1, host: 127.0.1.1, port: {1}}}
      - {{id: 2, host: 127.0.1.2, port: {1}}}
      - {{id: 3, host: 127.0.1.3, port: {1}}}
    topic_defaults: {{partitions: 3, replication_factor: 3, config: {{min.insync.replicas: 2}}}}
"""
OTHERS_TURN_S = 6.0
"""Longer than a host takes to restart its first broker, if it is free to."""
EVENT = re.compile(r"^(\S+ \S+) INFO broker (\d) of ewr (ended|runs as pid \d+)", re.MULTILINE)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    found = [Host(tmp_path / name, tmp_path / "topology.yaml", name) for name in NAMES]
    yield found
    for host in found:
        if host.command.state_dir.exists():
            host.command.run("down", "--purge")


class Installed:
    """The installed package, whose version the test changes in place."""

    def __init__(self, directory: Path) -> None:
        self._metadata = directory / "heliograph-0.dist-info" / "METADATA"
        self._metadata.parent.mkdir(parents=True)

    def install(self, version: str) -> None:
        self._metadata.write_text(f"Metadata-Version: 2.1\nName: heliograph\nVersion: {version}\n")


def restarts(hosts: list[Host]) -> list[tuple[datetime.datetime, str, str]]:
    """(time, broker, "ended" or "runs") of all hosts, in the order of time.

    A supervisor that takes a process over says again that it runs.
    """
    logs = [StateDir(each.command.state_dir).log_file("supervisor").read_text() for each in hosts]
    seen: set[tuple[str, str]] = set()
    found = []
    for text in logs:
        for at, broker, what in EVENT.findall(text):
            if what == "ended" or (broker, what) not in seen:
                time = datetime.datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f")
                found.append((time, broker, what.split()[0]))
            seen.add((broker, what))
    return sorted(found)


def versions(hosts: list[Host]) -> set[str]:
    """The versions that the brokers say they run."""
    urls = [row["url"] for host in hosts for row in host.status()["clusters"][0]["brokers"]]
    found = (scrape(url) for url in urls if url)
    return {labels["version"] for each in found for labels, _ in each.all("heliograph_build_info")}


@pytest.mark.long
async def test_hosts_that_begin_at_once_restart_one_broker_at_a_time(
    hosts: list[Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Installed(tmp_path / "site")
    installed.install("1.0")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    zookeeper, port = quiet_ports(2)
    hosts[0].command.file.write_text(TOPOLOGY.format(zookeeper, port))
    for host in hosts:
        await asyncio.to_thread(host.up)
    bootstrap = ",".join(f"{name}:{port}" for name in NAMES)
    async with KafkaClient(bootstrap) as client:
        await client.create_topics([NewTopic(name="t")])
        await eventually(lambda: all_in_sync(client, "t"))
        producers = [IdempotentProducer(bootstrap, "t", index) for index in range(3)]
        await asyncio.gather(*(each.advance(20) for each in producers))
        for version in ("2.0", "1.0"):
            seen = len(restarts(hosts))
            former = [host.status()["supervisor"]["pid"] for host in hosts]
            installed.install(version)
            turn = SharedTurn(ZooKeeperAccess(connect=f"127.0.1.1:{zookeeper}/ewr"), "the-test")

            async def is_ours(turn: SharedTurn = turn) -> bool:
                return turn.take() is None

            await eventually(is_ours)
            begun = [asyncio.create_task(asyncio.to_thread(each.up)) for each in hosts]
            await asyncio.sleep(OTHERS_TURN_S)
            early = restarts(hosts)[seen:]
            turn.close()
            ups = await asyncio.gather(*begun)
            assert early == [], "it was not their turn"
            for each in ups:
                reasons = {step["key"]: step["reasons"] for step in each["steps"]}
                assert all(any(version in why for why in of) for of in reasons.values()), reasons
            await asyncio.gather(*(each.advance(20) for each in producers))
            rolled = restarts(hosts)[seen:]
            assert {broker for _, broker, _ in rolled} == {"1", "2", "3"}
            for (_, before, first), (_, after, then) in pairwise(rolled):
                assert (first, then) == ("ended", "runs") if before == after else (first == "runs")
            assert await asyncio.to_thread(versions, hosts) == {version}
            supervisors = [host.status()["supervisor"]["pid"] for host in hosts]
            assert set(supervisors).isdisjoint(former), "they run the version as well"
        for each in producers:
            await each.stop()
        for index, each in enumerate(producers):
            values = [record.value async for record in read_topic(client, "t", partition=index)]
            assert values == each.acknowledged


HOLDS = """
import sys, time
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.restart_turn import SharedTurn
turn = SharedTurn(ZooKeeperAccess(connect=sys.argv[1]), "lost-host")
while turn.take() is not None:
    time.sleep(0.05)
print("taken", flush=True)
time.sleep(600)
"""


async def test_a_lost_host_does_not_keep_its_turn(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = f"{zookeeper}/turns"
    starter = KazooClient(zookeeper)
    starter.start()
    starter.ensure_path("/turns")
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, connect], stdout=subprocess.PIPE)
    turn = SharedTurn(ZooKeeperAccess(connect=connect), "next-host")
    try:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"taken\n"

        async def is_told() -> bool:
            return turn.take() == "host lost-host restarts brokers of the cluster"

        await eventually(is_told)
        was_taken = turn.is_taken
        holder.kill()

        async def is_ours() -> bool:
            return turn.take() is None

        await eventually(is_ours)
        assert (was_taken, turn.is_taken) == (True, False)
        turn.close()
        assert not starter.exists(f"/turns{PATH}")
    finally:
        holder.kill()
        holder.wait()
        starter.stop()
        starter.close()
