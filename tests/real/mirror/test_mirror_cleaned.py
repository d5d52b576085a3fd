"""A compacted topic with tombstones, cleaned before it is copied and again before the map is
written.

Each codec has a partition of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.records.compress import Codec
from local_cluster.records.header import BatchHeader, iter_headers
from mirror_maker.settings import Limits
from tests.support.mirror_peers import Peers, pair, running_peers
from tests.support.mirror_process import MirrorProcess, mirror, read_map, read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX: Final = 120.0
TOPIC: Final = "states"
KEYS: Final = 12
SEGMENT_MS: Final = 400
BROKER_CONFIG: Final = {"log.cleaner.backoff.ms": "100"}
TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.0",
    # A tombstone stays during the whole test, with its delete horizon.
    "delete.retention.ms": "600000",
}
NEVER_MS: Final = 3_600_000


@pytest.fixture(params=[pair("own->own"), pair("own->kafka"), pair("kafka->own")])
async def peers(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path
) -> AsyncIterator[Peers]:
    async with running_peers(request.param, zookeeper, tmp_path, BROKER_CONFIG) as peers:
        yield peers


@pytest.fixture
async def clients(peers: Peers) -> AsyncIterator[tuple[KafkaClient, KafkaClient]]:
    async with KafkaClient(peers[0].bootstrap) as source, KafkaClient(peers[1].bootstrap) as target:
        yield source, target


class Writer:
    """Updates keys of every partition; each batch has a tombstone among its records."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._serial = 0

    async def write(self, batches: int) -> None:
        for _ in range(batches):
            for codec in Codec:
                await produce_to(self._client, _at(codec), self._batch(codec))
        await asyncio.sleep(2 * SEGMENT_MS / 1000)
        for codec in Codec:  # the active segment is not cleaned, so roll it
            await produce_to(self._client, _at(codec), self._batch(codec))

    def _batch(self, codec: Codec) -> bytearray:
        now_ms = time.time_ns() // 1_000_000
        records = []
        for index in range(3):
            self._serial += 1
            key = b"k%d" % (self._serial % KEYS)
            value = None if index == 1 else b"v%d" % self._serial
            # Timestamps descend within a batch, so none of them is the base timestamp by chance.
            records.append(NewRecord(now_ms - 10 * index, key, value))
        return encode_batch(records, codec=codec)


def _at(codec: Codec) -> TopicPartition:
    return TopicPartition(TOPIC, codec)


def _copy(codec: Codec) -> TopicPartition:
    return TopicPartition(f"a.{TOPIC}", codec)


async def _headers(client: KafkaClient, at: TopicPartition) -> list[BatchHeader]:
    leader = (await client.metadata([at.topic])).topics[at.topic].partitions[at.partition].leader
    fetched = await client.fetch(leader, {at: FetchPosition(0)}, wait_ms_max=0)
    return [header for _, header in iter_headers(fetched[at].records)]


async def _until_cleaned(client: KafkaClient, before: int) -> None:
    """Wait until the cleaner has given one batch per partition, from an offset on, a delete
    horizon.
    """
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        for codec in Codec:
            while not any(
                header.has_delete_horizon and header.base_offset >= before
                for header in await _headers(client, _at(codec))
            ):
                await asyncio.sleep(0.1)


async def _until_copied(
    clients: tuple[KafkaClient, KafkaClient],
    before: dict[Codec, list[Record]],
    worker: MirrorProcess,
) -> dict[Codec, list[Record]]:
    """Wait until every record of the source has a copy; return which of `before` have one.

    The cleaner runs meanwhile: a record that it removes before the mirror reads it has no copy.
    """
    source, target = clients
    copied: dict[Codec, list[Record]] = {}

    async def is_copied() -> bool:
        for codec in Codec:
            copies = [record[1:] for record in await read_records(target, _copy(codec))]
            left = [record[1:] for record in await read_records(source, _at(codec))]
            copied[codec] = _in_order_of(before[codec], copies)
            are_known = len(copied[codec]) == len(copies)
            if not are_known or len(_in_order_of(copied[codec], left)) < len(left):
                return False
        return True

    await worker.until(is_copied)
    return copied


def _in_order_of(records: list[Record], wanted: Sequence[tuple[object, ...]]) -> list[Record]:
    """Return the records with these contents, as far as they come in this order."""
    rest = iter(wanted)
    content = next(rest, None)
    found = []
    for record in records:
        if content is not None and record[1:] == content:
            found.append(record)
            content = next(rest, None)
    return found


async def _check_times(target: KafkaClient, codec: Codec) -> None:
    """Check that the first record from any time on is found by the batches' own times."""
    copies = await read_records(target, _copy(codec))
    for timestamp_ms in sorted({record.timestamp_ms for record in copies}):
        here = (await target.list_offsets({_copy(codec): timestamp_ms}))[_copy(codec)]
        first = next(each for each in copies if each.timestamp_ms >= timestamp_ms)
        assert (here.offset, here.timestamp_ms) == (first.offset, first.timestamp_ms)


async def test_cleaned_before_it_is_copied_and_again_before_it_is_mapped(
    peers: Peers, clients: tuple[KafkaClient, KafkaClient], tmp_path: Path
) -> None:
    source, target = clients
    topic = NewTopic(name=TOPIC, partitions=len(Codec), configs=TOPIC_CONFIG)
    assert (await source.create_topics([topic]))[TOPIC] is None
    writer = Writer(source)
    await writer.write(12)
    await _until_cleaned(source, 0)
    before = {codec: await read_records(source, _at(codec)) for codec in Codec}
    bootstraps = peers[0].bootstrap, peers[1].bootstrap
    unmapped = Limits(map_flush_ms=NEVER_MS)
    async with mirror(tmp_path, *bootstraps, topics=(TOPIC,), limits=unmapped) as worker:
        before = await _until_copied(clients, before, worker)
        paths = [flow["batches"]["delete_horizon"] for flow in (await worker.link())["flows"]]
        assert all(paths), paths
        for codec in Codec:
            await _check_times(target, codec)
        await worker.kill()
    ends = [records[-1].offset + 1 for records in before.values()]
    await writer.write(6)
    await _until_cleaned(source, max(ends))
    # Before the worker starts: the cleaner goes on, and may remove what was just copied.
    left = {codec: await read_records(source, _at(codec)) for codec in Codec}
    expected = {codec: _union(before[codec], left[codec]) for codec in Codec}
    assert any(len(expected[codec]) > len(left[codec]) for codec in Codec), "it was cleaned"
    async with mirror(tmp_path, *bootstraps, topics=(TOPIC,)) as worker:
        expected = await _until_copied(clients, expected, worker)
        assert await worker.stop() == 0
    for codec in Codec:
        copies = await read_records(target, _copy(codec))
        assert [record[1:] for record in copies] == [record[1:] for record in expected[codec]]
        offset_map = await read_map(target, _at(codec))
        place = {o.offset: c.offset for o, c in zip(expected[codec], copies, strict=True)}
        for record in await read_records(source, _at(codec)):
            assert offset_map.place_from(record.offset).target_offset == place[record.offset]


def _union(earlier: list[Record], later: list[Record]) -> list[Record]:
    """Return the records that the log had at either time, in their order."""
    return sorted({record.offset: record for record in (*earlier, *later)}.values())
