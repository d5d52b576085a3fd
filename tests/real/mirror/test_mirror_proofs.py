"""Long proofs of the mirror between any two clusters; run by `make mirror-proofs`.

Brokers and workers are killed, a source topic is re-created, a source log is truncated, retention
overtakes the mirror. At the end the referee's checks judge both logs, the map and the journal
(`mirror_judging.py`), except for a truncated log, which they do not know. The two clusters of a
pair serve all proofs, each with a topic and a link of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import Gap, GapJournal, gaps_topic_name
from mirror_maker.rules.trouble import Policies
from mirror_maker.settings import Limits
from tests.referee.admin import Admin
from tests.referee.content import identity_of
from tests.referee.history import Content, Fate, Partition, Written
from tests.support.mirror_judging import JudgedTopic, judge_links
from tests.support.mirror_peers import Peers, pair, running_peers
from tests.support.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records
from tests.support.producing import produce_to

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]

WAIT_SECONDS_MAX: Final = 180.0
ROUNDS: Final = 3
RECORDS: Final = 200
"""Records of one batch; a round has five batches."""


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        "own->own",
        pair("own->kafka"),
        pair("kafka->own"),
        pair("kafka->kafka"),
        pair("kafka-2.8->own"),
        pair("own->kafka-2.8"),
    ],
)
async def peers(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Peers]:
    async with running_peers(request.param, zookeeper, tmp_path_factory.mktemp("peers")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def clients(peers: Peers) -> AsyncIterator[tuple[KafkaClient, KafkaClient]]:
    async with (
        KafkaClient(peers[0].bootstrap) as source,
        KafkaClient(peers[1].bootstrap) as target,
    ):
        yield source, target


Clients = tuple[KafkaClient, KafkaClient]


async def write(client: KafkaClient, at: TopicPartition, first: int, end: int) -> None:
    """Write one batch of the records [first, end)."""
    records = [
        NewRecord(1_790_000_000_000 + n, b"k%d" % n, b"a.%s.%d|" % (at.topic.encode(), n))
        for n in range(first, end)
    ]
    await produce_to(client, at, encode_batch(records))


async def feed(client: KafkaClient, at: TopicPartition, stopped: asyncio.Event) -> None:
    """Write batches until stopped. A refused batch may be absent or written twice."""
    for first in itertools.count(step=20):
        if stopped.is_set():
            return
        with contextlib.suppress(KafkaError):
            await write(client, at, first, first + 20)
        await asyncio.sleep(0.01)


def told(at: TopicPartition, records: Iterable[Record], generation: int = 0) -> dict[str, Written]:
    """Return records of the source in the form of the referee's checks."""
    source = Partition("a", at.topic, at.partition)
    found = {}
    for record in records:
        content = Content(record.key, record.value, (), record.timestamp_ms)
        identity = identity_of(content)
        assert identity is not None
        found[identity] = Written(
            identity, source, generation, content, Fate.READABLE, record.offset
        )
    return found


async def check_judged(
    peers: Peers, at: TopicPartition, written: dict[str, Written], generation: int = 0
) -> None:
    """Check that the referee's checks find nothing; the link has the topic's name."""
    admins = {name: Admin(peer.bootstrap) for name, peer in zip("ab", peers, strict=True)}
    topic = JudgedTopic(at.topic, "a", at.topic, "b", copy_of(at).topic)
    judgement = await judge_links(
        [topic],
        admins,
        written,
        WAIT_SECONDS_MAX,
        {("a", at.topic): generation},
        # A refused batch may be written all the same, and is written again.
        is_repeated=lambda identity: True,
    )
    assert not judgement.findings, "\n".join(map(str, judgement.findings[:20]))
    assert judgement.figures["records compared"] > 0


def copy_of(at: TopicPartition) -> TopicPartition:
    return at._replace(topic=f"a.{at.topic}")


async def until_copied(
    client: KafkaClient, at: TopicPartition, worker: MirrorProcess, expected: list[Record]
) -> list[Record]:
    """Wait until there are as many copies, then check that they are these, in order."""
    copies: list[Record] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(copies) < len(expected):
                await asyncio.sleep(0.2)
                copies = await read_records(client, copy_of(at))
    assert [r[1:] for r in copies] == [r[1:] for r in expected], worker.log_text()[-4000:]
    return copies


async def create(client: KafkaClient, topic: str) -> TopicPartition:
    # The records have old timestamps; retention by time would delete them.
    new = NewTopic(name=topic, partitions=1, configs={"retention.ms": "-1"})
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while (await client.create_topics([new]))[topic] is not None:
            await asyncio.sleep(0.2)  # a deletion may take a moment
    return TopicPartition(topic, 0)


async def until_answers(client: KafkaClient, topic: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            with contextlib.suppress(KafkaError):
                found = (await client.metadata([topic])).topics[topic]
                if not found.error and found.partitions[0].leader >= 0:
                    return
            await asyncio.sleep(0.2)


async def read_gap(client: KafkaClient, link: str) -> Gap:
    """Return the one gap of a link's journal."""
    journal = GapJournal()
    for entry in await read_records(client, TopicPartition(gaps_topic_name(link), 0)):
        journal.replay(entry.key, entry.value)
    (gap,) = journal.all_entries()
    return gap


async def test_everything_killed_at_once(peers: Peers, clients: Clients, tmp_path: Path) -> None:
    (source_peer, target_peer), (source, target) = peers, clients
    at = await create(source, "all")
    async with mirror(
        tmp_path, source_peer.bootstrap, target_peer.bootstrap, topics=("all",), link="all"
    ) as worker:
        for number in range(ROUNDS):
            for batch in range(5):
                first = (number * 5 + batch) * RECORDS
                await write(source, at, first, first + RECORDS)
            await asyncio.gather(worker.kill(), source_peer.kill(), target_peer.kill())
            await source_peer.start()
            await target_peer.start()
            await until_answers(source, "all")
            await worker.start()
        originals = await read_records(source, at)
        assert originals, "something was written"
        copies = await until_copied(target, at, worker, originals)
        assert await worker.stop() == 0
    check_map(await read_map(target, at, "all"), originals, copies)
    await check_judged(peers, at, told(at, originals))


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_broker_killed_in_mid_stream(
    side: str, peers: Peers, clients: Clients, tmp_path: Path
) -> None:
    (source_peer, target_peer), (source, target) = peers, clients
    victim = {"source": source_peer, "target": target_peer}[side]
    at = await create(source, side)
    stopped = asyncio.Event()
    async with (
        mirror(
            tmp_path, source_peer.bootstrap, target_peer.bootstrap, topics=(side,), link=side
        ) as worker,
        asyncio.TaskGroup() as group,
    ):
        feeding = group.create_task(feed(source, at, stopped))
        copied = 0
        for _ in range(2):
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while len(await read_records(target, copy_of(at))) <= copied:
                    await asyncio.sleep(0.05)
            await victim.kill()
            await worker.until_state(f"{side.upper()}_DOWN", WAIT_SECONDS_MAX)
            await victim.start()
            await until_answers(target, f"a.{side}")
            copied = len(await read_records(target, copy_of(at)))
        stopped.set()
        await feeding
        await worker.until_state("RUNNING", WAIT_SECONDS_MAX)
        originals = await read_records(source, at)
        copies = await until_copied(target, at, worker, originals)
        assert await worker.stop() == 0
    check_map(await read_map(target, at, side), originals, copies)
    await check_judged(peers, at, told(at, originals))


async def test_a_re_created_topic_continues_as_a_new_generation(
    peers: Peers, clients: Clients, tmp_path: Path
) -> None:
    (source_peer, target_peer), (source, target) = peers, clients
    at = await create(source, "anew")
    await write(source, at, 0, 30)
    before = await read_records(source, at)
    async with mirror(
        tmp_path,
        source_peer.bootstrap,
        target_peer.bootstrap,
        topics=("anew",),
        link="anew",
        on=Policies(recreated="skip"),
        limits=Limits(epoch_quiet_ms=2_000),
    ) as worker:
        await until_copied(target, at, worker, before)
        assert (await source.delete_topics(["anew"]))["anew"] is None
        await create(source, "anew")
        await until_answers(source, "anew")
        await write(source, at, 500, 560)
        anew = await read_records(source, at)
        copies = await until_copied(target, at, worker, before + anew)
        assert await worker.stop() == 0
    offset_map = await read_map(target, at, "anew")
    for original, copy in zip(anew, copies[len(before) :], strict=True):
        assert offset_map.source_of(copy.offset) == original.offset
    assert offset_map.source_of(copies[0].offset) is None, "it belongs to the deleted topic"
    gap = await read_gap(target, "anew")
    assert (gap.reason, gap.source_to) == ("recreated", None)
    await check_judged(peers, at, told(at, before) | told(at, anew, 1), generation=1)


async def test_a_source_that_lost_its_tail_is_copied_again_from_there(
    peers: Peers, clients: Clients, tmp_path: Path
) -> None:
    """A machine loses its page cache: acknowledged records are gone, and others come at their
    offsets.
    """
    (source_peer, target_peer), (source, target) = peers, clients
    at = await create(source, "cut")
    for first in (0, 50, 100):
        await write(source, at, first, first + 50)
    before = await read_records(source, at)
    async with mirror(
        tmp_path,
        source_peer.bootstrap,
        target_peer.bootstrap,
        topics=("cut",),
        link="cut",
        on=Policies(truncated="skip"),
        limits=Limits(epoch_quiet_ms=2_000),
    ) as worker:
        await until_copied(target, at, worker, before)
        await source_peer.kill()
        cut_back(source_peer.log_dir / "cut-0", 60)
        await source_peer.start()
        await until_answers(source, "cut")
        await write(source, at, 500, 530)
        after = await read_records(source, at)
        assert [record.offset for record in after] == list(range(80)), "50 are kept, 30 are new"
        copies = await until_copied(target, at, worker, before + after[50:])
        assert await worker.stop() == 0
    gap = await read_gap(target, "cut")
    assert (gap.reason, gap.source_from) == ("truncated", 50)
    offset_map = await read_map(target, at, "cut")
    for original, copy in zip(after[50:], copies[len(before) :], strict=True):
        assert offset_map.source_of(copy.offset) == original.offset
    assert offset_map.source_of(copies[60].offset) is None, "it belongs to the truncated log"


def cut_back(partition: Path, offset: int) -> None:
    """Remove the batches that end behind an offset, and everything else that is known of the
    log.
    """
    (log,) = partition.glob("*.log")
    data = log.read_bytes()
    end = 0
    while end < len(data):
        length = int.from_bytes(data[end + 8 : end + 12], "big")
        last_offset_delta = int.from_bytes(data[end + 23 : end + 27], "big")
        if int.from_bytes(data[end : end + 8], "big") + last_offset_delta >= offset:
            break
        end += 12 + length
    assert 0 < end < len(data), "a part of it is removed"
    log.write_bytes(data[:end])
    for suffix in ("index", "timeindex", "snapshot"):
        for known in partition.glob(f"*.{suffix}"):
            known.unlink()


async def test_retention_overtakes_and_the_journal_has_the_gap(
    peers: Peers, clients: Clients, tmp_path: Path
) -> None:
    (source_peer, target_peer), (source, target) = peers, clients
    at = await create(source, "late")
    await write(source, at, 0, 30)
    async with mirror(
        tmp_path,
        source_peer.bootstrap,
        target_peer.bootstrap,
        topics=("late",),
        link="late",
        on=Policies(out_of_range="skip"),
    ) as worker:
        before = await until_copied(target, at, worker, await read_records(source, at))
        assert await worker.stop() == 0
        await write(source, at, 30, 60)
        await write(source, at, 60, 90)
        originals = await read_records(source, at)
        await delete_records(source, at, before_offset=45)
        await worker.start()
        kept = await read_records(source, at)
        assert [record.offset for record in kept] == list(range(45, 90))
        copies = await until_copied(target, at, worker, before + kept)
        assert await worker.stop() == 0
    gap = await read_gap(target, "late")
    assert (gap.reason, gap.source_from, gap.source_to) == ("out_of_range", 30, 45)
    offset_map = await read_map(target, at, "late")
    for original, copy in zip(kept, copies[len(before) :], strict=True):
        assert offset_map.source_of(copy.offset) == original.offset
        assert offset_map.translate(original.offset).target_offset == copy.offset
    assert offset_map.translate(37).target_offset == copies[len(before)].offset
    await check_judged(peers, at, told(at, originals))


async def delete_records(client: KafkaClient, at: TopicPartition, before_offset: int) -> None:
    leader = (await client.metadata([at.topic])).topics[at.topic].partitions[at.partition].leader
    partition = {"partition_index": at.partition, "offset": before_offset}
    answer = await client.call(
        ApiKey.DELETE_RECORDS,
        {"topics": [{"name": at.topic, "partitions": [partition]}], "timeout": 30_000},
        node_id=leader,
    )
    assert answer.topics[0].partitions[0].error_code == 0, answer
