"""Two clusters that mirror each other under identical names, with workers killed in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats.naming import TopicNames
from mirror_maker.settings import Limits, LinkSettings, MirrorSettings
from tests.real.mirror.test_mirror_kill import create
from tests.support.cluster import running_clusters
from tests.support.mirror_process import MirrorProcess, read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

AT = TopicPartition("orders", 0)
ROUNDS = 4
RECORDS_PER_ROUND = 300
WAIT_SECONDS_MAX = 240.0


class BothWays:
    """Brokers `east` and `west`, a client of each, and the worker that writes into each."""

    def __init__(self, clients: dict[str, KafkaClient], workers: dict[str, MirrorProcess]) -> None:
        self.clients = clients
        self.workers = workers
        self.born: dict[str, list[bytes]] = {name: [] for name in clients}

    async def produce(self, count: int) -> None:
        """Write on both sides, as an idempotent producer and as an old one."""
        for name, client in self.clients.items():
            for idempotent in (True, False):
                start = len(self.born[name])
                values = [f"{name} {n}".encode() for n in range(start, start + count // 2)]
                records = [NewRecord(1_000_000 + n, None, value) for n, value in enumerate(values)]
                producer = {"producer_id": -1}
                if idempotent:
                    producer_id, producer_epoch = await client.init_producer_id()
                    producer = {
                        "producer_id": producer_id,
                        "producer_epoch": producer_epoch,
                        "base_sequence": 0,
                    }
                await produce_to(client, AT, encode_batch(records, **producer))
                self.born[name] += values

    async def until_complete(self) -> None:
        """Wait until each side has the total number of records, then check every one."""
        total = sum(map(len, self.born.values()))
        for name, client in self.clients.items():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS_MAX):
                    while len(await read_records(client, AT)) < total:
                        await asyncio.sleep(0.1)
            found = [record.value or b"" for record in await read_records(client, AT)]
            twice = [value for value, count in Counter(found).items() if count > 1]
            assert not twice, (name, twice[:3], self.workers[name].log_text()[-4000:])
            for origin, born in self.born.items():
                here = [value for value in found if value.startswith(origin.encode())]
                assert here == born, (name, origin, self.workers[name].log_text()[-4000:])

    async def until_everything_was_read(self) -> None:
        """Wait until each link has read everything at its source, including its own copies."""
        total = sum(map(len, self.born.values()))
        for worker in self.workers.values():
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while (await worker.link())["flows"][0]["source_next"] != total:
                    await asyncio.sleep(0.1)


@pytest.fixture
async def both_ways(zookeeper: str, tmp_path: Path) -> AsyncIterator[BothWays]:
    async with running_both_ways(zookeeper, tmp_path) as both_ways:
        yield both_ways


@contextlib.asynccontextmanager
async def running_both_ways(
    zookeeper: str, tmp_path: Path, limits: Limits | None = None, **link_settings: Any
) -> AsyncIterator[BothWays]:
    """Run two clusters with a worker for each direction; the topic is created in the east."""
    quick = {"group.initial.rebalance.delay.ms": "0"}
    async with running_clusters(zookeeper, tmp_path, "east", "west", config=quick) as running:
        bootstraps, clients = running
        # Only one side has the topic, so the other link has nothing to read until it is copied.
        await create(clients["east"], "orders", 1)
        workers = {}
        for source, target in (("east", "west"), ("west", "east")):
            directory = tmp_path / f"mirror-{target}"
            directory.mkdir()
            link = LinkSettings(
                name=f"{source}-{target}",
                source_alias=source,
                source_bootstrap=bootstraps[source],
                names=TopicNames(otherwise="identity"),
                origin="local",
                **link_settings,
            )
            settings = MirrorSettings(
                worker_id="w1",
                target_alias=target,
                target_bootstrap=bootstraps[target],
                links=(link,),
                ready_file=str(directory / "ready.json"),
                session_timeout_ms=6_000,
                limits=limits or Limits(),
            )
            workers[target] = MirrorProcess(settings, directory)
            await workers[target].start()
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while (await clients["west"].metadata(["orders"])).topics["orders"].error:
                    await asyncio.sleep(0.1)
            yield BothWays(clients, workers)
        finally:
            for worker in workers.values():
                if worker.process is not None and worker.process.poll() is None:
                    await worker.kill()


async def test_every_record_is_on_each_side_once(both_ways: BothWays) -> None:
    for turn in range(ROUNDS):
        await both_ways.produce(RECORDS_PER_ROUND)
        worker = both_ways.workers["west" if turn % 2 else "east"]
        if turn == ROUNDS - 1:
            assert await worker.stop() == 0
        else:
            await worker.kill()
        await both_ways.produce(RECORDS_PER_ROUND)
        await worker.start()
    await both_ways.until_complete()
    await both_ways.until_everything_was_read()
    await both_ways.until_complete()  # nothing came back


async def test_configs_follow_the_side_that_had_the_topic_first(
    zookeeper: str, tmp_path: Path
) -> None:
    """They do not come back, though both directions sync them."""

    async def retention(client: KafkaClient) -> str | None:
        return (await client.describe_topic_configs([AT.topic]))[AT.topic]["retention.ms"][0]

    async with running_both_ways(
        zookeeper, tmp_path, limits=Limits(topic_sync_ms=200), sync_configs=True
    ) as both_ways:
        east, west = both_ways.clients["east"], both_ways.clients["west"]
        steps = ((east, "86400000"), (west, "3600000"), (east, "7200000"))
        for applied, (client, value) in enumerate(steps, 1):
            changed = await alter_topic_configs(client, {AT.topic: {"retention.ms": value}})
            assert changed == {AT.topic: None}
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while (await both_ways.workers["west"].link())["topic_sync"]["applied"] < applied:
                    await asyncio.sleep(0.05)
            assert await retention(west) == await retention(east)
        assert await retention(east) == "7200000"
        back = (await both_ways.workers["east"].link())["topic_sync"]
        assert [each["copy"] for each in back["not_led"]] == [AT.topic]
        forth = (await both_ways.workers["west"].link())["topic_sync"]
        assert (back["applied"], forth["applied"], forth["not_led"]) == (0, 3, [])
