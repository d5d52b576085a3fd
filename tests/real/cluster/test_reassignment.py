"""Reassignments between real brokers under load, and preferred elections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.replicas import (
    IdempotentProducer,
    ask_controller,
    bootstrap,
    eventually,
    partition_of,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real


async def move(client: KafkaClient, replicas: list[int] | None) -> ErrorCode:
    """Request a reassignment of t-0, or cancel it."""
    answer = await ask_controller(
        client,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {
            "timeout": 10_000,
            "topics": [
                {"name": "t", "partitions": [{"partition_index": 0, "replicas": replicas}]},
            ],
        },
    )
    code: ErrorCode = answer.responses[0].partitions[0].error_code
    return code


async def moving(client: KafkaClient) -> list[Any]:
    fields = {"timeout": 10_000, "topics": None}
    answer = await ask_controller(client, ApiKey.LIST_PARTITION_REASSIGNMENTS, fields)
    return [partition for topic in answer.topics for partition in topic.partitions]


async def test_replicas_move_under_load(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path, brokers=4) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", assignments={0: (1, 2, 3)})])
        producer = IdempotentProducer(bootstrap(brokers), "t")
        await producer.advance(50)
        assert await move(client, [4, 3, 2]) == ErrorCode.none

        async def moved() -> bool:
            state = await partition_of(client, "t")
            return state.replicas == (4, 3, 2) and sorted(state.isr) == [2, 3, 4]

        await eventually(moved)
        assert await moving(client) == []
        state = await partition_of(client, "t")
        assert state.leader in (2, 3, 4), "broker 1 was the leader, and is removed"
        await producer.advance(50)
        await eventually(lambda: not (brokers[0].log_dir / "t-0").exists())
        # The preferred leader is the first of the new replicas.
        elected = await ask_controller(
            client,
            ApiKey.ELECT_LEADERS,
            {
                "election_type": 0,
                "topic_partitions": [{"topic": "t", "partitions": [0]}],
                "timeout": 10_000,
            },
        )
        (result,) = elected.replica_election_results[0].partition_result
        assert result.error_code in (ErrorCode.none, ErrorCode.election_not_needed)

        async def led_by_the_first() -> bool:
            return bool((await partition_of(client, "t")).leader == 4)

        await eventually(led_by_the_first)
        await producer.advance(50)
        await producer.stop()
        await replicas_are_equal(brokers[1:], "t")
        values = [record.value async for record in read_topic(client, "t")]
        assert values == producer.acknowledged


async def test_one_replica_becomes_three_two_and_one_again(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", assignments={0: (1,)})])
        producer = IdempotentProducer(bootstrap(brokers), "t")
        await producer.advance(20)
        assert await move(client, None) == ErrorCode.no_reassignment_in_progress
        assert await move(client, [1, 9]) == ErrorCode.invalid_replica_assignment
        assert await move(client, [1, 2, 3]) == ErrorCode.none

        async def in_sync() -> bool:
            return sorted((await partition_of(client, "t")).isr) == [1, 2, 3]

        await eventually(in_sync)
        await producer.advance(20)
        assert await move(client, [2, 1]) == ErrorCode.none

        async def two() -> bool:
            state = await partition_of(client, "t")
            return state.replicas == (2, 1) and sorted(state.isr) == [1, 2]

        await eventually(two)
        await eventually(lambda: not (brokers[2].log_dir / "t-0").exists())
        await producer.advance(20)
        # With one of two replicas down no record can be committed, until one replica is requested.
        await brokers[1].kill()
        assert await move(client, [1]) == ErrorCode.none

        async def alone() -> bool:
            return bool((await partition_of(client, "t")).replicas == (1,))

        await eventually(alone)
        await producer.advance(20)
        assert await move(client, [1, 3]) == ErrorCode.none

        async def in_sync_with_another() -> bool:
            return sorted((await partition_of(client, "t")).isr) == [1, 3]

        await eventually(in_sync_with_another)
        await producer.advance(20)
        await producer.stop()
        values = [record.value async for record in read_topic(client, "t")]
        assert values == producer.acknowledged
