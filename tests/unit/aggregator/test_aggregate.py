"""The known topics of an aggregate, and why one of them cannot be read."""

from __future__ import annotations

from local_cluster.client.model import (
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.wire.errors import ErrorCode
from tests.unit.aggregator.http_world import World


def topic(name: str, leader: int, error: ErrorCode = ErrorCode.none) -> TopicMetadata:
    partition = PartitionMetadata(0, leader, 0, (0,), (0,), ErrorCode.none)
    return TopicMetadata(name, None, error, False, {0: partition})


async def test_why_a_partition_cannot_be_read(starting: World) -> None:
    aggregate = starting.aggregate
    unknown = "the topics of the aggregate are not known yet"
    assert aggregate.why_unreadable(TopicPartition("led", 0)) == unknown
    refused = topic("refused", 1, ErrorCode.topic_authorization_failed)
    topics = [topic("led", 1), topic("leaderless", -1), refused]
    aggregate.set_topics(ClusterMetadata("c", 0, {}, {each.name: each for each in topics}))
    absent = "the aggregate has no such topic yet"
    for name, partition, why in (
        ("led", 0, None),
        ("led", 1, absent),
        ("leaderless", 0, "the partition has no leader"),
        ("refused", 0, absent),
        ("absent", 0, absent),
    ):
        assert aggregate.why_unreadable(TopicPartition(name, partition)) == why, name
