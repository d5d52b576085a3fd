"""Replicas move between the log directories of a broker, under load and over kill -9."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.controller.decisions.dynamic_broker_configs import LOG_DIRS_RATE
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once
from tests.support.replicas import IdempotentProducer, eventually, log_bytes, replica_directory

pytestmark = pytest.mark.real

BROKER = 4
"""The type of a broker's config."""
NAMES = ("one", "two")
MOVES = 3
LARGE_BYTES = 200_000
LARGE_COUNT = 12


async def throttle(client: KafkaClient, bytes_per_second: int) -> None:
    config = {"name": LOG_DIRS_RATE, "config_operation": 0, "value": str(bytes_per_second)}
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": [config]}
    answer = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False}
    )
    assert answer.responses[0].error_code == ErrorCode.none


async def move(client: KafkaClient, path: str, partition: int = 0) -> ErrorCode:
    topics = [{"name": "t", "partitions": [partition]}]
    fields = {"dirs": [{"path": path, "topics": topics}]}
    answer = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, fields, node_id=1)
    code: ErrorCode = answer.results[0].partitions[0].error_code
    return code


async def described(client: KafkaClient) -> dict[str, tuple[bool, int]]:
    """Return by directory whether it has a copy of t-0 or the replica, and the lag."""
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node_id=1)
    return {
        Path(each.log_dir).name: (partition.is_future_key, partition.offset_lag)
        for each in answer.results
        for topic in each.topics
        for partition in topic.partitions
        if (topic.name, partition.partition_index) == ("t", 0)
    }


def home(broker: BrokerProcess) -> Path:
    directory = replica_directory(broker, "t")
    assert directory is not None
    return directory.parent


def other(broker: BrokerProcess) -> Path:
    (directory,) = {Path(each) for each in broker.settings.log_dirs} - {home(broker)}
    return directory


def has_one_replica(broker: BrokerProcess) -> bool:
    places = [Path(each) for each in broker.settings.log_dirs]
    names = [path.name for place in places for path in place.iterdir() if path.is_dir()]
    return [name for name in names if not name.endswith("-delete")].count("t-0") == 1 and not any(
        name.endswith("-future") for name in names
    )


async def test_a_replica_moves_under_load_and_continues_after_a_kill(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_broker(zookeeper, tmp_path, log_dirs=NAMES) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        large = [b"%d" % index + b"x" * LARGE_BYTES for index in range(LARGE_COUNT)]
        for value in large:
            batch = encode_batch([NewRecord(time.time_ns() // 1_000_000, b"k", value)])
            answer = await produce_once(client, 1, TopicPartition("t", 0), batch)
            assert answer.error is ErrorCode.none
        producer = IdempotentProducer(broker.bootstrap, "t")
        await producer.advance(5)
        source, target = home(broker), other(broker)
        assert await move(client, "nowhere") == ErrorCode.log_dir_not_found
        assert await move(client, str(source)) == ErrorCode.none
        assert await move(client, str(target), 7) == ErrorCode.replica_not_available
        assert await described(client) == {source.name: (False, 0)}

        # The throttle lets one large batch pass in eleven seconds.
        await throttle(client, 1)
        assert await move(client, str(target)) == ErrorCode.none
        await producer.advance(20)
        await eventually(lambda: list(target.glob("t-0.*-future/*.log")))
        told = await described(client)
        assert told[source.name] == (False, 0)
        assert told[target.name][0], "a copy"
        await broker.kill()
        await broker.start()

        async def is_copied() -> bool:
            return (await described(client)).get(target.name, (False, 0))[0]

        await eventually(is_copied)
        assert home(broker) == source
        await producer.advance(20)
        await throttle(client, 1 << 40)
        await eventually(lambda: home(broker) == target and has_one_replica(broker))
        await producer.advance(20)
        await producer.stop()
        assert await described(client) == {target.name: (False, 0)}
        values = [record.value async for record in read_topic(client, "t")]
        assert values == large + producer.acknowledged


async def test_a_kill_at_any_moment_of_a_move_leaves_one_replica(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_broker(zookeeper, tmp_path, log_dirs=NAMES) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        producer = IdempotentProducer(broker.bootstrap, "t")
        await producer.advance(20)
        moments = random.Random(1)
        for _ in range(MOVES):
            target = other(broker)
            assert await move(client, str(target)) == ErrorCode.none
            # Between the first chunk and long after the end.
            await asyncio.sleep(moments.uniform(0, 0.05))
            await broker.kill()
            await broker.start()
            await eventually(lambda: has_one_replica(broker))
            assert home(broker) == target
            await producer.advance(5)
        await producer.stop()
        values = [record.value async for record in read_topic(client, "t")]
        assert values == producer.acknowledged
        assert log_bytes(broker, "t")
