"""The aggregator as a process, over real brokers and real offset maps."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import aiokafka
import pytest

from aggregator.audit.log_audit import audit_topic
from aggregator.audit.reconciliation import AuditReport
from aggregator.settings import AggregatorSettings, LinkSettings
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.http_security.settings import HttpSecurity
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import map_topic_name
from mirror_maker.settings import LinkSettings as MirrorLink
from mirror_maker.settings import MirrorSettings, dump_settings
from tests.support.aggregator_process import START_SECONDS_MAX
from tests.support.aggregator_process import running_aggregator as aggregator_process
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once
from tests.unit.aggregator.fakes import opening_and_block

pytestmark = pytest.mark.real

LINK = "jfk-nyc"
OFFSET_SHIFT = 3
"""The copy begins at this offset, as if others had written before."""


@dataclass
class World:
    """A source cluster, an aggregate, clients of both, and the files of one aggregator."""

    source: BrokerProcess
    aggregate: BrokerProcess
    source_client: KafkaClient
    client: KafkaClient
    directory: Path

    def settings(self, *links: str) -> AggregatorSettings:
        return AggregatorSettings(
            aggregate="nyc",
            bootstrap=self.aggregate.bootstrap,
            links=tuple(
                LinkSettings(
                    name=f"{source}-nyc",
                    datacenter=source,
                    source=source,
                    source_bootstrap=self.source.bootstrap,
                )
                for source in links
            ),
            ready_file=str(self.directory / "ready.json"),
        )

    async def produce(
        self, client: KafkaClient, topic: str, records: Sequence[tuple[bytes | None, bytes]]
    ) -> None:
        at = TopicPartition(topic, 0)
        leader = (await client.metadata([topic])).topics[topic].partitions[0].leader
        batch = encode_batch([NewRecord(1_357_000_000_000, *record) for record in records], codec=3)
        produced = await produce_once(client, leader, at, batch)
        assert not produced.error, produced

    async def create(self, client: KafkaClient, *topics: str, **configs: str) -> None:
        created = await client.create_topics(
            [
                NewTopic(name=name, partitions=1, replication_factor=1, configs=configs)
                for name in topics
            ]
        )
        assert set(created.values()) == {None}, created

    async def publish_map(self, *runs: tuple[int, int, int]) -> None:
        """Publish what the link would after copying these runs (source, target, count)."""
        source = (await self.source_client.metadata(["flights"])).topics["flights"].topic_id
        target = (await self.client.metadata(["jfk.flights"])).topics["jfk.flights"].topic_id
        assert source is not None
        assert target is not None
        records = opening_and_block(
            "flights", 0, "jfk.flights", target, runs, source_topic_id=source
        )
        await self.produce(self.client, map_topic_name(LINK), records)

    async def audit(self, topic: str = "flights") -> AuditReport:
        return await audit_topic(
            self.source_client,
            self.client,
            datacenter="jfk",
            topic=topic,
            target_topic=f"jfk.{topic}",
        )


@pytest.fixture
async def world(zookeeper: str, tmp_path: Path) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        source, aggregate = [
            await stack.enter_async_context(
                running_broker(zookeeper, tmp_path / cluster, cluster=cluster)
            )
            for cluster in ("jfk", "nyc")
        ]
        source_client = await stack.enter_async_context(KafkaClient(source.bootstrap))
        client = await stack.enter_async_context(KafkaClient(aggregate.bootstrap))
        world = World(source, aggregate, source_client, client, tmp_path)
        await world.create(source_client, "flights")
        await world.create(client, "jfk.flights")
        yield world


@contextlib.contextmanager
def running_mirror(
    world: World, worker_id: str = "worker-1", *, machine: str | None = None
) -> Iterator[Path]:
    """`python -m mirror_maker` with the link from the source into the aggregate; its ready file.

    With a `machine` it believes to be there, and serves on all of its addresses.
    """
    program = ["-m", "mirror_maker"]
    if machine is not None:
        told = f"import socket; socket.gethostname = lambda: {machine!r}"
        program = [
            "-c",
            f"{told}; import mirror_maker.worker.process as m; raise SystemExit(m.main())",
        ]
    settings = MirrorSettings(
        worker_id=worker_id,
        http_host="127.0.0.1" if machine is None else "0.0.0.0",
        http_security=HttpSecurity(allow_insecure=True),
        target_alias="nyc",
        target_bootstrap=world.aggregate.bootstrap,
        links=(MirrorLink(name=LINK, source_alias="jfk", source_bootstrap=world.source.bootstrap),),
        ready_file=str(world.directory / f"{worker_id}-ready.json"),
    )
    path = world.directory / f"{worker_id}.json"
    path.write_bytes(dump_settings(settings))
    with (world.directory / f"{worker_id}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *program, "--settings", str(path)],
            stderr=log,
            cwd=Path(__file__).parents[3],
        )
    try:
        yield Path(settings.ready_file)
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def running_aggregator(
    world: World, *links: str
) -> AsyncIterator[tuple[subprocess.Popen[bytes], aiohttp.ClientSession]]:
    """Run an aggregator with links from these sources."""
    async with aggregator_process(world.settings(*links), world.directory) as running:
        yield running


async def _get(session: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with session.get(path) as response:
        return response.status, await response.json()


async def _translate(session: aiohttp.ClientSession, offset: int) -> tuple[str, int | None]:
    status, document = await _get(
        session, f"/api/v1/translate?link={LINK}&topic=flights&partition=0&offset={offset}"
    )
    assert status == 200, document
    return document["state"], document["target_offset"]


async def _await_translation(session: aiohttp.ClientSession, offset: int, target: int) -> None:
    """Wait until the answer is exact; 503 in between says that the map is being read."""
    async with asyncio.timeout(START_SECONDS_MAX):
        while True:
            status, document = await _get(
                session, f"/api/v1/translate?link={LINK}&topic=flights&partition=0&offset={offset}"
            )
            assert status in (200, 503), document
            if status == 200 and document["state"] == "exact":
                assert document["target_offset"] == target
                return
            await asyncio.sleep(0.02)


async def test_translation_follows_the_link_and_survives_its_source(world: World) -> None:
    async with running_aggregator(world, "jfk", "ewr") as (process, session):
        # No link has started: nothing is an error, everything is pending.
        assert await _get(session, "/readyz") == (200, {"ready": True})
        assert await _translate(session, 0) == ("pending", None)

        await world.create(world.client, map_topic_name(LINK), **{"cleanup.policy": "compact"})
        await world.publish_map((0, OFFSET_SHIFT, 10))
        await _await_translation(session, 5, 5 + OFFSET_SHIFT)
        assert await _translate(session, 11) == ("pending", None)

        await world.publish_map((0, OFFSET_SHIFT, 10), (12, OFFSET_SHIFT + 10, 8))
        await _await_translation(session, 15, 15 + OFFSET_SHIFT - 2)
        # 10 and 11 were not copied: whoever stands there reads on with the copy of 12.
        assert await _translate(session, 11) == ("exact", OFFSET_SHIFT + 10)

        status, document = await _get(
            session, f"/api/v1/translate/reverse?topic=jfk.flights&partition=0&offset={15}"
        )
        assert (status, document["offset"]) == (200, 14)

        await world.source.kill()
        assert await _translate(session, 15) == ("exact", 15 + OFFSET_SHIFT - 2)
        assert (await _get(session, "/readyz"))[0] == 200
        status, document = await _get(session, f"/api/v1/groups/translate?link={LINK}&group=boards")
        assert status == 502, document

        async with session.get("/metrics") as response:
            text = await response.text()
        assert f'heliograph_offset_map_ready{{datacenter="jfk",link="{LINK}"}} 1.0' in text

        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, START_SECONDS_MAX) == 0
        assert not Path(world.settings().ready_file).exists()


async def test_map_is_read_anew_after_a_restart_of_the_aggregate(world: World) -> None:
    await world.create(world.client, map_topic_name(LINK), **{"cleanup.policy": "compact"})
    await world.publish_map((0, OFFSET_SHIFT, 10))
    async with running_aggregator(world, "jfk") as (_, session):
        assert await _translate(session, 9) == ("exact", 9 + OFFSET_SHIFT)
        await world.aggregate.kill()
        assert await _translate(session, 9) == ("exact", 9 + OFFSET_SHIFT)
        await world.aggregate.start()
        await world.publish_map((0, OFFSET_SHIFT, 20))
        await _await_translation(session, 19, 19 + OFFSET_SHIFT)


async def test_what_a_real_mirror_publishes_is_exact_and_audited(world: World) -> None:
    await world.create(world.source_client, "gates")
    flights = [(b"UA", f"flight {n}".encode()) for n in range(60)]
    for start in range(0, 60, 20):
        await world.produce(world.source_client, "gates", flights[start : start + 20])
    with running_mirror(world):
        async with running_aggregator(world, "jfk") as (_, session):
            path = f"/api/v1/translate?link={LINK}&topic=gates&partition=0&offset=60"
            async with asyncio.timeout(START_SECONDS_MAX):
                # 404 until the mirror has made the topic, 503 while its map is read.
                while (await _get(session, path))[1].get("state") != "exact":
                    await asyncio.sleep(0.05)
            for offset in (0, 19, 20, 59, 60):
                _, answer = await _get(session, path.replace("=60", f"={offset}"))
                assert (answer["state"], answer["target_offset"]) == ("exact", offset)
                assert answer["target_topic"] == "jfk.gates"
            _, beyond = await _get(session, path.replace("=60", "=61"))
            assert (beyond["state"], beyond["target_offset"]) == ("pending", None)
            async with asyncio.timeout(START_SECONDS_MAX):
                # UNVERIFIED until the mirror has read its copies back.
                while (audit := await _audit(session, "gates"))["records"] != {"COMPLETE": 60}:
                    assert audit["records"].keys() <= {"COMPLETE", "UNVERIFIED"}, audit
                    await asyncio.sleep(0.05)
            assert (audit["is_well"], audit["findings"], audit["age_seconds"]) == (True, 0, 0.0)
            (part,) = audit["partitions"]
            assert (part["target_topic"], part["audited_to"]) == ("jfk.gates", 60)
            assert {row["verdict"] for row in part["rows"]} == {"COMPLETE"}
            async with asyncio.timeout(START_SECONDS_MAX):
                # Unknown until the worker has been asked; then nothing is behind.
                while (await _get(session, "/api/v1/lag"))[1]["links"][0]["records"] != 0:
                    await asyncio.sleep(0.05)
        report = await world.audit("gates")
    assert report.line() == "audit: 60 produced, 60 mirrored, 0 lost, 0 duplicated"
    assert report.is_faultless


async def _audit(session: aiohttp.ClientSession, topic: str) -> Any:
    """Return the audit of the link for one topic."""
    _, document = await _get(session, f"/api/v1/audit?link={LINK}&topic={topic}")
    return document["links"][0]


async def test_lag_is_put_together_from_workers_on_several_machines(world: World) -> None:
    """Each worker reports only its own partitions, so without one of them the lag is unknown."""
    gates = NewTopic(name="gates", partitions=4, replication_factor=1)
    assert set((await world.source_client.create_topics([gates])).values()) == {None}
    await world.produce(world.source_client, "gates", [(b"UA", b"flight 1")])
    async with contextlib.AsyncExitStack() as stack:
        ready_files = [
            stack.enter_context(running_mirror(world)),
            stack.enter_context(running_mirror(world, "worker-2", machine="elsewhere")),
        ]
        _, session = await stack.enter_async_context(running_aggregator(world, "jfk"))
        async with asyncio.timeout(START_SECONDS_MAX):
            while not all([await _copies(ready_file) for ready_file in ready_files]):
                await asyncio.sleep(0.05)
            while True:
                (link,) = (await _get(session, "/api/v1/lag"))[1]["links"]
                if link["records"] == 0:
                    break
                await asyncio.sleep(0.05)
    assert len(link["partitions"]) == link["partitions_known"] == 4 + 1


async def _copies(ready_file: Path) -> bool:
    """Return whether a worker has partitions to copy."""
    if not ready_file.exists():
        return False
    port = json.loads(ready_file.read_text())["http_port"]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        _, worker = await _get(session, "/status")
    return bool(worker["links"][0]["partitions"] > 0)


async def test_group_of_a_real_consumer_is_translated(world: World) -> None:
    await world.create(world.client, map_topic_name(LINK), **{"cleanup.policy": "compact"})
    await world.produce(
        world.source_client, "flights", [(b"UA", str(n).encode()) for n in range(10)]
    )
    await world.publish_map((0, OFFSET_SHIFT, 10))
    consumer = aiokafka.AIOKafkaConsumer(
        "flights",
        bootstrap_servers=world.source.bootstrap,
        group_id="boards",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        for _ in range(4):
            await consumer.getone()
        await consumer.commit({aiokafka.TopicPartition("flights", 0): 4})
    finally:
        await consumer.stop()
    async with running_aggregator(world, "jfk") as (_, session):
        status, document = await _get(session, f"/api/v1/groups/translate?link={LINK}&group=boards")
    assert status == 200, document
    assert document["exact"] is True
    (part,) = document["partitions"]
    assert (part["offset"], part["target_topic"]) == (4, "jfk.flights")
    assert part["target_offset"] == 4 + OFFSET_SHIFT


async def test_merged_topics_of_the_running_cluster(world: World) -> None:
    await world.create(world.client, "ewr.flights", "reports")
    async with running_aggregator(world, "jfk", "ewr") as (_, session):
        async with asyncio.timeout(START_SECONDS_MAX):
            while not (await _get(session, "/api/v1/topics"))[1]["local"]:
                await asyncio.sleep(0.05)
        _, document = await _get(session, "/api/v1/topics")
        async with session.get("/") as response:
            page = await response.text()
    (flights,) = document["topics"]
    assert [part["topic"] for part in flights["parts"]] == ["ewr.flights", "jfk.flights"]
    assert document["local"] == [{"name": "reports", "partitions": 1}]
    assert "ewr.flights" in page


async def test_audit_of_real_logs_names_what_is_wrong(world: World) -> None:
    flights = [(b"UA", f"flight {n}".encode()) for n in range(20)]
    await world.produce(world.source_client, "flights", flights[:10])
    await world.produce(world.source_client, "flights", flights[10:])
    await world.produce(world.client, "jfk.flights", flights[:10])
    missing = await world.audit()
    assert missing.faults() == ["jfk: flights-0: 10 lost, source offsets 10-19"]
    await world.produce(world.client, "jfk.flights", flights[10:])
    clean = await world.audit()
    assert clean.is_faultless
    assert clean.line() == "audit: 20 produced, 20 mirrored, 0 lost, 0 duplicated"
    await world.produce(world.client, "jfk.flights", [flights[7], (None, b"not ours")])
    assert (await world.audit()).faults() == [
        "jfk: flights-0: 1 duplicated, aggregate offset 20 of jfk.flights-0",
        "jfk: flights-0: 1 foreign, aggregate offset 21 of jfk.flights-0",
    ]


async def test_bad_settings_end_with_code_2(tmp_path: Path) -> None:
    path = tmp_path / "aggregator.json"
    path.write_text('{"aggregate": "nyc", "bootsrap": "x"}')
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "aggregator", "--settings", str(path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=START_SECONDS_MAX,
    )
    assert done.returncode == 2
    assert "bootsrap" in done.stderr
