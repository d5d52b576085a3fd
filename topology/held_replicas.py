"""How many replicas brokers hold that are about to be stopped for good.

Imports the Kafka client: load it where a broker leaves its topology.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from topology.leaving import LeavingBroker

ANSWER_TIMEOUT_S = 60.0


def replicas_held(leaving: Iterable[LeavingBroker]) -> dict[LeavingBroker, int | None]:
    """How many replicas each of them holds; None where its cluster does not say."""
    wanted = list(leaving)
    return asyncio.run(_replicas_held(wanted)) if wanted else {}


async def _replicas_held(leaving: list[LeavingBroker]) -> dict[LeavingBroker, int | None]:
    bootstraps = {each.cluster: each.bootstrap for each in leaving}
    counts = {name: await _count(bootstrap) for name, bootstrap in bootstraps.items()}
    found: dict[LeavingBroker, int | None] = {}
    for each in leaving:
        counted = counts[each.cluster]
        found[each] = None if counted is None else counted.get(each.broker_id, 0)
    return found


async def _count(bootstrap: str) -> Mapping[int, int] | None:
    """Replicas by broker, those that are on their way included."""
    try:
        async with (
            asyncio.timeout(ANSWER_TIMEOUT_S),
            KafkaClient(bootstrap, client_id="heliograph-plan") as client,
        ):
            # The controller is the first to know what has moved.
            controller_id = (await client.metadata([])).controller_id
            metadata = await client.metadata(node_id=controller_id)
    except (KafkaError, OSError, TimeoutError):
        return None
    counts: dict[int, int] = {}
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            for replica in partition.replicas:
                counts[replica] = counts.get(replica, 0) + 1
    return counts
