"""Exactly once under kill -9: workers and brokers die in mid-stream, then both logs are
compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import KafkaError
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kafka_container import KafkaInContainer, running_kafka_container
from tests.support.kafka_from_maven import KafkaProcess, running_kafka
from tests.support.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

PARTITIONS = 3
KILLS = 6
CATCH_UP_SECONDS_MAX = 60.0
CODECS = (0, 1, 2, 3, 4)
Peers = tuple[str, str]


@pytest.fixture(
    params=[
        pytest.param("own->own", marks=pytest.mark.long),
        pytest.param("own->kafka", marks=pytest.mark.oracle),
        pytest.param("kafka->own", marks=pytest.mark.oracle),
        pytest.param("container->own", marks=pytest.mark.docker),
    ]
)
async def peers(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path
) -> AsyncIterator[Peers]:
    """Yield bootstrap addresses of a source and a target: our broker, an Apache Kafka from Maven,
    or one in a container (skipped without a Docker engine).
    """
    async with contextlib.AsyncExitStack() as stack:
        addresses = []
        for side, kind in zip(("source", "target"), request.param.split("->"), strict=True):
            peer: BrokerProcess | KafkaProcess | KafkaInContainer
            match kind:
                case "own":
                    running = running_broker(zookeeper, tmp_path / side, cluster=side)
                    peer = await stack.enter_async_context(running)
                case "kafka":
                    peer = await stack.enter_async_context(running_kafka(tmp_path / side))
                case _:
                    peer = await stack.enter_async_context(running_kafka_container())
            addresses.append(peer.bootstrap)
        yield addresses[0], addresses[1]


class Feed:
    """Writes batches of unique records to all partitions until it is stopped."""

    def __init__(self, client: KafkaClient, topic: str = "t", partitions: int = PARTITIONS) -> None:
        self.topic = topic
        self.partitions = partitions
        self.records = 0
        self._client = client
        self._random = Random(4)
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self._serial = itertools.count()

    async def stop(self) -> None:
        """Write no more, from the return on."""
        self._stop.set()
        await self._ended.wait()

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            self._ended.set()

    async def _run(self) -> None:
        while not self._stop.is_set():
            for index in range(self.partitions):
                records = [
                    NewRecord(1_357_000_000_000 + n, b"k%d" % n, b"%d " % n * 20)
                    for n in itertools.islice(self._serial, self._random.randint(1, 200))
                ]
                batch = encode_batch(records, codec=self._random.choice(CODECS))
                at = TopicPartition(self.topic, index)
                await produce_to(self._client, at, batch)
                self.records += len(records)
            await asyncio.sleep(0.002)


async def create(client: KafkaClient, name: str = "t", partitions: int = PARTITIONS) -> None:
    # The records have timestamps of 2013; retention by time would delete them at once.
    topic = NewTopic(name=name, partitions=partitions, configs={"retention.ms": "-1"})
    assert (await client.create_topics([topic]))[name] is None


async def until_equal(source: KafkaClient, target: KafkaClient, worker: MirrorProcess) -> None:
    """Wait until every record is there, then compare both logs and the map record by record."""
    for index in range(PARTITIONS):
        at, copy = TopicPartition("t", index), TopicPartition("a.t", index)
        originals = await read_records(source, at)
        copies = await read_records(target, copy)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                while len(copies) < len(originals):
                    await asyncio.sleep(0.1)
                    copies = await read_records(target, copy)
        assert len(copies) == len(originals), worker.log_text()[-4000:]
        assert [r[1:] for r in copies] == [r[1:] for r in originals]


async def check_maps(source: KafkaClient, target: KafkaClient) -> None:
    for index in range(PARTITIONS):
        at = TopicPartition("t", index)
        offset_map = await read_map(target, at)
        originals = await read_records(source, at)
        check_map(offset_map, originals, await read_records(target, at._replace(topic="a.t")))


async def count(client: KafkaClient, topic: str) -> int:
    ends = await client.list_offsets({TopicPartition(topic, i): -1 for i in range(PARTITIONS)})
    return sum(max(0, end.offset) for end in ends.values())


async def test_a_worker_killed_in_mid_stream_again_and_again(peers: Peers, tmp_path: Path) -> None:
    random = Random(1)
    source_bootstrap, target_bootstrap = peers
    async with KafkaClient(source_bootstrap) as source, KafkaClient(target_bootstrap) as target:
        await create(source)
        feed = Feed(source)
        async with (
            mirror(tmp_path, source_bootstrap, target_bootstrap) as worker,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(feed.run())
            killed_behind = 0
            for _ in range(KILLS):
                before = await count(target, "a.t")
                async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                    # Each run of the worker copies something before it is killed.
                    while await count(target, "a.t") <= before:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(random.uniform(0.0, 0.7))
                await worker.kill()
                killed_behind += await count(target, "a.t") < feed.records
                await worker.start()
            await feed.stop()
            await until_equal(source, target, worker)
            assert killed_behind, "no kill came in mid-stream"
            assert re.search(r"paired [1-9]", worker.log_text()), "no unmapped batches"
            assert await worker.stop() == 0
        await check_maps(source, target)


@pytest.mark.parametrize(
    "peers", ["own->own", pytest.param("own->kafka", marks=pytest.mark.oracle)], indirect=True
)
async def test_overlapping_workers_and_a_zombie(peers: Peers, tmp_path: Path) -> None:
    """A worker is stopped by SIGSTOP until its partitions are reassigned, then wakes and
    continues.
    """
    source_bootstrap, target_bootstrap = peers
    async with KafkaClient(source_bootstrap) as source, KafkaClient(target_bootstrap) as target:
        await create(source)
        feed = Feed(source)
        async with (
            mirror(tmp_path, source_bootstrap, target_bootstrap, worker_id="w1") as first,
            mirror(tmp_path, source_bootstrap, target_bootstrap, worker_id="w2") as second,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(feed.run())
            await until_shared(first, second)
            assert first.process is not None
            first.process.send_signal(signal.SIGSTOP)
            async with asyncio.timeout(60):
                while (await second.link())["partitions"] < PARTITIONS:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(1.0)
            first.process.send_signal(signal.SIGCONT)
            await until_shared(first, second)
            await feed.stop()
            await until_equal(source, target, second)
            assert await first.stop() == 0
            assert await second.stop() == 0
        await check_maps(source, target)


async def until_shared(first: MirrorProcess, second: MirrorProcess) -> None:
    """Wait until each of two workers has some partitions, and together they have each one once."""
    async with asyncio.timeout(60):
        while True:
            counts = [(await worker.link())["partitions"] for worker in (first, second)]
            if min(counts) > 0 and sum(counts) == PARTITIONS:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_broker_killed_in_mid_stream(side: str, zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_broker(zookeeper, tmp_path / "source", cluster="source") as source_broker,
        running_broker(zookeeper, tmp_path / "target", cluster="target") as target_broker,
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        victim = {"source": source_broker, "target": target_broker}[side]
        down = {"source": "SOURCE_DOWN", "target": "TARGET_DOWN"}[side]
        await create(source)
        async with mirror(tmp_path, source_broker.bootstrap, target_broker.bootstrap) as worker:
            for _ in range(2):
                await feed_for(source, 0.5, lambda: None if side == "source" else kill(victim))
                if side == "source":
                    await victim.kill()
                link = await worker.until_state(down)
                assert link["reason"]
                await victim.start()
            await worker.until_state("RUNNING")
            await until_equal(source, target, worker)
            assert await worker.stop() == 0
        await check_maps(source, target)


async def kill(broker: object) -> None:
    await broker.kill()  # type: ignore[attr-defined]


async def feed_for(
    client: KafkaClient, seconds: float, middle: Callable[[], Awaitable[None] | None]
) -> None:
    """Feed, do something in the middle, feed again."""
    feed = Feed(client)
    async with asyncio.TaskGroup() as group:
        group.create_task(feed.run())
        await asyncio.sleep(seconds)
        done = middle()
        if done is not None:
            with contextlib.suppress(KafkaError):
                await done
        await asyncio.sleep(seconds)
        await feed.stop()
