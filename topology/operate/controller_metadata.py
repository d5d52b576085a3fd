"""The partitions of a cluster, as its controller knows them.

The controller is the first broker to know which replicas have moved and which have left the ISR.

This module imports the Kafka client, so import it only where a cluster is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from local_cluster.client.auth.security import ClientSecurity, SecurityError
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata
from local_cluster.wire.errors import KafkaError
from topology.deployment.removals import RemovedBroker
from topology.operate.restart_stages import PartitionState

PARTITIONS_TIMEOUT_S = 10.0
REPLICAS_TIMEOUT_S = 60.0


def read_partitions(bootstrap: str, security: ClientSecurity) -> list[PartitionState] | None:
    """Return every partition; None if the cluster does not respond."""
    return asyncio.run(_read_partitions(bootstrap, security))


def count_replicas(brokers: Iterable[RemovedBroker]) -> dict[RemovedBroker, int | None]:
    """Return how many replicas each broker holds; None if its cluster does not respond.

    Replicas that a reassignment is adding count as well.
    """
    wanted = list(brokers)
    return asyncio.run(_count_replicas(wanted)) if wanted else {}


async def read_from_controller(
    bootstrap: str, security: ClientSecurity, *, client_id: str, timeout_s: float
) -> ClusterMetadata | None:
    """Return the metadata of every topic; None without a response of the controller in time."""
    try:
        async with (
            asyncio.timeout(timeout_s),
            KafkaClient(bootstrap, client_id=client_id, security=security) as client,
        ):
            controller_id = (await client.metadata([])).controller_id
            if controller_id < 0:  # there is no controller now
                return None
            metadata = await client.metadata(node_id=controller_id)
    except (KafkaError, SecurityError, OSError, TimeoutError):
        return None
    # If the controller has moved meanwhile, the broker that responded may be behind.
    return metadata if metadata.controller_id == controller_id else None


async def _read_partitions(bootstrap: str, security: ClientSecurity) -> list[PartitionState] | None:
    metadata = await read_from_controller(
        bootstrap, security, client_id="heliograph-up", timeout_s=PARTITIONS_TIMEOUT_S
    )
    if metadata is None:
        return None
    return [
        PartitionState(f"{name}-{index}", each.leader, each.replicas, each.isr)
        for name, topic in sorted(metadata.topics.items())
        for index, each in sorted(topic.partitions.items())
    ]


async def _count_replicas(brokers: list[RemovedBroker]) -> dict[RemovedBroker, int | None]:
    clusters = {each.cluster: (each.bootstrap, each.security) for each in brokers}
    counts = {name: await _replicas_by_broker(*at) for name, at in clusters.items()}
    found: dict[RemovedBroker, int | None] = {}
    for each in brokers:
        counted = counts[each.cluster]
        found[each] = None if counted is None else counted.get(each.broker_id, 0)
    return found


async def _replicas_by_broker(bootstrap: str, security: ClientSecurity) -> Mapping[int, int] | None:
    metadata = await read_from_controller(
        bootstrap, security, client_id="heliograph-plan", timeout_s=REPLICAS_TIMEOUT_S
    )
    if metadata is None:
        return None
    counts: dict[int, int] = {}
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            for replica in partition.replicas:
                counts[replica] = counts.get(replica, 0) + 1
    return counts
