"""`heliograph upgrade`: hosts take over another version by themselves, under load, and go back.

A version is the metadata of the installed package, which each host has its own of.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.controller.model.format_level import FORMAT_LEVEL, decode_level, encode_level
from local_cluster.controller.model.znode_paths import FORMAT_LEVEL as LEVEL_PATH
from tests.real.topology.test_hosts import Host
from tests.real.topology.test_hosts_upgraded import Installed, restarts, versions
from tests.support.heliograph_command import pids
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import IdempotentProducer, all_in_sync, eventually
from topology.deployment.state_dir import StateDir

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
NAMES = [f"127.0.1.{number}" for number in (1, 2, 3)]
TOPOLOGY = """\
name: turns
zookeepers: [{{name: main, host: 127.0.1.1, port: {0}}}]
clusters:
  - name: ewr
    zookeeper: {{embedded: main, chroot: /ewr}}
    brokers:
      - {{id: 1, host: 127.0.1.1, port: {1}}}
      - {{id: 2, host: 127.0.1.2, port: {1}}}
      - {{id: 3, host: 127.0.1.3, port: {1}}}
    topic_defaults: {{partitions: 3, replication_factor: 3, config: {{min.insync.replicas: 2}}}}
  - name: nyc
    zookeeper: {{embedded: main, chroot: /nyc}}
    brokers: [{{id: 1, host: 127.0.1.3, port: {2}}}]
links:
  - {{source: ewr, target: nyc, topics: [t]}}
"""
ONE_BROKER = """\
name: one
zookeepers: [{{name: main, port: {0}}}]
clusters:
  - name: ewr
    zookeeper: {{embedded: main, chroot: /ewr}}
    brokers: [{{id: 1, port: {1}}}]
"""


class UpgradedHost:
    """A host with its own installed package; everything that it runs finds it first."""

    def __init__(self, directory: Path, file: Path, name: str) -> None:
        self.host = Host(directory, file, name)
        self._site = directory / "site"
        self._installed = Installed(self._site)
        self.install("1.0")

    @property
    def state(self) -> StateDir:
        return StateDir(self.host.command.state_dir)

    def install(self, version: str) -> None:
        self._installed.install(version)

    @contextlib.contextmanager
    def environment(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self._site))
            yield

    def run(self, *arguments: str, code: int = 0) -> Any:
        with self.environment():
            return self.host.command.run(*arguments, code=code)

    def complain(self, *arguments: str, code: int = 1) -> str:
        with self.environment():
            return self.host.command.complain(*arguments, code=code)

    def up(self) -> Any:
        with self.environment():
            return self.host.up()

    def upgrade(self, *options: str, code: int = 0) -> Any:
        return self.run("upgrade", *options, code=code)

    def states(self) -> dict[str, str]:
        """How far each host is, as this one knows it."""
        plan = self.upgrade("--status", code=0)["plan"]
        return {} if plan is None else {each["name"]: each["state"] for each in plan["hosts"]}

    def begin_upgrade(self) -> subprocess.Popen[bytes]:
        """The command, which the test kills."""
        with self.environment():
            return subprocess.Popen(
                [sys.executable, "-m", "topology", "upgrade", *self.host.command.options],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
            )

    def turns(self) -> list[psutil.Process]:
        """The processes that carry out the turn of this host."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if "topology.upgrade.turn" in words and str(self.state.path) in words:
                    found.append(process)
        return found


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[UpgradedHost]]:
    found = [UpgradedHost(tmp_path / name, tmp_path / "topology.yaml", name) for name in NAMES]
    yield found
    for each in found:
        if each.state.path.exists():
            each.run("down", "--purge")


async def until_state(host: UpgradedHost, name: str, *states: str) -> None:
    async def reached() -> bool:
        found = await asyncio.to_thread(host.states)
        return found.get(name) in states

    await eventually(reached)


def one_at_a_time(hosts: list[UpgradedHost], seen: int) -> set[str]:
    """The brokers of ewr that restarted since; no broker ended before the last one ran again."""
    rolled = restarts([each.host for each in hosts])[seen:]
    for (_, before, first), (_, after, then) in pairwise(rolled):
        assert (first, then) == ("ended", "runs") if before == after else first == "runs", rolled
    return {broker for _, broker, _ in rolled}


@pytest.mark.long
async def test_hosts_take_their_turns_over_kills_and_go_back(hosts: list[UpgradedHost]) -> None:
    zookeeper, ewr, nyc = quiet_ports(3)
    first, second, third = hosts
    first.host.command.file.write_text(TOPOLOGY.format(zookeeper, ewr, nyc))
    for each in hosts:
        await asyncio.to_thread(each.up)
    bootstrap = ",".join(f"{name}:{ewr}" for name in NAMES)
    async with KafkaClient(bootstrap) as client:
        await client.create_topics([NewTopic(name="t")])
        await eventually(lambda: all_in_sync(client, "t"))
        producers = [IdempotentProducer(bootstrap, "t", index) for index in range(3)]
        await asyncio.gather(*(each.advance(20) for each in producers))
        before = [pids(each.host.status()) for each in hosts]

        # The command is killed, and the turn of a host too; the third host gets the package late.
        for each in (first, second):
            each.install("2.0")
        command = first.begin_upgrade()
        await until_state(second, NAMES[0], "in_turn")
        command.kill()
        command.wait()
        await until_state(second, NAMES[1], "in_turn")
        assert second.states()[NAMES[0]] == "done"
        killed = second.turns()
        for process in killed:
            process.kill()
        assert killed
        await until_state(second, NAMES[1], "done")

        async def is_told() -> bool:
            plan = (await asyncio.to_thread(first.upgrade, "--status"))["plan"]
            return "version 1.0 is installed here, not 2.0" in plan["hosts"][2]["reason"]

        await eventually(is_told)
        assert pids(third.host.status()) == before[2]
        third.install("2.0")
        document = await asyncio.to_thread(second.upgrade)
        assert (document["state"], document["plan"]["former"]) == ("done", "1.0")
        assert one_at_a_time(hosts, 0) == {"1", "2", "3"}
        assert await asyncio.to_thread(versions, [each.host for each in hosts]) == {"2.0"}
        after = [pids(each.host.status()) for each in hosts]
        zookeepers = {"zookeeper-main"}
        for old, new in zip(before, after, strict=True):
            assert {key for key in old if old[key] == new[key]} <= zookeepers, "all restarted"
        await asyncio.gather(*(each.advance(20) for each in producers))

        # Not final: no third version, and the way back works. Trouble stops it.
        for each in hosts:
            each.install("3.0")
        assert "is not final" in first.complain("upgrade")
        for each in hosts:
            each.install("1.0")
        seen = len(restarts([each.host for each in hosts]))
        sick = psutil.Process(after[1]["broker-ewr-2"])
        sick.send_signal(signal.SIGSTOP)
        try:

            async def is_behind() -> bool:
                return not await all_in_sync(client, "t")

            await eventually(is_behind)
            stopped = await asyncio.to_thread(first.upgrade, "--back", "--timeout", "10", code=4)
        finally:
            sick.send_signal(signal.SIGCONT)
        assert stopped["state"] == "failed"
        (failed,) = (each for each in stopped["plan"]["hosts"] if each["state"] == "failed")
        assert failed["name"] == NAMES[2], "the last host goes back first"
        assert "is behind on broker 2" in failed["reason"]
        assert restarts([each.host for each in hosts])[seen:] == []
        await eventually(lambda: all_in_sync(client, "t"))
        document = await asyncio.to_thread(first.upgrade, "--back")
        assert (document["state"], document["plan"]["wanted"]) == ("done", "1.0")
        assert one_at_a_time(hosts, seen) == {"1", "2", "3"}
        assert await asyncio.to_thread(versions, [each.host for each in hosts]) == {"1.0"}

        await asyncio.gather(*(each.advance(20) for each in producers))
        for producer in producers:
            await producer.stop()
        for index, producer in enumerate(producers):
            values = [record.value async for record in read_topic(client, "t", partition=index)]
            assert values == producer.acknowledged
        async with KafkaClient(f"{NAMES[2]}:{nyc}") as target:
            for index, producer in enumerate(producers):
                await eventually(lambda: has_all(target, index, producer.acknowledged))  # noqa: B023


async def has_all(target: KafkaClient, partition: int, values: list[bytes]) -> bool:
    """Whether the copy holds the values, each once and in order."""
    return values == [
        record.value async for record in read_topic(target, "ewr.t", partition=partition)
    ]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[UpgradedHost]:
    host = UpgradedHost(tmp_path / "one", tmp_path / "topology.yaml", "127.0.0.1")
    yield host
    if host.state.path.exists():
        host.run("down", "--purge")


async def test_a_final_version_does_not_go_back(alone: UpgradedHost) -> None:
    ports = quiet_ports(2)
    alone.host.command.file.write_text(ONE_BROKER.format(*ports))
    file = str(alone.host.command.file)
    before = pids(alone.run("up", file))
    assert "no upgrade was begun" in alone.complain("upgrade", "--finalize")
    alone.install("2.0")
    document = await asyncio.to_thread(alone.upgrade)
    assert (document["state"], document["format_levels"]) == ("done", {"ewr": 1})
    status = alone.run("up", file)
    assert status["steps"] == [], "the upgrade did it"
    after = pids(status)
    assert (after["broker-ewr-1"], after["zookeeper-main"]) == (
        status["clusters"][0]["brokers"][0]["pid"],
        before["zookeeper-main"],
    )
    assert after["broker-ewr-1"] != before["broker-ewr-1"]

    assert alone.upgrade("--finalize")["state"] == "final"
    assert "is final" in alone.complain("upgrade", "--back")
    client = KazooClient(f"127.0.0.1:{ports[0]}/ewr")
    client.start()
    try:
        assert decode_level(client.get(LEVEL_PATH)[0]) == FORMAT_LEVEL
        # A newer version was made final meanwhile.
        client.set(LEVEL_PATH, encode_level(FORMAT_LEVEL + 1))
        refusal = alone.complain("up", file)
        assert "this version is too old for the data" in refusal
        os.kill(after["broker-ewr-1"], signal.SIGKILL)
        log_file = alone.state.log_file("broker-ewr-1")
        await eventually(lambda: "the cluster's formats have level 2" in log_file.read_text())
        client.set(LEVEL_PATH, encode_level(FORMAT_LEVEL))
        assert alone.run("up", file)["state"] == "running"
    finally:
        client.stop()
        client.close()
