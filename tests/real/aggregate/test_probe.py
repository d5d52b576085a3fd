"""The probe with real processes: no fault under load, and every planted fault is reported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from aggregator.probe.clients import FETCH_WAIT_MS_MAX
from aggregator.probe.settings import ProbeSettings
from aggregator.settings import AggregatorSettings, LinkSettings
from local_cluster.client.admin.group_offsets import list_groups
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.probe import MERGED_PROBE_COPY, probe_topic_name
from spark_global.links import MirrorLink
from spark_global.source.maps import load_maps
from spark_global.views import Aggregate, global_topics
from tests.support.aggregator_process import running_aggregator
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.mirror_process import MirrorProcess, mirror, read_records
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 120.0
SOURCES = ("east", "west")
LINKS = tuple(f"{source}-all" for source in SOURCES)
COPY = TopicPartition(MERGED_PROBE_COPY, 0)
PER_BATCH = 50
ARRIVALS = 15
"""Of each link before it counts as well."""

TOPOLOGY = """\
name: probed
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - {{name: east, brokers: [{{id: 1, port: {1}}}], topic_defaults: {{partitions: 2}}}}
  - {{name: west, brokers: [{{id: 1, port: {2}}}], topic_defaults: {{partitions: 2}}}}
  - name: all
    kind: aggregate
    brokers: [{{id: 1, port: {3}}}]
    config: {{group.initial.rebalance.delay.ms: 0}}
    aggregator: {{port: {4}}}
links:
  - {{source: east, target: all, topics: [orders], merge: orders}}
  - {{source: west, target: all, topics: [orders], merge: orders}}
"""

Probes = dict[str, dict[str, Any]]


async def probes_at(session: aiohttp.ClientSession) -> Probes:
    """Return the aggregator's probes by link; empty while it does not respond."""
    try:
        async with session.get("/api/v1/probe") as answer:
            return {each["link"]: each for each in (await answer.json())["links"]}
    except (aiohttp.ClientError, ConnectionError):
        return {}


async def until(session: aiohttp.ClientSession, condition: Callable[[Probes], bool]) -> Probes:
    """Wait for a response of the aggregator; a failure shows the last one."""
    said: Probes = {}
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                said = await probes_at(session)
                if said and condition(said):
                    return said
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(said) from None


async def metrics_of(session: aiohttp.ClientSession) -> str:
    async with session.get("/metrics") as answer:
        return await answer.text()


def sample(name: str, link: str, value: float) -> str:
    source = link.partition("-")[0]
    return f'heliograph_probe_{name}{{datacenter="{source}",link="{link}"}} {value}\n'


def is_well(probe: dict[str, Any]) -> bool:
    return (probe["state"], probe["reason"]) == ("ok", None) and probe["received"] >= ARRIVALS


async def write_again(bootstrap: str, at: TopicPartition, record: Record, value: bytes) -> None:
    """Write into a copy with an independent client."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(
            at.topic, value, record.key, at.partition, timestamp_ms=record.timestamp_ms
        )
    finally:
        await producer.stop()


async def delete_all(bootstrap: str, at: TopicPartition) -> None:
    """Delete all records of a copy with an independent client."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        where = aiokafka.TopicPartition(at.topic, at.partition)
        await admin.delete_records({where: RecordsToDelete(before_offset=-1)})
    finally:
        await admin.close()


async def end_of(client: KafkaClient, at: TopicPartition, which: int = LATEST_TIMESTAMP) -> int:
    return (await client.list_offsets({at: which}))[at].offset


async def grows(client: KafkaClient, at: TopicPartition, count: int) -> None:
    """Wait until this many records were appended."""
    start = await end_of(client, at)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while await end_of(client, at) < start + count:
            await asyncio.sleep(0.05)


async def lose_some(
    sources: list[tuple[KafkaClient, TopicPartition]],
    target: KafkaClient,
    bootstrap: str,
    copy: TopicPartition,
    mirror_pid: int,
    aggregator_pid: int,
) -> None:
    """Delete records of each source from the copy before the probe reads them."""
    os.kill(mirror_pid, signal.SIGSTOP)
    try:
        for client, at in sources:
            await grows(client, at, 2)
        os.kill(aggregator_pid, signal.SIGSTOP)
        # What it has asked for is answered by then: its last record is on the source, and its long
        # poll is over.
        await asyncio.sleep(FETCH_WAIT_MS_MAX / 1000 + 0.5)
        ends = [await end_of(client, at) for client, at in sources]
        before = await end_of(target, copy)
    finally:
        os.kill(mirror_pid, signal.SIGCONT)
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while await end_of(target, copy) < before + 2 * len(sources):
                await asyncio.sleep(0.05)
        assert [await end_of(client, at) for client, at in sources] == ends
        await delete_all(bootstrap, copy)
        start, end = [
            await end_of(target, copy, at) for at in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        ]
        assert start == end
    finally:
        os.kill(aggregator_pid, signal.SIGCONT)


# -- two datacenters merged into one aggregate, by the command ------------------------------------


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


@contextlib.asynccontextmanager
async def load(clients: dict[str, KafkaClient]) -> AsyncIterator[dict[str, int]]:
    """Write to both sources at full speed while the context is open; yields the counts."""
    written = dict.fromkeys(SOURCES, 0)
    is_over = asyncio.Event()

    async def write(source: str) -> None:
        while not is_over.is_set():
            records = [NewRecord(1_000, None, source.encode() * 20)] * PER_BATCH
            at = TopicPartition("orders", written[source] // PER_BATCH % 2)
            await produce_to(clients[source], at, encode_batch(records, codec=3))
            written[source] += PER_BATCH

    async with asyncio.TaskGroup() as tasks:
        for source in SOURCES:
            tasks.create_task(write(source))
        try:
            yield written
        finally:
            is_over.set()


async def test_probes_of_merged_links_are_well_under_load_and_find_what_is_planted(
    command: HeliographCommand,
) -> None:
    zookeeper, *ports, http_port = quiet_ports(5)
    command.file.write_text(TOPOLOGY.format(zookeeper, *ports, http_port))
    running = pids(await asyncio.to_thread(command.up))
    bootstraps = {
        name: f"127.0.0.1:{port}" for name, port in zip((*SOURCES, "all"), ports, strict=True)
    }
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(KafkaClient(bootstrap))
            for name, bootstrap in bootstraps.items()
        }
        session = await stack.enter_async_context(
            aiohttp.ClientSession(f"http://127.0.0.1:{http_port}")
        )
        for source in SOURCES:
            topic = NewTopic(name="orders", partitions=2, replication_factor=1)
            assert set((await clients[source].create_topics([topic])).values()) == {None}
        async with load(clients) as written:
            await until(session, lambda probes: all(p["received"] > 2 for p in probes.values()))
            os.kill(running["mirror-all"], signal.SIGKILL)  # the supervisor starts it again
            said = await until(session, lambda probes: all(map(is_well, probes.values())))
        assert all(count > 0 for count in written.values()), written
        assert [said[link]["target_topic"] for link in LINKS] == [MERGED_PROBE_COPY] * 2
        copied = [record.key for record in await read_records(clients["all"], COPY)]
        assert {b"east-all", b"west-all"} == set(copied), "both run into one partition"

        async with asyncio.timeout(WAIT_SECONDS_MAX):
            states = ["catching_up"]  # until the last records of the load are copied
            while "catching_up" in states:
                status = await asyncio.to_thread(command.run, "status")
                assert status["state"] == "running"
                assert [link["probe"]["state"] for link in status["links"]] == ["ok"] * 2, status
                states = [link["state"] for link in status["links"]]
        assert states == ["running"] * 2
        for link in status["links"]:
            assert (link["topics"], link["partitions"]) == (1, 2)
        await _check_that_nobody_sees_them(session, clients, bootstraps)

        # One record of the copy is there twice.
        victim = next(
            record
            for record in reversed(await read_records(clients["all"], COPY))
            if record.key == b"east-all"
        )
        assert victim.value is not None
        await write_again(bootstraps["all"], COPY, victim, victim.value)
        said = await until(session, lambda probes: probes["east-all"]["doubled"] == 1)
        sequence = int(victim.value.split()[3])
        reason = f"1 record doubled (sequence number {sequence})"
        assert (said["east-all"]["state"], said["east-all"]["reason"]) == ("degraded", reason)
        assert said["west-all"]["state"] == "ok"
        metrics = await metrics_of(session)
        for name, link, value in (
            ("doubled_records_total", "east-all", 1.0),
            ("degraded", "east-all", 1.0),
            ("doubled_records_total", "west-all", 0.0),
            ("degraded", "west-all", 0.0),
        ):
            assert sample(name, link, value) in metrics
        status = await asyncio.to_thread(lambda: command.run("status", code=4))
        east, west = status["links"]
        assert (status["state"], east["state"], west["state"]) == (
            "degraded",
            "degraded",
            "running",
        )
        assert (east["probe"]["reason"], east["probe"]["doubled"]) == (reason, 1)

        # `up` has no reason to wait for that; a new run of the aggregator begins without fault.
        assert (await asyncio.to_thread(command.up))["state"] == "running"
        os.kill(running["aggregator-all"], signal.SIGKILL)
        runs = {probe["run_id"] for probe in said.values()}
        said = await until(
            session,
            lambda probes: all(
                is_well(probe) and probe["run_id"] not in runs for probe in probes.values()
            ),
        )

        # Some records of both links never come to a reader of the copy.
        status = await asyncio.to_thread(command.run, "status")
        sources = [
            (clients[source], TopicPartition(probe_topic_name(f"{source}-all"), 0))
            for source in SOURCES
        ]
        where = clients["all"], bootstraps["all"], COPY
        daemons = pids(status)
        await lose_some(sources, *where, daemons["mirror-all"], daemons["aggregator-all"])
        said = await until(
            session, lambda probes: all(probe["lost"] > 0 for probe in probes.values())
        )
        lost: list[int] = []
        while lost != [said[link]["lost"] for link in LINKS]:  # it counts more of them meanwhile
            lost = [said[link]["lost"] for link in LINKS]
            metrics = await metrics_of(session)
            status = await asyncio.to_thread(lambda: command.run("status", code=4))
            said = await until(session, lambda probes: len(probes) == len(LINKS))
        for link in status["links"]:
            probe = said[link["name"]]
            assert (link["state"], probe["state"]) == ("degraded", "degraded")
            assert (link["probe"]["lost"], link["probe"]["doubled"]) == (probe["lost"], 0)
            assert link["probe"]["reason"].startswith(f"{probe['lost']} records lost (sequence")
            assert sample("lost_records", link["name"], float(probe["lost"])) in metrics


async def _check_that_nobody_sees_them(
    session: aiohttp.ClientSession, clients: dict[str, KafkaClient], bootstraps: dict[str, str]
) -> None:
    """Check that no catalog, lag, view or map shows a probe topic, and that no group reads one."""
    async with session.get("/api/v1/topics") as answer:
        topics = await answer.json()
    assert [each["name"] for each in topics["topics"]] == ["orders"]
    assert topics["local"] == []
    async with session.get("/api/v1/lag") as answer:
        lags = (await answer.json())["links"]
    assert [each["partitions_known"] for each in lags] == [2, 2]
    assert {part["topic"] for each in lags for part in each["partitions"]} == {"orders"}
    async with session.get("/api/v1/links") as answer:
        links = (await answer.json())["links"]
    assert [each["map"]["partitions"] for each in links] == [2, 2]
    aggregate = Aggregate(
        name="all",
        bootstrap=bootstraps["all"],
        links=tuple(
            MirrorLink(name=f"{source}-all", source=source, datacenter=source) for source in SOURCES
        ),
    )
    assert await asyncio.to_thread(global_topics, aggregate) == ["orders"]
    assert {at.topic for at in await load_maps(clients["all"])} == {"orders"}
    groups = {name: sorted(await list_groups(client)) for name, client in clients.items()}
    assert groups == {"east": [], "west": [], "all": ["heliograph-mirror-all"]}


# -- one link with prefixed names, with short limits -----------------------------------------------

LINK = "a-b"
PROBE = TopicPartition(probe_topic_name(LINK), 0)
PREFIXED = TopicPartition(f"a.{PROBE.topic}", 0)
QUICK = ProbeSettings(
    interval_ms=100, late_ms=500, lost_ms=1_000, silent_ms=2_000, send_ms_max=2_000, reopen_ms=3_000
)


@dataclass
class World:
    """Cluster `a` and aggregate `b`, the link between them, and the files of the aggregator."""

    source: BrokerProcess
    target: BrokerProcess
    source_client: KafkaClient
    client: KafkaClient
    worker: MirrorProcess
    directory: Path

    @property
    def settings(self) -> AggregatorSettings:
        return AggregatorSettings(
            aggregate="b",
            bootstrap=self.target.bootstrap,
            links=(
                LinkSettings(
                    name=LINK,
                    datacenter="a",
                    source="a",
                    source_bootstrap=self.source.bootstrap,
                    probe=True,
                ),
            ),
            probe=QUICK,
            ready_file=str(self.directory / "ready.json"),
        )


@pytest.fixture
async def world(zookeeper: str, tmp_path: Path) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(
                running_broker(zookeeper, tmp_path / cluster, cluster=cluster)
            )
            for cluster in ("a", "b")
        ]
        source_client = await stack.enter_async_context(KafkaClient(source.bootstrap))
        client = await stack.enter_async_context(KafkaClient(target.bootstrap))
        worker = await stack.enter_async_context(
            mirror(tmp_path, source.bootstrap, target.bootstrap, probe=True)
        )
        yield World(source, target, source_client, client, worker, tmp_path)


async def test_silence_loss_and_alteration_on_a_link_with_prefixed_names(world: World) -> None:
    async with running_aggregator(world.settings, world.directory) as (process, session):
        said = await until(session, lambda probes: is_well(probes[LINK]))
        assert said[LINK]["target_topic"] == PREFIXED.topic
        configs = await world.source_client.ask_topic_configs([PROBE.topic])
        found = configs[PROBE.topic]
        assert not isinstance(found, KafkaError)
        assert found["retention.ms"][0] == str(QUICK.window_ms)

        # A stopped mirror: nothing is lost, it is only late.
        assert world.worker.process is not None
        world.worker.process.send_signal(signal.SIGSTOP)
        said = await until(session, lambda probes: probes[LINK]["state"] == "degraded")
        world.worker.process.send_signal(signal.SIGCONT)
        assert said[LINK]["reason"].startswith("nothing has arrived for 2 s, ")
        assert said[LINK]["late"] > 0
        received = said[LINK]["received"]
        said = await until(
            session,
            lambda probes: is_well(probes[LINK]) and probes[LINK]["received"] > received + 20,
        )
        assert (said[LINK]["lost"], said[LINK]["out_of_order"]) == (0, 0)

        # A record of the copy that is not as it was sent.
        record = (await read_records(world.client, PREFIXED))[-1]
        assert record.value is not None
        altered = record.value.replace(b"heliograph", b"heliostat ", 1)
        await write_again(world.target.bootstrap, PREFIXED, record, altered)
        said = await until(session, lambda probes: probes[LINK]["altered"] > 0)
        assert said[LINK]["state"] == "degraded"
        assert "record altered" in said[LINK]["reason"]

        await lose_some(
            [(world.source_client, PROBE)],
            world.client,
            world.target.bootstrap,
            PREFIXED,
            world.worker.process.pid,
            process.pid,
        )
        said = await until(session, lambda probes: probes[LINK]["lost"] > 0)
        assert f"{said[LINK]['lost']} records lost (sequence number" in said[LINK]["reason"]


async def test_an_aggregator_is_ready_without_its_source_and_probes_it_when_it_comes(
    world: World,
) -> None:
    await world.source.kill()
    async with running_aggregator(world.settings, world.directory) as (process, session):
        async with session.get("/readyz") as answer:
            assert answer.status == 200
        said = await until(session, lambda probes: probes[LINK]["state"] == "degraded")
        assert f"sending to {PROBE.topic} at a: " in said[LINK]["reason"]
        async with session.get("/readyz") as answer:
            assert answer.status == 200
        await world.source.start()
        await until(session, lambda probes: is_well(probes[LINK]))

        # Killed in mid-stream: what is unknown may have landed or not, and is neither fault.
        await world.source.kill()
        await until(session, lambda probes: probes[LINK]["state"] == "degraded")
        received = said[LINK]["received"]
        await world.source.start()
        said = await until(
            session,
            lambda probes: is_well(probes[LINK]) and probes[LINK]["received"] > received + ARRIVALS,
        )
        faults = ("lost", "doubled", "out_of_order", "altered")
        assert [said[LINK][fault] for fault in faults] == [0, 0, 0, 0]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, WAIT_SECONDS_MAX) == 0


async def test_the_reader_goes_on_after_the_aggregate_was_away(world: World) -> None:
    """After the aggregate was killed and started, the reader continues at the same offset."""
    async with running_aggregator(world.settings, world.directory) as (_, session):
        await until(session, lambda probes: is_well(probes[LINK]))
        await world.target.kill()
        said = await until(session, lambda probes: probes[LINK]["state"] == "degraded")
        received = said[LINK]["received"]
        await world.target.start()
        said = await until(
            session,
            lambda probes: is_well(probes[LINK]) and probes[LINK]["received"] > received + ARRIVALS,
        )
        faults = ("lost", "doubled", "out_of_order", "altered")
        assert [said[LINK][fault] for fault in faults] == [0, 0, 0, 0]
