"""A delayed EndTxn must not end the next transaction: frames held back on an older connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real

WAIT_SECONDS = 30.0
ID = "tx"
BUSY = (ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas)


class Producer(NamedTuple):
    """Who a transactional producer is, and the connection by which it talks."""

    line: Connection
    producer_id: int
    epoch: int

    @property
    def named(self) -> dict[str, Any]:
        return {
            "transactional_id": ID,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


async def new_topic(broker: BrokerProcess) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    async with KafkaClient(broker.bootstrap) as client:
        await client.create_topics([NewTopic(name=topic, partitions=1)])
    return topic


async def line_to(broker: BrokerProcess) -> Connection:
    host, port = broker.bootstrap.split(":")
    return await connect(host, int(port), client_id="test", timeout_ms=5_000)


async def begin(line: Connection) -> Producer:
    fields = {"transactional_id": ID, "transaction_timeout": 60_000}
    find = {"key": ID, "key_type": 1}
    async with asyncio.timeout(WAIT_SECONDS):
        while True:  # the first question creates the topic of transactions, the second waits
            found = await line.call(ApiKey.FIND_COORDINATOR, find, 3)
            answer = await line.call(ApiKey.INIT_PRODUCER_ID, fields, 5)
            if found.error_code is answer.error_code is ErrorCode.none:
                break
            await asyncio.sleep(0.02)
    assert answer.error_code is ErrorCode.none
    return Producer(line, answer.producer_id, answer.producer_epoch)


async def add(producer: Producer, topic: str) -> None:
    """AddPartitionsToTxn, until the transaction before is over."""
    fields = {
        "v3_and_below_transactional_id": ID,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": [{"name": topic, "partitions": (0,)}],
    }
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            answer = await producer.line.call(ApiKey.ADD_PARTITIONS_TO_TXN, fields, 3)
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            if result.partition_error_code not in BUSY:
                break
    assert result.partition_error_code is ErrorCode.none


async def write(producer: Producer, topic: str, value: str, *, sequence: int, version: int) -> None:
    batch = encode_batch(
        [NewRecord(0, None, value.encode())],
        attributes=TRANSACTIONAL_BIT,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )
    records = codec.PartitionRecords(topic, 0, memoryview(batch))
    body = codec.encode_request(version, codec.ProduceRequest(ID, -1, 30_000, [records]))
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            frame, position = await producer.line.send(ApiKey.PRODUCE, version, body)
            (result,) = codec.decode_response(version, frame, position)
            if result.error_code not in BUSY:
                break
    assert result.error_code == ErrorCode.none


async def end(producer: Producer, *, commit: bool, version: int) -> Any:
    fields = {**producer.named, "committed": commit}
    return await producer.line.call(ApiKey.END_TXN, fields, version)


async def state_of(line: Connection) -> str:
    answer = await line.call(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": (ID,)}, 0)
    return str(answer.transaction_states[0].transaction_state)


async def committed(broker: BrokerProcess, topic: str, producer: Producer) -> list[bytes | None]:
    """What read_committed readers see once the markers of the last end are written."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (await state_of(producer.line)).startswith("Complete"):
            await asyncio.sleep(0.01)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    partition = confluent_kafka.TopicPartition(topic, 0, 0)

    def read() -> list[bytes | None]:
        consumer.assign([partition])
        values = []
        while (message := consumer.poll(WAIT_SECONDS)) is not None and message.error() is None:
            values.append(message.value())
        consumer.close()
        return values

    return await asyncio.to_thread(read)


async def test_version_2_a_late_end_is_fenced_for_ever(broker: BrokerProcess) -> None:
    """Each end raises the epoch, so the frame names a transaction that is over (KIP-890)."""
    topic = await new_topic(broker)
    old, new = await line_to(broker), await line_to(broker)
    first = await begin(old)
    await write(first, topic, "first", sequence=0, version=12)
    # The frame of this end is held back; the client hears nothing, connects anew and repeats it.
    held_back = first
    repeated = await end(first._replace(line=new), commit=True, version=5)
    assert repeated.error_code is ErrorCode.none
    assert (repeated.producer_id, repeated.producer_epoch) == (first.producer_id, first.epoch + 1)
    again = await end(first._replace(line=new), commit=True, version=5)
    assert again.error_code in (ErrorCode.none, ErrorCode.concurrent_transactions)
    second = Producer(new, repeated.producer_id, repeated.producer_epoch)
    await write(second, topic, "second", sequence=0, version=12)
    late = await end(held_back, commit=True, version=5)
    assert late.error_code is ErrorCode.producer_fenced
    # Also where it arrives by the newest connection there is.
    newest = await line_to(broker)
    late = await end(held_back._replace(line=newest), commit=True, version=5)
    assert late.error_code is ErrorCode.producer_fenced
    assert await state_of(new) == "Ongoing", "the second transaction goes on"
    aborted = await end(second, commit=False, version=5)
    assert aborted.error_code is ErrorCode.none
    assert await committed(broker, topic, second) == [b"first"]
    for line in (old, new, newest):
        await line.close()


async def test_version_1_a_late_end_by_an_older_connection_is_refused(
    broker: BrokerProcess,
) -> None:
    """Both ends look the same; but the client has added partitions by a newer connection since."""
    topic = await new_topic(broker)
    old, new = await line_to(broker), await line_to(broker)
    first = await begin(old)
    await add(first, topic)
    await write(first, topic, "first", sequence=0, version=9)
    held_back = first
    # A client that reconnects is never refused: its connection is younger than what it added by.
    repeated = await end(first._replace(line=new), commit=True, version=3)
    assert repeated.error_code is ErrorCode.none
    second = first._replace(line=new)
    await add(second, topic)
    await write(second, topic, "second", sequence=1, version=9)
    late = await end(held_back, commit=True, version=3)
    assert late.error_code is ErrorCode.invalid_txn_state
    assert await state_of(new) == "Ongoing", "the second transaction goes on"
    aborted = await end(second, commit=False, version=3)
    assert aborted.error_code is ErrorCode.none
    assert await committed(broker, topic, second) == [b"first"]
    for line in (old, new):
        await line.close()


async def test_version_1_what_remains_of_it(broker: BrokerProcess) -> None:
    """A repetition by the connection of the next transaction is that transaction's end: this is
    the protocol, and the reason for version 2. No client sends one: it had an answer there."""
    topic = await new_topic(broker)
    line = await line_to(broker)
    producer = await begin(line)
    await add(producer, topic)
    await write(producer, topic, "first", sequence=0, version=9)
    assert (await end(producer, commit=True, version=3)).error_code is ErrorCode.none
    await add(producer, topic)
    await write(producer, topic, "second", sequence=1, version=9)
    assert (await end(producer, commit=True, version=3)).error_code is ErrorCode.none
    assert await committed(broker, topic, producer) == [b"first", b"second"]
    await line.close()
