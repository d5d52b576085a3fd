"""An edit of one link, on real processes: the other links of its workers go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import MapTopic, map_topic_name
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.mirror_process import read_records
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually
from topology.deployment.state_dir import StateDir

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: edited
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - {{name: jfk, brokers: [{{id: 1, port: {1}}}]}}
  - {{name: ewr, brokers: [{{id: 1, port: {2}}}]}}
  - name: nyc
    kind: aggregate
    mirror: {{workers: 2}}
    config: {{group.initial.rebalance.delay.ms: 0}}
    brokers: [{{id: 1, port: {3}}}]
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
  - {{source: ewr, target: nyc, topics: [flights]}}
"""
PARTITIONS = 4
EDITS = 4


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


def probe(command: HeliographCommand, link: str) -> dict[str, Any]:
    """What the aggregator says of the probe of a link."""
    file = StateDir(command.state_dir).ready_dir / "aggregator-nyc.json"
    port = json.loads(file.read_text())["http_port"]
    url = f"http://127.0.0.1:{port}/api/v1/probe?link={link}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)["links"][0]
    return found


def flows(command: HeliographCommand, link: str) -> dict[tuple[str, int], dict[str, Any]]:
    """What the workers say of each partition of a link."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for file in StateDir(command.state_dir).ready_dir.glob("mirror-*.json"):
        port = json.loads(file.read_text())["http_port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=20) as answer:
            links = json.load(answer)["links"]
        for flow in next(each for each in links if each["name"] == link)["flows"]:
            if flow["topic"] == "flights":  # not the probe's
                found[flow["topic"], flow["partition"]] = flow
    return found


async def epochs(target: KafkaClient, link: str) -> dict[tuple[str, int], int]:
    """The producer epoch of the copy of each partition: every process that takes it over, and
    every flow that starts, raises it."""
    state = MapTopic()
    async for record in read_topic(target, map_topic_name(link)):
        state.replay(record.key, record.value)
    opened = {flow: state.opening(flow) for flow in state.every_flow()}
    return {
        (flow.source_topic, flow.partition): opening.producer_epoch
        for flow, opening in opened.items()
        if opening is not None and flow.source_topic == "flights"
    }


class Feed:
    """Writes into every partition of `flights` until it is stopped."""

    def __init__(self, source: KafkaClient) -> None:
        self._source = source
        self._is_stopped = False
        self.written = 0

    def stop(self) -> None:
        """`run` ends when what it writes is acknowledged."""
        self._is_stopped = True

    async def run(self) -> None:
        while not self._is_stopped:
            for partition in range(PARTITIONS):
                value = b"%d" % self.written
                batch = encode_batch([NewRecord(1, None, value)])
                await produce_to(self._source, TopicPartition("flights", partition), batch)
                self.written += 1
            await asyncio.sleep(0.01)


async def copied(target: KafkaClient, topic: str) -> list[bytes | None]:
    """The values of all partitions of a copy; nothing while it does not exist."""
    return [
        record.value
        for each in range(PARTITIONS)
        for record in await read_records(target, TopicPartition(topic, each))
    ]


async def test_an_edit_of_one_link_leaves_the_others_as_they_run(
    command: HeliographCommand,
) -> None:
    ports = quiet_ports(4)
    text = TOPOLOGY.format(*ports)
    command.file.write_text(text)
    await asyncio.to_thread(command.up)
    async with (
        KafkaClient(f"127.0.0.1:{ports[1]}") as jfk,
        KafkaClient(f"127.0.0.1:{ports[2]}") as ewr,
        KafkaClient(f"127.0.0.1:{ports[3]}") as nyc,
    ):
        for source in (jfk, ewr):
            await source.create_topics(
                [NewTopic(name=each, partitions=PARTITIONS) for each in ("flights", "gates")]
            )
        for source in (jfk, ewr):
            for topic in ("flights", "gates"):
                batch = encode_batch([NewRecord(1, None, b"first")])
                await produce_to(source, TopicPartition(topic, 0), batch)
        feed = Feed(ewr)
        writing = asyncio.create_task(feed.run())

        async def all_run() -> bool:
            found = await asyncio.to_thread(flows, command, "ewr-nyc")
            copies = [each["records_copied"] for each in found.values()]
            # A link that finds its topics later has the workers share all flows anew.
            others = await asyncio.to_thread(flows, command, "jfk-nyc")
            return len(copies) == len(others) == PARTITIONS and min(copies) > 0

        await eventually(all_run)
        before = await asyncio.to_thread(flows, command, "ewr-nyc")
        epochs_before = await epochs(nyc, "ewr-nyc")
        processes = pids(await asyncio.to_thread(command.document, "status"))

        edit = "source: jfk, target: nyc, topics: [flights, gates]"
        edited = text.replace("source: jfk, target: nyc, topics: [flights]", edit)
        command.file.write_text(edited)
        plan = await asyncio.to_thread(command.run, "plan", str(command.file))
        steps = [(each["action"], each["key"]) for each in plan["steps"]]
        assert steps == [("reload", "mirror-nyc"), ("reload", "mirror-nyc.w2")]
        status = await asyncio.to_thread(command.up)
        assert pids(status) == processes

        async def gates_are_copied() -> bool:
            return await copied(nyc, "jfk.gates") == [b"first"]

        await eventually(gates_are_copied)
        after = await asyncio.to_thread(flows, command, "ewr-nyc")
        assert after.keys() == before.keys()
        for at, flow in after.items():
            # A flow that starts counts from 0, and raises the epoch of its copy.
            assert flow["records_copied"] > before[at]["records_copied"], at
            assert flow["restarts"] == before[at]["restarts"], at
        assert await epochs(nyc, "ewr-nyc") == epochs_before

        async def ewr_is_probed() -> bool:
            found = await asyncio.to_thread(probe, command, "ewr-nyc")
            return int(found["received"]) > 0

        await eventually(ewr_is_probed)
        probed = await asyncio.to_thread(probe, command, "ewr-nyc")
        gone = text.replace("  - {source: jfk, target: nyc, topics: [flights]}\n", "")
        command.file.write_text(gone)
        plan = await asyncio.to_thread(command.run, "plan", str(command.file))
        steps = [(each["action"], each["key"]) for each in plan["steps"]]
        reloading = ("mirror-nyc", "mirror-nyc.w2", "aggregator-nyc")
        assert steps == [("reload", key) for key in reloading]
        status = await asyncio.to_thread(command.up)
        assert [each["name"] for each in status["links"]] == ["ewr-nyc"]
        assert pids(status) == processes

        async def ewr_is_probed_on() -> bool:
            found = await asyncio.to_thread(probe, command, "ewr-nyc")
            return int(found["received"]) > int(probed["received"]) + 1

        await eventually(ewr_is_probed_on)
        now = await asyncio.to_thread(probe, command, "ewr-nyc")
        assert (now["run_id"], now["state"]) == (probed["run_id"], "ok")
        feed.stop()
        await writing
        expected = feed.written + 1  # and the first one

        async def all_is_copied() -> bool:
            return len(await copied(nyc, "ewr.flights")) >= expected

        # The workers share the flows that are left anew, so some of them may move.
        await eventually(all_is_copied)


async def test_a_link_that_is_edited_under_load_loses_and_doubles_nothing(
    command: HeliographCommand,
) -> None:
    """Each edit is of the link that copies; every second one has a worker killed in its midst."""
    ports = quiet_ports(4)
    text = TOPOLOGY.format(*ports)
    command.file.write_text(text)
    status = await asyncio.to_thread(command.up)
    async with (
        KafkaClient(f"127.0.0.1:{ports[1]}") as jfk,
        KafkaClient(f"127.0.0.1:{ports[3]}") as nyc,
    ):
        await jfk.create_topics([NewTopic(name="flights", partitions=PARTITIONS)])
        feed = Feed(jfk)
        writing = asyncio.create_task(feed.run())
        for edit in range(EDITS):
            wanted = f"source: jfk, target: nyc, topics: [flights, gates-{edit}]"
            command.file.write_text(
                text.replace("source: jfk, target: nyc, topics: [flights]", wanted)
            )
            applying = asyncio.create_task(asyncio.to_thread(command.up))
            if edit % 2:
                worker = ("mirror-nyc", "mirror-nyc.w2")[edit // 2 % 2]
                await reloading_or_done(command, worker, applying)
                os.kill(pids(status)[worker], signal.SIGKILL)
            status = await applying
        feed.stop()
        await writing
        expected = sorted(b"%d" % each for each in range(feed.written))

        async def all_is_copied() -> bool:
            return len(await copied(nyc, "jfk.flights")) >= len(expected)

        await eventually(all_is_copied)
        assert sorted(each or b"" for each in await copied(nyc, "jfk.flights")) == expected


async def reloading_or_done(
    command: HeliographCommand, worker: str, applying: asyncio.Task[Any]
) -> None:
    """Return when the settings of a worker have been written anew, or all is applied."""
    file = StateDir(command.state_dir).settings_dir / f"{worker}.json"
    before = file.read_text()
    while not applying.done() and file.read_text() == before:
        await asyncio.sleep(0.005)
