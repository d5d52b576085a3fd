"""Workers of an older and of the present version on one link, side by side and one after the other.

In both directions no record is lost or duplicated, and the map is exact.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, Record, encode_batch
from mirror_maker.formats import Gap, GapJournal, encode_gap, gaps_topic_name
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import FAULTS, verdicts_topic_name
from mirror_maker.rules.trouble import Policies
from mirror_maker.settings import Limits
from tests.real.mirror.test_mirror_kill import PARTITIONS, Feed, check_maps, create, until_equal
from tests.support.cluster import BrokerProcess
from tests.support.mirror_process import MirrorProcess, mirror, read_map, read_records
from tests.support.older_mirror import OLDER_MIRROR, make_older, make_present, older_mirror
from tests.support.producing import produce_to

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

T0, COPY = TopicPartition("t", 0), TopicPartition("a.t", 0)
LIMITS = Limits(epoch_quiet_ms=1_500, controls_ms=200)
TURNS = 6
Brokers = tuple[BrokerProcess, BrokerProcess]


@pytest.fixture
def older_code(tmp_path: Path) -> Path:
    reason = OLDER_MIRROR.why_not()
    if reason is not None:
        pytest.skip(reason)
    return OLDER_MIRROR.unpack(tmp_path / "older")


def check_logs(*workers: MirrorProcess) -> None:
    """Check that no version met anything that it did not understand."""
    for worker in workers:
        text = worker.log_text()
        bad = re.search(r"Traceback|internal error|MapFormatError|stopped:|contradicts", text)
        assert bad is None, text[max(0, bad.start() - 2_000) : bad.end() + 2_000]


async def verdicts(client: KafkaClient) -> VerdictTopic:
    found = VerdictTopic()
    async for record in read_topic(client, verdicts_topic_name("a-b")):
        found.replay(record.key, record.value)
    return found


async def check_audit(client: KafkaClient) -> None:
    """Check that copies of older workers, which were not compared, do not count as wrong."""
    for _, found in (await verdicts(client)).flows():
        assert not found.findings
        told = {verdict for bucket in found.buckets().values() for verdict in bucket}
        assert not told & FAULTS


async def copies_as(worker: MirrorProcess, *, is_older: bool) -> bool:
    """Return whether the worker copies some of the partitions, in that version."""
    link = await worker.link()
    assert ("audit" not in link) is is_older, "another version answers"
    return bool(link["flows"])


async def copied_more(source: KafkaClient, target: KafkaClient, worker: MirrorProcess) -> None:
    """Wait until every partition has more copies."""
    copies = [TopicPartition("a.t", index) for index in range(PARTITIONS)]

    async def ends() -> list[int]:
        listed = await target.list_offsets(dict.fromkeys(copies, -1))
        return [listed[at].offset for at in copies]

    before = await ends()

    async def is_so() -> bool:
        return all(now > then for now, then in zip(await ends(), before, strict=True))

    await worker.until(is_so)


@pytest.mark.parametrize("is_back", [False, True], ids=["older to present", "present to older"])
async def test_workers_are_replaced_one_by_one_while_records_flow(
    brokers: Brokers, tmp_path: Path, older_code: Path, is_back: bool
) -> None:
    """A rolling upgrade and the way back; one worker is killed and one stopped."""
    bootstraps = brokers[0].bootstrap, brokers[1].bootstrap
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(KafkaClient(bootstraps[0]))
        target = await stack.enter_async_context(KafkaClient(bootstraps[1]))
        await create(source)
        workers = []
        for worker_id in ("w1", "w2"):
            options: dict[str, Any] = {"worker_id": worker_id, "limits": LIMITS}
            started = (
                mirror(tmp_path, *bootstraps, **options)
                if is_back
                else older_mirror(older_code, tmp_path, *bootstraps, **options)
            )
            workers.append(await stack.enter_async_context(started))
        feed = Feed(source)
        async with asyncio.TaskGroup() as group:
            group.create_task(feed.run())
            await copied_more(source, target, workers[0])
            for index, worker in enumerate(workers):
                await (worker.kill() if index == 0 else worker.stop())
                if is_back:
                    make_older(worker, older_code)
                else:
                    make_present(worker)
                await worker.start()
                await copied_more(source, target, worker)
                for other in workers:
                    is_older = other.code == older_code
                    await other.until(partial(copies_as, other, is_older=is_older))
            await feed.stop()
        await until_equal(source, target, workers[0])
        assert [await worker.stop() for worker in workers] == [0, 0]
        await check_maps(source, target)
        check_logs(*workers)
        if not is_back:
            await check_audit(target)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
async def test_partitions_go_back_and_forth_between_the_versions(
    brokers: Brokers, tmp_path: Path, older_code: Path, seed: int
) -> None:
    """Workers are killed or stopped again and again, and come back in either version."""
    random = Random(seed)
    bootstraps = brokers[0].bootstrap, brokers[1].bootstrap
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(KafkaClient(bootstraps[0]))
        target = await stack.enter_async_context(KafkaClient(bootstraps[1]))
        await create(source)
        older = older_mirror(older_code, tmp_path, *bootstraps, worker_id="w1", limits=LIMITS)
        present = mirror(tmp_path, *bootstraps, worker_id="w2", limits=LIMITS)
        workers = [await stack.enter_async_context(each) for each in (older, present)]
        feed = Feed(source)
        async with asyncio.TaskGroup() as group:
            group.create_task(feed.run())
            for _ in range(TURNS):
                await copied_more(source, target, workers[0])
                worker = random.choice(workers)
                await (worker.kill() if random.random() < 0.7 else worker.stop())
                if random.random() < 0.5:
                    make_older(worker, older_code)
                else:
                    make_present(worker)
                await worker.start()
            for worker in workers:
                await worker.kill()
                make_present(worker)
                await worker.start()
            await feed.stop()
        await until_equal(source, target, workers[0])
        assert [await worker.stop() for worker in workers] == [0, 0]
        await check_maps(source, target)
        check_logs(*workers)
        await check_audit(target)


async def test_an_older_worker_continues_with_a_journal_of_this_version(
    brokers: Brokers, tmp_path: Path, older_code: Path
) -> None:
    """The journal has entries of every kind and an order to delete the copy; then back to this
    version.
    """
    bootstraps = brokers[0].bootstrap, brokers[1].bootstrap
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(KafkaClient(bootstraps[0]))
        target = await stack.enter_async_context(KafkaClient(bootstraps[1]))
        new = NewTopic(name="t", partitions=1, configs={"retention.ms": "-1"})
        assert (await source.create_topics([new]))["t"] is None
        worker = await stack.enter_async_context(
            mirror(tmp_path, *bootstraps, limits=LIMITS, on=Policies(foreign="skip"))
        )
        await write(source, T0, *(b"early %d" % n for n in range(10)))
        await until_count(target, worker, 10)
        await write(target, COPY, b"outsider")
        await write(source, T0, *(b"late %d" % n for n in range(5)))
        await until_count(target, worker, 16)
        await worker.until(lambda: has_kind(target, GapKind.FOREIGN))
        await note_copied(target)
        await write(target, COPY, b"outsider again")  # which no worker has noticed yet
        await worker.kill()
        make_older(worker, older_code)
        await worker.start()
        await worker.until(lambda: copies_as(worker, is_older=True))
        await write(source, T0, b"by the older one")
        await until_count(target, worker, 18)
        assert await worker.stop() == 0
        originals = await read_records(source, T0)
        own = [each for each in await read_records(target, COPY) if b"out" not in value(each)]
        check_places(await read_places(target), originals, own)
        check_logs(worker)

        # An order that only the present version can carry out completely.
        make_present(worker)
        await worker.start()
        await write(source, T0, b"present")
        await until_count(target, worker, 19)
        await order_fresh(target)
        await worker.kill()
        make_older(worker, older_code)
        await worker.start()
        await write(source, T0, b"after the order")
        await until_count(target, worker, 19 + 18)
        assert await worker.stop() == 0
        make_present(worker)
        await worker.start()
        await write(source, T0, b"last")
        await until_count(target, worker, 19)
        originals = await read_records(source, T0)
        copies = await read_records(target, COPY)
        assert [value(each) for each in copies] == [value(each) for each in originals]
        assert await worker.stop() == 0
        check_places(await read_places(target), originals, copies)
        check_logs(worker)


def value(record: Record) -> bytes:
    return record.value or b""


async def write(client: KafkaClient, at: TopicPartition, *values: bytes) -> None:
    """Write one batch."""
    batch = encode_batch([NewRecord(1_790_000_000_000, b"k", each) for each in values])
    await produce_to(client, at, batch)


async def until_count(target: KafkaClient, worker: MirrorProcess, count: int) -> None:
    """Wait until the copy has this many records."""

    async def is_so() -> bool:
        return len(await read_records(target, COPY)) == count

    await worker.until(is_so)


async def journal(client: KafkaClient) -> GapJournal:
    found = GapJournal()
    async for record in read_topic(client, gaps_topic_name("a-b")):
        found.replay(record.key, record.value)
    return found


async def has_kind(client: KafkaClient, kind: GapKind) -> bool:
    return any(each.kind is kind for each in (await journal(client)).all_entries())


async def append(client: KafkaClient, *entries: Gap) -> None:
    at = TopicPartition(gaps_topic_name("a-b"), 0)
    records = [NewRecord(1_790_000_000_000, *encode_gap(each)) for each in entries]
    await produce_to(client, at, encode_batch(records))


async def a_foreign_entry(client: KafkaClient) -> Gap:
    return next(e for e in (await journal(client)).all_entries() if e.kind is GapKind.FOREIGN)


async def note_copied(client: KafkaClient) -> None:
    """Write the entry as if the source had lost records 3 and 4 before they were mapped."""
    entry = await a_foreign_entry(client)
    copied = replace(
        entry,
        kind=GapKind.COPIED,
        nonce=77,
        source_from=3,
        source_to=5,
        target_offset=3,
        target_to=5,
        copied_count=2,
    )
    await append(client, copied)


async def order_fresh(client: KafkaClient) -> None:
    """Write the order of `heliograph mirror repair --how fresh`; no worker has followed it yet."""
    entry = await a_foreign_entry(client)
    end = (await client.list_offsets({COPY: -1}))[COPY].offset
    await append(
        client,
        replace(
            entry,
            kind=GapKind.LOST,
            nonce=78,
            source_from=0,
            source_to=None,
            target_offset=end,
            target_to=None,
            reason="repair_fresh",
            records_count=None,
        ),
    )


async def read_places(client: KafkaClient) -> dict[int, int]:
    """Return source offset -> target offset of every mapped record."""
    return {
        run.source_offset + n: run.target_offset + n
        for run in (await read_map(client, T0)).runs()
        for n in range(run.records_count)
    }


def check_places(places: dict[int, int], originals: list[Record], copies: list[Record]) -> None:
    assert [value(each) for each in copies] == [value(each) for each in originals]
    assert places == {o.offset: c.offset for o, c in zip(originals, copies, strict=True)}
