"""Brokers die, pause and stop under load: what was acknowledged is there once, everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.replicas import (
    IdempotentProducer,
    bootstrap,
    eventually,
    leader_of,
    partition_of,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

KILLS = 3


async def assert_each_once(client: KafkaClient, acknowledged: list[bytes]) -> None:
    """Every acknowledged record once and in order; at most the last unanswered one beside."""
    values = [record.value async for record in read_topic(client, "t")]
    assert values[: len(acknowledged)] == acknowledged
    assert len(values) <= len(acknowledged) + 1


async def test_every_acknowledged_record_once_when_leaders_are_killed(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t")])
        producer = IdempotentProducer(bootstrap(brokers), "t")
        epoch = 0
        for _ in range(KILLS):
            await producer.advance(50)
            killed = await leader_of(brokers, client, "t")
            await killed.kill()
            await producer.advance(50)
            state = await partition_of(client, "t")
            assert state.leader != killed.settings.broker_id
            assert state.leader_epoch > epoch
            epoch = state.leader_epoch
            await killed.start()

            async def all_in_sync() -> bool:
                return len((await partition_of(client, "t")).isr) == 3

            await eventually(all_in_sync)
        await producer.stop()
        await replicas_are_equal(brokers, "t")
        await assert_each_once(client, producer.acknowledged)
