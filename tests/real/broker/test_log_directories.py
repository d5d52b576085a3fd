"""Brokers with several log directories: placement of replicas, failed directories."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    partition_of,
    replica_directory,
    replicas_are_equal,
    running_cluster,
)
from tests.support.sick_disk import sick_disk

pytestmark = pytest.mark.real

PARTITIONS = 4
VALUE_BYTES = 200_000
FILL_SECONDS_MAX = 120.0


async def described(client: KafkaClient) -> dict[str, tuple[ErrorCode, set[tuple[str, int]]]]:
    """Return the error and the replicas of each log directory."""
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node_id=1)
    return {
        Path(each.log_dir).name: (
            ErrorCode(each.error_code),
            {(t.name, p.partition_index) for t in each.topics for p in t.partitions},
        )
        for each in answer.results
    }


async def partitions_told(client: KafkaClient) -> dict[int, Any]:
    """Return the partitions of topic t in the Metadata of broker 2."""
    asked = {
        "topics": [{"name": "t", "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    (topic,) = (await client.call(ApiKey.METADATA, asked, node_id=2)).topics
    return {each.partition_index: each for each in topic.partitions}


async def test_partitions_are_spread_over_directories_and_found_again(
    zookeeper: str, tmp_path: Path
) -> None:
    names = ("one", "two", "three")
    async with running_broker(zookeeper, tmp_path, log_dirs=names) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=6)])
            batches = ProduceBatches(
                *(
                    (TopicPartition("t", index), encode_batch([NewRecord(0, b"k", b"%d" % index)]))
                    for index in range(6)
                )
            )
            for at, answer in (await client.produce(1, batches)).items():
                assert answer.error is ErrorCode.none, at
            before = await described(client)
        assert set(before) == set(names)
        assert all(len(held) == 2 for _, held in before.values())
        for name, (error, held) in before.items():
            root = tmp_path / "broker-1" / name
            assert error is ErrorCode.none
            assert {f"{topic}-{index}" for topic, index in held} == {
                path.name for path in root.iterdir() if path.is_dir()
            }
            assert (root / "meta.properties").exists()
        for stop in (broker.kill, broker.stop):
            await stop()
            await broker.start()
            async with KafkaClient(broker.bootstrap) as client:
                assert await described(client) == before
                for index in range(6):
                    found = [each.value async for each in read_topic(client, "t", partition=index)]
                    assert found == [b"%d" % index]


async def test_nothing_replaces_an_unreadable_log_directory(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path, log_dirs=("one", "two")) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=2)])
            for index in range(2):
                at = TopicPartition("t", index)
                batch = encode_batch([NewRecord(0, b"k", b"%d" % index)])
                assert (await produce_once(client, 1, at, batch)).error is ErrorCode.none
            ((_, lost),) = (await described(client))["one"][1]
        await broker.kill()
        # The first directory, which also has the ZooKeeper session.
        one, away = tmp_path / "broker-1" / "one", tmp_path / "away"
        one.rename(away)
        one.write_text("no directory")
        await broker.start()
        async with KafkaClient(broker.bootstrap) as client:

            async def has_no_leader() -> bool:
                return bool((await partition_of(client, "t", lost)).leader == -1)

            await eventually(has_no_leader)
            assert (await described(client))["one"] == (ErrorCode.kafka_storage_error, set())
            found = [each.value async for each in read_topic(client, "t", partition=1 - lost)]
            assert found == [b"%d" % (1 - lost)]
            await client.create_topics([NewTopic(name="new", partitions=2)])
            assert len((await described(client))["two"][1]) == 3
        await broker.stop()
        one.unlink()
        away.rename(one)
        await broker.start()
        async with KafkaClient(broker.bootstrap) as client:
            await eventually(lambda: all_in_sync(client, "t"))
            found = [each.value async for each in read_topic(client, "t", partition=lost)]
            assert found == [b"%d" % lost]


async def fill_until(broker: BrokerProcess, client: KafkaClient, at: TopicPartition) -> int:
    """Produce until a disk of a broker fails; return the number of acknowledged batches."""
    acknowledged = 0
    async with asyncio.timeout(FILL_SECONDS_MAX):
        while "log directory" not in broker.log_text():
            batch = encode_batch([NewRecord(0, b"k", os.urandom(VALUE_BYTES))])
            try:
                leader = (await partition_of(client, at.topic, at.partition)).leader
                answer = await produce_once(client, leader, at, batch, timeout_ms=5_000)
                acknowledged += answer.error is ErrorCode.none
            except KafkaError:
                await asyncio.sleep(0.1)
    return acknowledged


async def test_a_failed_log_directory_goes_offline_and_returns_under_load(
    zookeeper: str, tmp_path: Path
) -> None:
    with sick_disk(tmp_path, tmp_path / "broker-1" / "sick") as disk:
        async with running_cluster(zookeeper, tmp_path, log_dirs=("sick", "well")) as brokers:
            await _fail_and_heal(brokers, disk.heal)


async def _fail_and_heal(brokers: list[BrokerProcess], heal: Callable[[], None]) -> None:
    first = brokers[0]
    async with KafkaClient(bootstrap(brokers), request_timeout_ms=10_000) as client:
        await client.create_topics([NewTopic(name="t", partitions=PARTITIONS)])
        await client.create_topics([NewTopic(name="filler", partitions=2)])
        await eventually(lambda: all_in_sync(client, "t"))
        await eventually(lambda: all_in_sync(client, "filler"))
        held = {name: keys for name, (_, keys) in (await described(client)).items()}
        sick = {index for topic, index in held["sick"] if topic == "t"}
        assert len(sick) == PARTITIONS // 2
        (filler,) = [index for topic, index in held["sick"] if topic == "filler"]
        producers = [
            IdempotentProducer(bootstrap(brokers), "t", index) for index in range(PARTITIONS)
        ]
        for producer in producers:
            await producer.advance(5)

        filled = await fill_until(first, client, TopicPartition("filler", filler))

        async def is_left() -> bool:
            told = await partitions_told(client)
            return all(
                told[index].leader_id in (2, 3)
                and set(told[index].isr_nodes) == {2, 3}
                and told[index].offline_replicas == (1,)
                for index in sick
            )

        await eventually(is_left)
        for producer in producers:
            await producer.advance(20)
        told = await partitions_told(client)
        for index in set(range(PARTITIONS)) - sick:
            assert set(told[index].isr_nodes) == {1, 2, 3}
            assert told[index].offline_replicas == ()
        assert (await described(client))["sick"] == (ErrorCode.kafka_storage_error, set())
        assert first.process is not None
        assert first.process.poll() is None, "the broker continues"

        await first.stop()
        heal()
        await first.start()
        await eventually(lambda: all_in_sync(client, "t"))
        await eventually(lambda: all_in_sync(client, "filler"))
        for producer in producers:
            await producer.advance(5)
            await producer.stop()
        for index, producer in enumerate(producers):
            found = [each.value async for each in read_topic(client, "t", partition=index)]
            assert found == producer.acknowledged
            await replicas_are_equal(brokers, "t", index)
        filled_with = [each async for each in read_topic(client, "filler", partition=filler)]
        assert len(filled_with) >= filled
        for index in sick:
            directory = replica_directory(first, "t", index)
            assert directory is not None
            assert directory.parent.name == "sick"
