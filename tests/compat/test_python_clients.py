"""Existing Python clients work unchanged: librdkafka (confluent-kafka), aiokafka, kafka-python."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.structs
import pytest

from tests.support.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real

RECORDS = 2_000
PARTITIONS = 4
WAIT_SECONDS_MAX = 60.0


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def value(index: int) -> bytes:
    return b"value-%06d-" % index + b"x" * (index % 200)


def check(seen: list[tuple[int, int, bytes, bytes]]) -> None:
    """Assert that each record is there once, in order per partition, with dense offsets."""
    assert sorted(entry[3] for entry in seen) == [value(index) for index in range(RECORDS)]
    partitions = {partition for partition, *_ in seen}
    assert len(partitions) == PARTITIONS
    for partition in partitions:
        mine = sorted(entry[1:] for entry in seen if entry[0] == partition)
        assert [offset for offset, *_ in mine] == list(range(len(mine)))
        assert [v for *_, v in mine] == sorted(v for *_, v in mine)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_confluent_kafka(broker: BrokerProcess, codec: str) -> None:
    topic = name()
    await asyncio.to_thread(_confluent_produce, broker.bootstrap, topic, codec)
    seen = await asyncio.to_thread(_confluent_consume, broker.bootstrap, topic, name(), RECORDS)
    check(seen)


def _confluent_produce(bootstrap: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.num.messages": 100,
        }
    )
    failures: list[Any] = []
    # The first message creates the topic; keys spread when its partitions are known.
    producer.list_topics(topic, timeout=20)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(producer.list_topics(topic, timeout=20).topics[topic].partitions) < PARTITIONS:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for index in range(RECORDS):
        producer.produce(
            topic,
            value(index),
            b"key-%d" % (index % 50),
            headers={"n": str(index)},
            timestamp=1_700_000_000_000 + index,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures


def _confluent_consume(
    bootstrap: str, topic: str, group: str, count: int
) -> list[tuple[int, int, bytes, bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    seen: list[tuple[int, int, bytes, bytes]] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(seen) < count and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=1.0):
                assert message.error() is None, message.error()
                content, key = message.value(), message.key()
                partition, offset = message.partition(), message.offset()
                assert content is not None
                assert key is not None
                assert partition is not None
                assert offset is not None
                index = int(content.split(b"-")[1])
                assert message.timestamp()[1] == 1_700_000_000_000 + index
                assert message.headers() == [("n", str(index).encode())]
                seen.append((partition, offset, key, content))
        if seen:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return seen


async def test_confluent_kafka_resumes_from_committed_offsets(broker: BrokerProcess) -> None:
    topic, group = name(), name()
    await asyncio.to_thread(_confluent_produce, broker.bootstrap, topic, "lz4")
    first = await asyncio.to_thread(_confluent_consume, broker.bootstrap, topic, group, 500)
    await broker.stop()
    await broker.start()
    rest = await asyncio.to_thread(
        _confluent_consume, broker.bootstrap, topic, group, RECORDS - len(first)
    )
    check(first + rest)


async def test_aiokafka(broker: BrokerProcess) -> None:
    topic = name()
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap,
        enable_idempotence=True,
        compression_type="lz4",
        linger_ms=5,
    )
    await producer.start()
    try:
        await producer.partitions_for(topic)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            sent = [
                await producer.send(topic, value(index), b"key-%d" % (index % 50))
                for index in range(RECORDS)
            ]
            results = await asyncio.gather(*sent)
    finally:
        await producer.stop()
    assert len({(result.partition, result.offset) for result in results}) == RECORDS
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=name(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    seen: list[tuple[int, int, bytes, bytes]] = []
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(seen) < RECORDS:
                batches = await consumer.getmany(timeout_ms=1000)
                for records in batches.values():
                    seen += [(r.partition, r.offset, r.key, r.value) for r in records]
        await consumer.commit()
        for partition in consumer.assignment():
            assert await consumer.committed(partition) == await consumer.position(partition)
    finally:
        await consumer.stop()
    check(seen)


async def test_kafka_python(broker: BrokerProcess) -> None:
    topic = name()
    await asyncio.to_thread(_kafka_python, broker.bootstrap, topic)


def _kafka_python(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, compression_type="gzip", linger_ms=5
    )
    assert len(producer.partitions_for(topic)) == PARTITIONS
    futures = [
        producer.send(topic, value(index), b"key-%d" % (index % 50)) for index in range(RECORDS)
    ]
    producer.flush(WAIT_SECONDS_MAX)
    assert len({(f.get(30).partition, f.get(30).offset) for f in futures}) == RECORDS
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=name(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
    )
    seen: list[tuple[int, int, bytes, bytes]] = []
    for record in consumer:
        seen.append((record.partition, record.offset, record.key, record.value))
        if len(seen) == RECORDS:
            break
    consumer.commit()
    for partition in range(PARTITIONS):
        at = kafka.structs.TopicPartition(topic, partition)
        assert consumer.committed(at) == consumer.end_offsets([at])[at]
    consumer.close()
    check(seen)


async def test_key_partitioning_agrees_between_clients(broker: BrokerProcess) -> None:
    """Java, aiokafka and kafka-python hash keys with murmur2; librdkafka does by option."""
    topic = name()
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    try:
        await producer.partitions_for(topic)
        theirs = [
            (await producer.send_and_wait(topic, b"v", b"k%d" % index)).partition
            for index in range(20)
        ]
    finally:
        await producer.stop()
    assert await asyncio.to_thread(_confluent_partitions, broker.bootstrap, topic) == theirs


def _confluent_partitions(bootstrap: str, topic: str) -> list[int | None]:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"}
    )
    placed: dict[bytes | None, int | None] = {}
    for index in range(20):
        producer.produce(
            topic,
            b"v",
            b"k%d" % index,
            on_delivery=lambda _, m: placed.update({m.key(): m.partition()}),
        )
    producer.flush(30)
    return [placed[b"k%d" % index] for index in range(20)]
