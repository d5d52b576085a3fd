"""Which replicas of a cluster are in sync, as its controller says.

Imports the Kafka client: load it where brokers are restarted one after the other.
"""

from __future__ import annotations

import asyncio

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from topology.rolling import PartitionState

ANSWER_TIMEOUT_S = 10.0


def read_partitions(bootstrap: str) -> list[PartitionState] | None:
    """Every partition; None where the cluster does not say now."""
    return asyncio.run(_read_partitions(bootstrap))


async def _read_partitions(bootstrap: str) -> list[PartitionState] | None:
    try:
        async with (
            asyncio.timeout(ANSWER_TIMEOUT_S),
            KafkaClient(bootstrap, client_id="heliograph-up") as client,
        ):
            # The controller is the first to know who is in sync no more.
            controller_id = (await client.metadata([])).controller_id
            if controller_id < 0:
                return None
            metadata = await client.metadata(node_id=controller_id)
    except (KafkaError, OSError, TimeoutError):
        return None
    if metadata.controller_id != controller_id:
        return None  # it has moved meanwhile, and who was asked may be behind
    return [
        PartitionState(f"{name}-{index}", each.leader, each.replicas, each.isr)
        for name, topic in sorted(metadata.topics.items())
        for index, each in sorted(topic.partitions.items())
    ]
