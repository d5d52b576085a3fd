"""A delayed EndTxn must not end the next transaction: frames held back on an older connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.real.broker.transactional_frames import (
    WAIT_SECONDS,
    Producer,
    add,
    begin,
    end,
    line_to,
    settle,
    state_of,
    write,
)
from tests.support.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


async def new_topic(broker: BrokerProcess) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    async with KafkaClient(broker.bootstrap) as client:
        await client.create_topics([NewTopic(name=topic, partitions=1)])
    return topic


async def committed(broker: BrokerProcess, topic: str, producer: Producer) -> list[bytes | None]:
    """Return what read_committed readers see after the markers of the last end."""
    await settle(producer.line)
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
    """Each end raises the epoch, so the frame belongs to a finished transaction (KIP-890)."""
    topic = await new_topic(broker)
    old, new = await line_to(broker), await line_to(broker)
    first = await begin(old)
    await write(first, topic, "first", sequence=0, version=12)
    # The frame of this end is held back: the client gets no response, reconnects and retries.
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
    # Also on the newest connection.
    newest = await line_to(broker)
    late = await end(held_back._replace(line=newest), commit=True, version=5)
    assert late.error_code is ErrorCode.producer_fenced
    assert await state_of(new) == "Ongoing", "the second transaction continues"
    aborted = await end(second, commit=False, version=5)
    assert aborted.error_code is ErrorCode.none
    assert await committed(broker, topic, second) == [b"first"]
    for line in (old, new, newest):
        await line.close()


async def test_version_1_a_late_end_by_an_older_connection_is_refused(
    broker: BrokerProcess,
) -> None:
    """Both ends are equal, but the client has added partitions on a newer connection since."""
    topic = await new_topic(broker)
    old, new = await line_to(broker), await line_to(broker)
    first = await begin(old)
    await add(first, topic)
    await write(first, topic, "first", sequence=0, version=9)
    held_back = first
    # A client that reconnects is never refused: its connection is newer than its additions.
    repeated = await end(first._replace(line=new), commit=True, version=3)
    assert repeated.error_code is ErrorCode.none
    second = first._replace(line=new)
    await add(second, topic)
    await write(second, topic, "second", sequence=1, version=9)
    late = await end(held_back, commit=True, version=3)
    assert late.error_code is ErrorCode.invalid_txn_state
    assert await state_of(new) == "Ongoing", "the second transaction continues"
    aborted = await end(second, commit=False, version=3)
    assert aborted.error_code is ErrorCode.none
    assert await committed(broker, topic, second) == [b"first"]
    for line in (old, new):
        await line.close()


async def test_version_1_the_next_transaction_waits_in_the_broker_for_markers(
    broker: BrokerProcess,
) -> None:
    """A client that got CONCURRENT_TRANSACTIONS would pause, librdkafka for 100 ms."""
    topic = await new_topic(broker)
    line = await line_to(broker)
    producer = await begin(line)
    fields = {f"v3_and_below_{name}": value for name, value in producer.named.items()}
    fields["v3_and_below_topics"] = [{"name": topic, "partitions": (0,)}]
    for number in range(20):
        answer = await line.call(ApiKey.ADD_PARTITIONS_TO_TXN, fields, 3)
        (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert result.partition_error_code is ErrorCode.none, number
        await write(producer, topic, f"{number}", sequence=number, version=9)
        assert (await end(producer, commit=True, version=3)).error_code is ErrorCode.none
    assert await committed(broker, topic, producer) == [b"%d" % each for each in range(20)]
    await line.close()


async def test_version_1_what_remains_of_it(broker: BrokerProcess) -> None:
    """A duplicate on the connection of the next transaction ends that transaction.

    The protocol of version 1 cannot tell them apart, which is the reason for version 2. No client
    sends such a duplicate: it had a response on that connection.
    """
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
