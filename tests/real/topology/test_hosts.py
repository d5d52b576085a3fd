"""One topology on several hosts, which loopback addresses 127.0.1.x stand for.

Every host has a state directory of its own, and `--host` says which of the hosts it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.mirror_process import read_records
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports, quiet_range
from tests.support.replicas import all_in_sync, eventually

pytestmark = pytest.mark.real


class Host:
    """One host with its state directory."""

    def __init__(self, directory: Path, file: Path, name: str) -> None:
        directory.mkdir()
        self.name = name
        self.command = HeliographCommand(directory)
        self.command.file = file

    def up(self) -> Any:
        return self.command.run("up", str(self.command.file), "--host", self.name)

    def plan_of_an_edit(self) -> Any:
        """Return what `plan` says of the file with another setting; the file stays as it is."""
        edited = self.command.file.with_name("edited.yaml")
        text = self.command.file.read_text()
        edited.write_text(text.replace("rebalance.delay.ms: 0", "rebalance.delay.ms: 7"))
        assert edited.read_text() != text
        return self.command.run("plan", str(edited), "--host", self.name)

    def status(self) -> Any:
        return self.command.document("status")

    def down(self) -> None:
        self.command.run("down")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    names = [f"127.0.1.{number}" for number in (1, 2, 3)]
    found = [Host(tmp_path / name, tmp_path / "topology.yaml", name) for name in names]
    yield found
    for host in found:
        if host.command.state_dir.exists():
            host.command.run("down", "--purge")


TWO_HOSTS = """\
name: two
zookeepers:
  - {{name: ewr, host: 127.0.1.1, port: {0}}}
  - {{name: nyc, host: 127.0.1.2, port: {1}}}
clusters:
  - name: ewr
    zookeeper: {{embedded: ewr}}
    brokers: [{{id: 1, host: 127.0.1.1, port: {2}}}]
  - name: nyc
    zookeeper: {{embedded: nyc}}
    brokers: [{{id: 1, host: 127.0.1.2, port: {3}}}]
    config: {{group.initial.rebalance.delay.ms: 0}}
    mirror: {{workers: 2}}
links:
  - {{source: ewr, target: nyc, topics: [flights]}}
"""


@pytest.mark.long
async def test_a_mirror_between_two_hosts_outlives_a_stop_of_either(hosts: list[Host]) -> None:
    first, second, _ = hosts
    ports = quiet_ports(4)
    first.command.file.write_text(TWO_HOSTS.format(*ports))
    ewr, nyc = f"127.0.1.1:{ports[2]}", f"127.0.1.2:{ports[3]}"

    early = second.up()
    assert early["state"] == "waiting", "its link has no source yet"
    assert {each["key"]: each["state"] for each in early["elsewhere"]} == {
        "zookeeper-ewr": "not_started",
        "broker-ewr-1": "not_started",
    }
    assert "broker 1 of ewr on 127.0.1.1: not started yet" in early["problems"][0]["reason"]
    begun = pids(early)
    workers = {"mirror-nyc", "mirror-nyc.w2"}
    assert set(begun) == {"zookeeper-nyc", "broker-nyc-1", *workers}

    status = first.up()
    assert status["state"] == "running"
    assert set(pids(status)) == {"zookeeper-ewr", "broker-ewr-1"}
    (link,) = status["links"]
    assert (link["state"], status["problems"]) == ("elsewhere", [])

    async with KafkaClient(ewr) as source, KafkaClient(nyc) as target:
        await source.create_topics([NewTopic(name="flights", partitions=1)])
        await produce(source, "flights", [b"a", b"b"])
        await eventually(lambda: has_values(target, "ewr.flights", [b"a", b"b"]))
    assert second.up()["state"] == "running"
    assert pids(second.status()) == begun, "`up` of one host starts and stops nothing of another"

    first.down()
    assert all(psutil.pid_exists(pid) for pid in begun.values())

    async def link_waits() -> bool:
        """The worker notices a moment later that its source is gone."""
        alone = await asyncio.to_thread(second.status)
        assert pids(alone) == begun
        return bool(alone["links"][0]["waits_for"])

    await eventually(link_waits)
    again = first.up()
    assert set(pids(again)).isdisjoint(begun)
    async with KafkaClient(ewr) as source, KafkaClient(nyc) as target:
        await produce(source, "flights", [b"c"])
        await eventually(lambda: has_values(target, "ewr.flights", [b"a", b"b", b"c"]))
    assert pids(second.status()) == begun

    text = first.command.file.read_text().replace("topics: [flights]", "topics: [flights, gates]")
    first.command.file.write_text(text)
    assert pids(second.up()) == begun, "an edit of a link restarts nothing"
    assert pids(first.up()) == pids(again)
    async with KafkaClient(ewr) as source, KafkaClient(nyc) as target:
        await source.create_topics([NewTopic(name="gates", partitions=1)])
        await produce(source, "gates", [b"a"])
        await eventually(lambda: has_values(target, "ewr.gates", [b"a"]))


@pytest.mark.long
async def test_a_link_is_paused_and_resumed_from_a_host_without_a_worker(
    hosts: list[Host],
) -> None:
    first, second, _ = hosts
    *ports, http = quiet_ports(5)
    text = TWO_HOSTS.format(*ports).replace("workers: 2", f"host: {second.name}, port: {http}")
    first.command.file.write_text(text + "http_security: {allow_insecure: true}\n")
    second.up()
    status = first.up()
    assert "mirror-nyc" not in pids(status)
    (link,) = status["links"]

    async def link_runs() -> bool:
        """A worker that looks for its source cannot be paused."""
        return bool(second.status()["links"][0]["state"] == "running")

    await eventually(link_runs)
    first.command.run("mirror", "pause", "--link", link["name"])
    assert second.command.document("status")["links"][0]["state"] == "held"
    first.command.run("mirror", "resume", "--link", link["name"])
    assert second.up()["state"] == "running"
    second.down()
    refusal = first.command.complain("mirror", "pause", "--link", link["name"])
    assert "does not run" in refusal


async def produce(client: KafkaClient, topic: str, values: list[bytes]) -> None:
    batch = encode_batch([NewRecord(0, None, value) for value in values])
    await produce_to(client, TopicPartition(topic, 0), batch)


async def has_values(client: KafkaClient, topic: str, values: list[bytes]) -> bool:
    if topic not in (await client.metadata()).topics:
        return False
    records = await read_records(client, TopicPartition(topic, 0))
    return [each.value for each in records] == values


def test_a_state_directory_belongs_to_one_host(hosts: list[Host]) -> None:
    first, second, _ = hosts
    first.command.file.write_text(TWO_HOSTS.format(*quiet_ports(4)))
    file = str(first.command.file)
    plan = first.command.run("plan", file, "--host", first.name)
    assert [each["key"] for each in plan["steps"]] == ["zookeeper-ewr", "broker-ewr-1"]
    assert [each["host"] for each in plan["elsewhere"]] == [second.name] * 4
    refusal = first.command.complain("plan", file, "--host", "127.0.1.11")
    assert "did you mean '127.0.1.1'" in refusal
    of_nyc = first.command.run("plan", file, "--datacenter", "nyc")
    assert {each["key"] for each in of_nyc["steps"]} == {
        "zookeeper-nyc",
        "broker-nyc-1",
        "mirror-nyc",
        "mirror-nyc.w2",
    }
    both = ("--host", "127.0.1.1", "--datacenter", "nyc")
    assert "not both" in first.command.complain("plan", file, *both, code=2)


THREE_HOSTS = """\
name: three
zookeepers:
  - {{name: main, port: {0}, hosts: [127.0.1.1, 127.0.1.2, 127.0.1.3]}}
clusters:
  - name: ewr
    zookeeper: {{embedded: main, chroot: /ewr}}
    brokers:
      - {{id: 1, host: 127.0.1.1, port: {1}}}
      - {{id: 2, host: 127.0.1.2, port: {1}}}
      - {{id: 3, host: 127.0.1.3, port: {1}}}
    topic_defaults: {{partitions: 2, replication_factor: 3, config: {{min.insync.replicas: 2}}}}
  - name: nyc
    zookeeper: {{embedded: main, chroot: /nyc}}
    brokers: [{{id: 1, host: 127.0.1.3, port: {2}}}]
    config: {{group.initial.rebalance.delay.ms: 0}}
    mirror: {{hosts: [127.0.1.2, 127.0.1.3]}}
links:
  - {{source: ewr, target: nyc, topics: [flights]}}
"""


@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_an_ensemble_and_a_cluster_over_three_hosts_lose_one_and_get_it_back(
    hosts: list[Host],
) -> None:
    first = hosts[0]
    zookeeper, ports = quiet_range(3), quiet_ports(2)
    first.command.file.write_text(THREE_HOSTS.format(zookeeper[0], *ports))
    alone = first.up()
    assert alone["state"] == "waiting", "one node of three has no majority"
    assert "node 2 on 127.0.1.2: not started yet" in alone["problems"][0]["reason"]
    assert hosts[1].up()["state"] in ("running", "waiting")
    assert hosts[2].up()["state"] == "running"
    assert first.plan_of_an_edit()["file"]["state"] == "advance", "it has applied the file before"
    assert [host.up()["state"] for host in hosts] == ["running"] * 3
    running = [pids(host.status()) for host in hosts]
    assert [set(each) for each in running] == [
        {"zookeeper-main.1", "broker-ewr-1"},
        {"zookeeper-main.2", "broker-ewr-2", "mirror-nyc.127.0.1.2"},
        {"zookeeper-main.3", "broker-ewr-3", "broker-nyc-1", "mirror-nyc.127.0.1.3"},
    ]

    ewr = ",".join(f"127.0.1.{number}:{ports[0]}" for number in (1, 2, 3))
    async with KafkaClient(ewr) as source, KafkaClient(f"127.0.1.3:{ports[1]}") as target:
        await source.create_topics([NewTopic(name="flights", partitions=1)])
        await eventually(lambda: all_in_sync(source, "flights"))
        await produce(source, "flights", [b"a"])
        await eventually(lambda: has_values(target, "ewr.flights", [b"a"]))

        hosts[1].down()
        for index in (0, 2):
            assert pids(hosts[index].status()) == running[index], "`down` of one host is its own"
        left = ",".join(f"127.0.1.{number}:{ports[0]}" for number in (1, 3))
        async with KafkaClient(left) as source_left:  # `source` may ask the broker that went
            await produce(source_left, "flights", [b"b"])
        await eventually(lambda: has_values(target, "ewr.flights", [b"a", b"b"]))

        assert hosts[1].up()["state"] == "running"
        await eventually(lambda: all_in_sync(source, "flights"))
        await produce(source, "flights", [b"c"])
        await eventually(lambda: has_values(target, "ewr.flights", [b"a", b"b", b"c"]))
    for index in (0, 2):
        assert pids(hosts[index].status()) == running[index]
