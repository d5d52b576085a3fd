"""Acknowledged records survive kill -9 and a torn tail, and nothing is duplicated."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once

pytestmark = pytest.mark.real

KILLS = 5
PARTITIONS = 3


async def produce_until(
    broker: BrokerProcess, partition: int, stop: asyncio.Event, acknowledged: list[bytes]
) -> None:
    """Produce with an idempotent producer; retry each sequence until it is acknowledged."""
    at = TopicPartition("t", partition)
    sequence = 0
    producer: tuple[int, int] | None = None
    client = KafkaClient(broker.bootstrap, request_timeout_ms=5_000)
    try:
        while not stop.is_set():
            value = b"%d:%d" % (partition, sequence)
            try:
                producer = producer or await client.init_producer_id()
                records = encode_batch(
                    [NewRecord(sequence, b"k", value)],
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    base_sequence=sequence,
                )
                answer = await produce_once(client, 1, at, records)
            except KafkaError:
                await asyncio.sleep(0.02)
                continue
            if answer.error == ErrorCode.none:
                acknowledged.append(value)
                sequence += 1
            else:
                assert answer.error.retriable, answer
                await asyncio.sleep(0.02)
    finally:
        await client.close()


async def read_all(broker: BrokerProcess, partition: int) -> list[Record]:
    async with KafkaClient(broker.bootstrap) as client:
        return [record async for record in read_topic(client, "t", partition=partition)]


async def test_every_acknowledged_record_once_over_kill_9(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=PARTITIONS)])
        stop = asyncio.Event()
        acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        producers = [
            asyncio.create_task(produce_until(broker, index, stop, acknowledged[index]))
            for index in range(PARTITIONS)
        ]
        for _ in range(KILLS):
            before = [len(each) for each in acknowledged]
            while any(
                len(each) < count + 50 for each, count in zip(acknowledged, before, strict=True)
            ):
                await asyncio.sleep(0.01)
            await broker.kill()
            await broker.start()
        stop.set()
        await asyncio.gather(*producers)
        for partition, expected in enumerate(acknowledged):
            records = await read_all(broker, partition)
            values = [record.value for record in records]
            assert values[: len(expected)] == expected
            assert len(values) <= len(expected) + 1, "at most the batch in flight is there too"
            assert [record.offset for record in records] == list(range(len(records)))


@pytest.mark.parametrize("seed", range(3))
async def test_a_torn_tail_is_truncated_and_nothing_else(
    zookeeper: str, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    async with running_broker(zookeeper, tmp_path) as broker:
        at = TopicPartition("t", 0)
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
            for index in range(20):
                records = encode_batch([NewRecord(0, b"k", b"%d" % index)])
                assert (await produce_once(client, 1, at, records)).error == ErrorCode.none
        await broker.kill()
        torn = bytes(encode_batch([NewRecord(0, b"k", b"never acknowledged" * 20)], base_offset=20))
        segment = broker.log_dir / "t-0" / ("0" * 20 + ".log")
        with segment.open("ab") as log:
            log.write(torn[: rng.randrange(1, len(torn))])
        await broker.start()
        assert [record.value for record in await read_all(broker, 0)] == [
            b"%d" % index for index in range(20)
        ]
        async with KafkaClient(broker.bootstrap) as client:
            records = encode_batch([NewRecord(0, b"k", b"next")])
            assert (await produce_once(client, 1, at, records)).base_offset == 20


async def test_a_clean_stop_exits_with_zero_and_keeps_everything(
    zookeeper: str, tmp_path: Path
) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        at = TopicPartition("t", 0)
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
            for index in range(5):
                await produce_once(client, 1, at, encode_batch([NewRecord(0, None, b"%d" % index)]))
        assert await broker.stop() == 0
        with contextlib.suppress(FileNotFoundError):
            assert not Path(broker.settings.ready_file).read_text()
        await broker.start()
        assert len(await read_all(broker, 0)) == 5
