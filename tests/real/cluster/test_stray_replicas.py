"""A broker comes back with replicas of topics that were deleted while it was down."""

from __future__ import annotations

import contextlib
import functools
import time
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import BrokerProcess
from tests.support.producing import produce_once
from tests.support.replicas import (
    all_in_sync,
    ask_controller,
    bootstrap,
    eventually,
    partition_of,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

CONFIG = {"log.retention.check.interval.ms": "500"}
AWAY = 2
"""The broker that is down, and was the leader of all partitions."""


async def write(client: KafkaClient, topic: str, value: bytes) -> None:
    async def is_written() -> bool:
        partitions = (await client.metadata([topic])).topics[topic].partitions
        leader = partitions[0].leader if partitions else -1
        if leader < 0:
            return False
        at = TopicPartition(topic, 0)
        batch = encode_batch([NewRecord(time.time_ns() // 1_000_000, b"k", value)])
        return (await produce_once(client, leader, at, batch)).error is ErrorCode.none

    await eventually(is_written)


async def move(client: KafkaClient, topic: str, *replicas: int) -> None:
    moves = [{"partition_index": 0, "replicas": list(replicas)}]
    answer = await ask_controller(
        client,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {"timeout": 10_000, "topics": [{"name": topic, "partitions": moves}]},
    )
    assert answer.responses[0].partitions[0].error_code == ErrorCode.none

    async def moved() -> bool:
        return sorted((await partition_of(client, topic)).replicas) == sorted(replicas)

    await eventually(moved)


async def delete(client: KafkaClient, topic: str) -> None:
    async def is_gone() -> bool:
        with contextlib.suppress(KafkaError):
            await client.delete_topics([topic])
        return topic not in (await client.metadata()).topics

    await eventually(is_gone)


def held(broker: BrokerProcess) -> set[str]:
    """Return the replica directories; those of strays without the topic id."""
    names = [path.name for path in broker.log_dir.iterdir() if path.is_dir()]
    return {
        f"{name.split('.')[0]} stray" if name.endswith("-stray") else name
        for name in names
        if not name.startswith("__") and not name.endswith("-delete")
    }


async def test_replicas_of_topics_that_went_meanwhile_are_set_aside_and_then_deleted(
    zookeeper: str, tmp_path: Path
) -> None:
    async with running_cluster(zookeeper, tmp_path, config=CONFIG) as brokers:
        away = brokers[AWAY - 1]
        left = [broker for broker in brokers if broker is not away]
        async with KafkaClient(bootstrap(left)) as client:
            names = ("recreated", "gone", "moved", "stays")
            await client.create_topics(
                [NewTopic(name=name, assignments={0: (AWAY, 1)}) for name in names]
            )
            for name in names:
                await write(client, name, b"old")
                await eventually(functools.partial(all_in_sync, client, name))
            await away.kill()
            for name in ("recreated", "gone", "moved"):
                await move(client, name, 1, 3)
            for name in ("recreated", "gone"):
                await delete(client, name)
            await client.create_topics([NewTopic(name="recreated", assignments={0: (1, 3)})])
            await write(client, "recreated", b"new")
            assert held(away) == {f"{name}-0" for name in names}

            await away.start()
            await eventually(lambda: all_in_sync(client, "stays"))
            strays = {"recreated-0 stray", "gone-0 stray"}
            await eventually(lambda: held(away) == strays | {"stays-0"})
            await move(client, "recreated", 1, AWAY)
            await eventually(lambda: all_in_sync(client, "recreated"))
            assert held(away) == strays | {"recreated-0", "stays-0"}
            await replicas_are_equal([brokers[0], away], "recreated")
            await replicas_are_equal([brokers[0], away], "stays")
            assert [record.value async for record in read_topic(client, "recreated")] == [b"new"]
            assert [record.value async for record in read_topic(client, "stays")] == [b"old"]

            # After a kill they are strays again; without a delete delay they are deleted.
            await away.kill()
            away.settings.config["heliograph.stray.delete.delay.ms"] = "0"
            await away.start()
            await eventually(lambda: held(away) == {"recreated-0", "stays-0"})
            await eventually(lambda: all_in_sync(client, "stays"))
            assert [record.value async for record in read_topic(client, "stays")] == [b"old"]
