"""Transactions of existing clients on a real broker: commit, abort, fencing, kill -9."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import NewTopic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import messages
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.real.broker import transactional_frames as frames
from tests.support.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real

PARTITIONS = 3
WAIT_SECONDS = 30.0


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    async with running_broker(zookeeper, tmp_path, config=config) as broker:
        yield broker


async def new_topic(broker: BrokerProcess) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    async with KafkaClient(broker.bootstrap) as client:
        results = await client.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
    assert results[topic] is None
    return topic


def new_producer(broker: BrokerProcess, transactional_id: str, **options: Any) -> Any:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            **options,
        }
    )
    producer.init_transactions(WAIT_SECONDS)
    return producer


def write(producer: Any, topic: str, values: Iterable[str]) -> None:
    for index, value in enumerate(values):
        producer.produce(topic, value=value.encode(), partition=index % PARTITIONS)


def run_transaction(producer: Any, topic: str, values: Iterable[str], *, commit: bool) -> None:
    producer.begin_transaction()
    write(producer, topic, values)
    if commit:
        producer.commit_transaction(WAIT_SECONDS)
    else:
        assert producer.flush(WAIT_SECONDS) == 0
        producer.abort_transaction(WAIT_SECONDS)


def read_all(broker: BrokerProcess, topic: str, isolation: str = "read_committed") -> list[str]:
    """Return every value up to the last stable offset (or high watermark) of each partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"g-{uuid.uuid4().hex[:8]}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign(
        [
            confluent_kafka.TopicPartition(topic, index, confluent_kafka.OFFSET_BEGINNING)
            for index in range(PARTITIONS)
        ]
    )
    values: list[str] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None, "the consumer hangs"
        error, value, partition = message.error(), message.value(), message.partition()
        if error is None:
            assert value is not None
            values.append(value.decode())
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            assert partition is not None
            ended.add(partition)
    consumer.close()
    return sorted(values)


async def call(function: Any, *arguments: Any, **options: Any) -> Any:
    return await asyncio.to_thread(function, *arguments, **options)


async def test_committed_records_are_read_and_aborted_ones_are_not(broker: BrokerProcess) -> None:
    topic = await new_topic(broker)
    producer = await call(new_producer, broker, "tx")
    for round_number in range(4):
        values = [f"{round_number}-{index}" for index in range(9)]
        await call(run_transaction, producer, topic, values, commit=round_number % 2 == 0)
    expected = sorted(f"{r}-{i}" for r in (0, 2) for i in range(9))
    assert await call(read_all, broker, topic) == expected
    everything = await call(read_all, broker, topic, "read_uncommitted")
    assert len(everything) == 36


async def test_an_open_transaction_holds_readers_back(broker: BrokerProcess) -> None:
    topic = await new_topic(broker)
    producer = await call(new_producer, broker, "tx")
    producer.begin_transaction()
    write(producer, topic, ["a", "b", "c"])
    assert await call(producer.flush, WAIT_SECONDS) == 0
    assert await call(read_all, broker, topic) == []
    await call(producer.commit_transaction, WAIT_SECONDS)
    # The markers follow the response; a new transaction can begin only after them.
    await call(run_transaction, producer, topic, ["d"], commit=False)
    assert await call(read_all, broker, topic) == ["a", "b", "c"]


async def test_a_zombie_is_fenced(broker: BrokerProcess) -> None:
    topic = await new_topic(broker)
    zombie = await call(new_producer, broker, "tx")
    zombie.begin_transaction()
    write(zombie, topic, ["zombie"])
    assert await call(zombie.flush, WAIT_SECONDS) == 0
    heir = await call(new_producer, broker, "tx")
    await call(run_transaction, heir, topic, ["heir"], commit=True)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        await call(zombie.commit_transaction, WAIT_SECONDS)
    assert fenced.value.args[0].fatal()
    await call(run_transaction, heir, topic, ["heir-2"], commit=True)
    await call(run_transaction, heir, topic, ["heir-3"], commit=False)
    assert await call(read_all, broker, topic) == ["heir", "heir-2"]


async def test_consume_transform_produce(broker: BrokerProcess) -> None:
    """Offsets follow the transaction: visible after a commit, unchanged after an abort."""
    source, target = await new_topic(broker), await new_topic(broker)
    seed = await call(new_producer, broker, "seed")
    await call(run_transaction, seed, source, [f"{i}" for i in range(9)], commit=True)
    group = f"g-{uuid.uuid4().hex[:8]}"

    def copy(commit: bool) -> list[str]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([source])
        producer = new_producer(broker, "copier")
        producer.begin_transaction()
        copied: list[str] = []
        while len(copied) < 9:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, "nothing to copy"
            assert message.error() is None
            value = message.value()
            assert value is not None
            copied.append(value.decode())
            producer.produce(target, value=value, partition=0)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()),
            consumer.consumer_group_metadata(),
            WAIT_SECONDS,
        )
        if commit:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
        consumer.close()
        return copied

    async def committed() -> list[int]:
        async with KafkaClient(broker.bootstrap) as client:
            fields = {
                "group_id": group,
                "topics": [{"name": source, "partition_indexes": tuple(range(PARTITIONS))}],
                "require_stable": True,
            }
            while True:
                response = await client.call_coordinator(group, ApiKey.OFFSET_FETCH, fields)
                entries = response.topics[0].partitions
                if all(entry.error_code is ErrorCode.none for entry in entries):
                    return [entry.committed_offset for entry in entries]
                codes = {entry.error_code for entry in entries}
                assert codes <= {ErrorCode.none, ErrorCode.unstable_offset_commit}

    assert len(await call(copy, False)) == 9
    assert await committed() == [-1] * PARTITIONS
    assert len(await call(copy, True)) == 9
    # Each partition holds three records and a marker.
    assert [offset in (3, 4) for offset in await committed()] == [True] * PARTITIONS
    await call(new_producer, broker, "copier")  # it gets its id when all markers are written
    assert len(await call(read_all, broker, target)) == 9
    await broker.kill()
    await broker.start()
    assert [offset in (3, 4) for offset in await committed()] == [True] * PARTITIONS


async def test_kill_9_in_mid_transaction(broker: BrokerProcess) -> None:
    """Committed records stay, and an open transaction can continue after the kill."""
    topic = await new_topic(broker)
    producer = await call(new_producer, broker, "tx")
    committed: list[str] = []
    for round_number in range(3):
        kept = [f"{round_number}-kept-{i}" for i in range(6)]
        dropped = [f"{round_number}-dropped-{i}" for i in range(6)]
        await call(run_transaction, producer, topic, kept, commit=True)
        await call(run_transaction, producer, topic, dropped, commit=False)
        across = [f"{round_number}-across-{i}" for i in range(6)]
        producer.begin_transaction()
        write(producer, topic, across)
        assert await call(producer.flush, WAIT_SECONDS) == 0
        await broker.kill()
        await broker.start()
        await call(producer.commit_transaction, WAIT_SECONDS)
        committed += kept + across
    heir = await call(new_producer, broker, "tx")
    await call(run_transaction, heir, topic, ["last"], commit=True)
    await call(run_transaction, heir, topic, ["never"], commit=False)
    assert await call(read_all, broker, topic) == sorted([*committed, "last"])


async def test_a_transaction_past_its_timeout_is_aborted(broker: BrokerProcess) -> None:
    topic = await new_topic(broker)
    slow = await call(new_producer, broker, "slow", **{"transaction.timeout.ms": 1_000})
    slow.begin_transaction()
    write(slow, topic, ["late"])
    assert await call(slow.flush, WAIT_SECONDS) == 0
    other = await call(new_producer, broker, "other")
    await call(run_transaction, other, topic, ["in time"], commit=True)
    async with KafkaClient(broker.bootstrap) as client:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                listed = await client.call(
                    ApiKey.LIST_TRANSACTIONS, {"state_filters": ("CompleteAbort",)}
                )
                if [entry.transactional_id for entry in listed.transaction_states] == ["slow"]:
                    break
                await asyncio.sleep(0.05)
        for pattern, found in (("s.*", ["slow"]), ("lo", []), ("other|slow", ["other", "slow"])):
            listed = await client.call(
                ApiKey.LIST_TRANSACTIONS, {"transactional_id_pattern": pattern}
            )
            ids = sorted(entry.transactional_id for entry in listed.transaction_states)
            assert ids == found
        response = await client.call(
            ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ("slow", "nobody")}
        )
        known, unknown = response.transaction_states
        assert unknown.error_code is ErrorCode.transactional_id_not_found
        assert known.transaction_state == "CompleteAbort"
        assert known.producer_epoch == 1, "the slow producer is fenced"
        leader = (await client.metadata([topic])).topics[topic].partitions[0].leader
        described = await client.call(
            ApiKey.DESCRIBE_PRODUCERS,
            {"topics": [{"name": topic, "partition_indexes": (0,)}]},
            node_id=leader,
        )
    producers = described.topics[0].partitions[0].active_producers
    assert {entry.current_txn_start_offset for entry in producers} == {-1}
    with pytest.raises(confluent_kafka.KafkaException):
        await call(slow.commit_transaction, WAIT_SECONDS)
    assert await call(read_all, broker, topic) == ["in time"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [(9, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)],
)
async def test_a_batch_that_no_transaction_expects_is_refused(
    broker: BrokerProcess, version: int, expected: ErrorCode
) -> None:
    """KIP-890: without AddPartitionsToTxn a transactional batch would stay open without end."""
    topic = await new_topic(broker)
    producer = await call(new_producer, broker, "tx")
    await call(run_transaction, producer, topic, ["a"], commit=True)
    async with KafkaClient(broker.bootstrap) as client:
        described = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ("tx",)})
        known = described.transaction_states[0]
        batch = encode_batch(
            [NewRecord(0, None, b"stray")],
            attributes=TRANSACTIONAL_BIT,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            base_sequence=0,
        )
        body = codec.encode_request(
            version,
            codec.ProduceRequest(
                "tx", -1, 30_000, [codec.PartitionRecords(topic, 2, memoryview(batch))]
            ),
        )
        host, port = broker.bootstrap.split(":")
        line = await connect(host, int(port), client_id="test", timeout_ms=5_000)
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                frame, position = await line.send(ApiKey.PRODUCE, version, body)
                (result,) = codec.decode_response(version, frame, position)
                # Until the markers are written the producer has to retry.
                if result.error_code != ErrorCode.not_enough_replicas:
                    break
        await line.close()
    assert result.error_code == expected
    assert await call(read_all, broker, topic) == ["a"]


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("partition", [0, 1])
async def test_batches_of_another_producer_do_not_ride_on_a_transaction(
    broker: BrokerProcess, version: int, partition: int
) -> None:
    """Nobody would end what they open: readers would wait for ever."""
    topic = await new_topic(broker)
    line = await frames.line_to(broker)
    producer = await frames.begin(line)
    if version < 12:
        await frames.add(producer, topic)
    batches = (
        (0, transactional_batch(producer.producer_id, producer.epoch)),
        (partition, transactional_batch(producer.producer_id + 77, 0)),
    )
    fields = {
        "transactional_id": frames.ID,
        "acks": -1,
        "timeout": 30_000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": at, "records": bytes(batch)}]}
            for at, batch in batches
        ],
    }
    body = [messages.encode_request(ApiKey.PRODUCE, version, fields)]
    frame, position = await line.send(ApiKey.PRODUCE, version, body)
    codes = [each.error_code for each in codec.decode_response(version, frame, position)]
    assert codes == [ErrorCode.invalid_producer_id_mapping] * 2
    places = [{"name": topic, "partition_indexes": (0, 1)}]
    described = await line.call(ApiKey.DESCRIBE_PRODUCERS, {"topics": places}, 0)
    assert not any(each.active_producers for each in described.topics[0].partitions)
    # With acks=0 there is no response, and the connection is closed.
    body = [messages.encode_request(ApiKey.PRODUCE, version, {**fields, "acks": 0})]
    with pytest.raises(KafkaError) as closed:
        await line.send(ApiKey.PRODUCE, version, body)
    assert closed.value.code == ErrorCode.network_exception


def transactional_batch(producer_id: int, producer_epoch: int) -> bytearray:
    return encode_batch(
        [NewRecord(0, None, b"v")],
        attributes=TRANSACTIONAL_BIT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
    )


async def test_transactions_over_two_brokers(zookeeper: str, tmp_path: Path) -> None:
    """Coordinator and partition leaders are different brokers: verification and markers travel."""
    connect_to = f"{zookeeper}/two{uuid.uuid4().hex[:8]}"
    config = {"transaction.state.log.num.partitions": "1"}
    async with (
        running_broker(connect_to, tmp_path, broker_id=1, config=config) as first,
        running_broker(connect_to, tmp_path, broker_id=2, config=config) as second,
    ):
        async with KafkaClient(first.bootstrap) as client:
            while len((await client.metadata([])).brokers) < 2:
                await asyncio.sleep(0.05)
        topic = await new_topic(first)
        async with KafkaClient(first.bootstrap) as client:
            described = (await client.metadata([topic])).topics[topic]
            assert {entry.leader for entry in described.partitions.values()} == {1, 2}
        producer = await call(new_producer, second, "tx")
        for round_number in range(4):
            values = [f"{round_number}-{index}" for index in range(9)]
            await call(run_transaction, producer, topic, values, commit=round_number % 2 == 0)
        await call(run_transaction, producer, topic, ["z"], commit=False)
        expected = sorted(f"{r}-{i}" for r in (0, 2) for i in range(9))
        assert await call(read_all, first, topic) == expected


async def test_version_2_over_two_brokers(zookeeper: str, tmp_path: Path) -> None:
    """Writes add their partitions at a coordinator elsewhere, and markers with the raised epoch
    come back from it; many writes are under way at once."""
    connect_to = f"{zookeeper}/two{uuid.uuid4().hex[:8]}"
    config = {"transaction.state.log.num.partitions": "1"}
    async with (
        running_broker(connect_to, tmp_path, broker_id=1, config=config) as first,
        running_broker(connect_to, tmp_path, broker_id=2, config=config) as second,
    ):
        brokers = {1: first, 2: second}
        async with KafkaClient(first.bootstrap) as client:
            while len((await client.metadata([])).brokers) < 2:
                await asyncio.sleep(0.05)
            topic = await new_topic(first)
            described = (await client.metadata([topic])).topics[topic].partitions
        leaders = {index: entry.leader for index, entry in described.items()}
        lines = {broker_id: await frames.line_to(broker) for broker_id, broker in brokers.items()}
        found = await frames.find(lines[1])
        coordinator = lines[found]
        assert {found} != set(leaders.values()), "some partition is led elsewhere"
        producer = await frames.begin(coordinator)
        expected = []
        for number in range(6):
            await asyncio.gather(
                *(
                    frames.write(
                        producer._replace(line=lines[leader]),
                        topic,
                        f"{number}-{partition}-{sequence}",
                        sequence=sequence,
                        version=12,
                        partition=partition,
                    )
                    for partition, leader in leaders.items()
                    for sequence in range(3)
                )
            )
            is_commit = number % 2 == 0
            ended = await frames.end(producer, commit=is_commit, version=5)
            assert ended.error_code is ErrorCode.none
            assert ended.producer_epoch == producer.epoch + 1
            producer = producer._replace(epoch=ended.producer_epoch)
            if is_commit:
                expected += [f"{number}-{p}-{s}" for p in leaders for s in range(3)]
        await frames.settle(coordinator)
        assert await call(read_all, first, topic) == sorted(expected)
        for line in lines.values():
            await line.close()


async def test_transactions_are_listed_by_pattern_and_duration(broker: BrokerProcess) -> None:
    topic = await new_topic(broker)
    names = ("a-1", "a-2", "b-1")
    opened = [await call(new_producer, broker, name) for name in names]
    for producer in opened[1:]:
        producer.begin_transaction()
        write(producer, topic, ["x"])
        assert await call(producer.flush, WAIT_SECONDS) == 0
    async with KafkaClient(broker.bootstrap) as client:

        async def listed(**filters: Any) -> list[str]:
            response = await client.call(ApiKey.LIST_TRANSACTIONS, filters)
            assert response.error_code is ErrorCode.none
            return sorted(entry.transactional_id for entry in response.transaction_states)

        assert await listed() == list(names)
        assert await listed(transactional_id_pattern="") == list(names)
        assert await listed(transactional_id_pattern="a-.") == ["a-1", "a-2"]
        assert await listed(transactional_id_pattern="a") == [], "whole ids match"
        assert await listed(transactional_id_pattern="a-.", state_filters=("Ongoing",)) == ["a-2"]
        assert await listed(duration_filter=3_600_000) == []
        response = await client.call(
            ApiKey.LIST_TRANSACTIONS, {"transactional_id_pattern": "a(", "state_filters": ("No",)}
        )
        assert response.error_code is ErrorCode.invalid_regular_expression
        described = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ("a-1",)})
        assert described.transaction_states[0].transaction_start_time is None, "never began one"
