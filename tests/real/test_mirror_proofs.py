"""Long proofs of the mirror between any two clusters: all processes killed at once, a topic made
anew. Run by `make mirror-proofs`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import GapJournal, gaps_topic_name
from mirror_maker.settings import Limits
from mirror_maker.trouble import Policies
from tests.cluster import BrokerProcess, running_broker
from tests.kafka_from_maven import KafkaProcess, running_kafka
from tests.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

T0 = TopicPartition("t", 0)
COPY = TopicPartition("a.t", 0)
WAIT_SECONDS_MAX = 180.0
ROUNDS = 3
RECORDS = 200
"""Of one batch; five batches a round."""
Peer = BrokerProcess | KafkaProcess


@pytest.fixture(
    params=[
        "own->own",
        pytest.param("own->kafka", marks=pytest.mark.oracle),
        pytest.param("kafka->own", marks=pytest.mark.oracle),
        pytest.param("kafka->kafka", marks=pytest.mark.oracle),
    ]
)
async def peers(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path
) -> AsyncIterator[tuple[Peer, Peer]]:
    async with contextlib.AsyncExitStack() as stack:
        found: list[Peer] = []
        for side, kind in zip(("source", "target"), request.param.split("->"), strict=True):
            peer: Peer = await stack.enter_async_context(
                running_broker(zookeeper, tmp_path / side, cluster=side)
                if kind == "own"
                else running_kafka(tmp_path / side)
            )
            found.append(peer)
        yield found[0], found[1]


async def write(client: KafkaClient, first: int, end: int) -> None:
    """One batch of the records [first, end)."""
    records = [NewRecord(1_790_000_000_000 + n, b"k%d" % n, b"v%d" % n) for n in range(first, end)]
    leader = (await client.metadata([T0.topic])).topics[T0.topic].partitions[0].leader
    batch = encode_batch(records)
    answer = (await client.produce(leader, {T0: batch}))[T0]
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while answer.error == ErrorCode.not_leader_or_follower:  # it was made just now
            await asyncio.sleep(0.2)
            answer = (await client.produce(leader, {T0: batch}))[T0]
    assert not answer.error, answer


async def until_copied(
    client: KafkaClient, worker: MirrorProcess, expected: list[Record]
) -> list[Record]:
    """Wait until the copies are as many, then see that they are these, in order."""
    copies: list[Record] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(copies) < len(expected):
                await asyncio.sleep(0.2)
                copies = await read_records(client, COPY)
    assert [r[1:] for r in copies] == [r[1:] for r in expected], worker.log_text()[-4000:]
    return copies


async def create(client: KafkaClient) -> None:
    # The records have a time of their own; by time they would be deleted.
    new = NewTopic(name="t", partitions=1, configs={"retention.ms": "-1"})
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while (await client.create_topics([new]))["t"] is not None:
            await asyncio.sleep(0.2)  # a deletion may take a moment to be through


async def until_answers(client: KafkaClient, topic: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            with contextlib.suppress(KafkaError):
                found = (await client.metadata([topic])).topics[topic]
                if not found.error and found.partitions[0].leader >= 0:
                    return
            await asyncio.sleep(0.2)


async def test_everything_killed_at_once(peers: tuple[Peer, Peer], tmp_path: Path) -> None:
    source_peer, target_peer = peers
    async with (
        KafkaClient(source_peer.bootstrap) as source,
        KafkaClient(target_peer.bootstrap) as target,
    ):
        await create(source)
        async with mirror(tmp_path, source_peer.bootstrap, target_peer.bootstrap) as worker:
            for number in range(ROUNDS):
                for batch in range(5):
                    first = (number * 5 + batch) * RECORDS
                    await write(source, first, first + RECORDS)
                await asyncio.gather(worker.kill(), source_peer.kill(), target_peer.kill())
                await source_peer.start()
                await target_peer.start()
                await until_answers(source, "t")
                await worker.start()
            originals = await read_records(source, T0)
            assert originals, "something was written"
            copies = await until_copied(target, worker, originals)
            assert await worker.stop() == 0
        check_map(await read_map(target, T0), originals, copies)


async def test_a_topic_made_anew_goes_on_as_a_new_generation(
    peers: tuple[Peer, Peer], tmp_path: Path
) -> None:
    source_peer, target_peer = peers
    async with (
        KafkaClient(source_peer.bootstrap) as source,
        KafkaClient(target_peer.bootstrap) as target,
    ):
        await create(source)
        await write(source, 0, 30)
        before = await read_records(source, T0)
        async with mirror(
            tmp_path,
            source_peer.bootstrap,
            target_peer.bootstrap,
            on=Policies(recreated="skip"),
            limits=Limits(epoch_quiet_ms=2_000),
        ) as worker:
            await until_copied(target, worker, before)
            assert (await source.delete_topics(["t"]))["t"] is None
            await create(source)
            await until_answers(source, "t")
            await write(source, 500, 560)
            anew = await read_records(source, T0)
            copies = await until_copied(target, worker, before + anew)
            assert await worker.stop() == 0
        offset_map = await read_map(target, T0)
        for original, copy in zip(anew, copies[len(before) :], strict=True):
            assert offset_map.source_of(copy.offset) == original.offset
        assert offset_map.source_of(copies[0].offset) is None, "it is of the topic that is gone"
        journal = GapJournal()
        for entry in await read_records(target, TopicPartition(gaps_topic_name("a-b"), 0)):
            journal.replay(entry.key, entry.value)
        (gap,) = journal.all_gaps()
        assert (gap.reason, gap.source_to) == ("recreated", None)
