"""A log that was damaged on the disk of a killed broker: its replica is fetched anew, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.cluster import BrokerProcess
from tests.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

DAMAGED, WHOLE = "damaged", "whole"


def flip_a_bit(broker: BrokerProcess, topic: str) -> None:
    """Behind some whole batches, far before anything that a kill may have torn."""
    (path,) = (broker.log_dir / f"{topic}-0").glob("*.log")
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)


async def test_a_damaged_replica_is_fetched_anew(zookeeper: str, tmp_path: Path) -> None:
    """Neither is it served, nor does it keep its neighbours from following the same leader."""
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        # Led by the same broker, so that one connection brings both.
        new = [NewTopic(name=topic, assignments={0: (1, 2, 3)}) for topic in (DAMAGED, WHOLE)]
        assert set((await client.create_topics(new)).values()) == {None}
        producers = [IdempotentProducer(bootstrap(brokers), topic) for topic in (DAMAGED, WHOLE)]
        for producer in producers:
            await producer.advance(30)
        follower = brokers[1]
        await follower.kill()
        flip_a_bit(follower, DAMAGED)
        await follower.start()
        for producer in producers:
            await producer.advance(30)
        for topic in (DAMAGED, WHOLE):
            await eventually(lambda topic=topic: all_in_sync(client, topic))  # type: ignore[misc]
        assert "is damaged and fetched anew" in follower.log_text()
        for topic, producer in zip((DAMAGED, WHOLE), producers, strict=True):
            await producer.stop()
            await replicas_are_equal(brokers, topic)
            values = [record.value async for record in read_topic(client, topic)]
            assert values == producer.acknowledged
