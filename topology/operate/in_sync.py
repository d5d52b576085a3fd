"""Which replicas of a cluster are in sync, as its controller says.

Imports the Kafka client: load it where brokers are restarted one after the other.
"""

from __future__ import annotations

import asyncio

from topology.operate.controller_metadata import read_from_controller
from topology.operate.restart_stages import PartitionState

ANSWER_TIMEOUT_S = 10.0


def read_partitions(bootstrap: str) -> list[PartitionState] | None:
    """Every partition; None where the cluster does not say now."""
    return asyncio.run(_read_partitions(bootstrap))


async def _read_partitions(bootstrap: str) -> list[PartitionState] | None:
    metadata = await read_from_controller(
        bootstrap, client_id="heliograph-up", timeout_s=ANSWER_TIMEOUT_S
    )
    if metadata is None:
        return None
    return [
        PartitionState(f"{name}-{index}", each.leader, each.replicas, each.isr)
        for name, topic in sorted(metadata.topics.items())
        for index, each in sorted(topic.partitions.items())
    ]
