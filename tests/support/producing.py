"""Writing one batch to a partition, also to one that was created a moment ago."""

from __future__ import annotations

import asyncio
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ProducedPartition, TopicPartition
from local_cluster.client.produce_batches import Batch, ProduceBatches
from local_cluster.wire.errors import ErrorCode

LEADER_SECONDS_MAX: Final = 60.0
_NOT_YET: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
    }
)
"""Refusals that say for sure that nothing was appended."""


async def produce_once(
    client: KafkaClient,
    node_id: int,
    at: TopicPartition,
    batch: Batch,
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
) -> ProducedPartition:
    """Send one batch to one broker; its answer. Raises KafkaError."""
    batches = ProduceBatches((at, batch))
    return (await client.produce(node_id, batches, acks=acks, timeout_ms=timeout_ms))[at]


async def produce_to(client: KafkaClient, at: TopicPartition, batch: bytes | bytearray) -> int:
    """Append one batch as soon as the partition's leader takes it; its base offset."""
    async with asyncio.timeout(LEADER_SECONDS_MAX):
        while True:
            topic = (await client.metadata([at.topic])).topics[at.topic]
            if not topic.error and topic.partitions[at.partition].leader >= 0:
                leader = topic.partitions[at.partition].leader
                answer = await produce_once(client, leader, at, batch)
                if answer.error not in _NOT_YET:
                    assert not answer.error, answer
                    return answer.base_offset
            await asyncio.sleep(0.05)
