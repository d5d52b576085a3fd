"""A log that was damaged on the disk of a killed broker: its replica is fetched again, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.records.header import iter_headers
from tests.support.cluster import BrokerProcess
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

DAMAGED, DAMAGED_AT_THE_END, WHOLE = TOPICS = "damaged", "damaged-at-the-end", "whole"


def flip_a_bit(broker: BrokerProcess, topic: str, *, in_last_batch: bool) -> None:
    """Flip a bit in the last batch, or far before any batch that the kill has torn."""
    (path,) = (broker.log_dir / f"{topic}-0").glob("*.log")
    content = bytearray(path.read_bytes())
    *_, (start, header) = iter_headers(content)
    content[start + header.size_bytes - 1 if in_last_batch else len(content) // 4] ^= 1
    path.write_bytes(content)


async def test_a_damaged_replica_is_fetched_anew(zookeeper: str, tmp_path: Path) -> None:
    """It is not served, and does not stop other replicas from following the same leader."""
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        # Led by the same broker, so that one connection brings both.
        new = [NewTopic(name=topic, assignments={0: (1, 2, 3)}) for topic in TOPICS]
        assert set((await client.create_topics(new)).values()) == {None}
        producers = [IdempotentProducer(bootstrap(brokers), topic) for topic in TOPICS]
        for producer in producers:
            await producer.advance(30)
        follower = brokers[1]
        await follower.kill()
        flip_a_bit(follower, DAMAGED, in_last_batch=False)
        flip_a_bit(follower, DAMAGED_AT_THE_END, in_last_batch=True)
        await follower.start()
        for producer in producers:
            await producer.advance(30)
        for topic in TOPICS:
            await eventually(lambda topic=topic: all_in_sync(client, topic))  # type: ignore[misc]
        fetched_again = "-0 is damaged and fetched again"
        assert [f"{topic}{fetched_again}" in follower.log_text() for topic in TOPICS] == [
            True,
            True,
            False,
        ]
        for topic, producer in zip(TOPICS, producers, strict=True):
            await producer.stop()
            await replicas_are_equal(brokers, topic)
            values = [record.value async for record in read_topic(client, topic)]
            assert values == producer.acknowledged
