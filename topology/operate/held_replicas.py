"""How many replicas brokers hold that are about to be stopped for good.

Imports the Kafka client: load it where a broker leaves its topology.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from topology.deployment.removals import LeavingBroker
from topology.operate.controller_metadata import read_from_controller

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
    metadata = await read_from_controller(
        bootstrap, client_id="heliograph-plan", timeout_s=ANSWER_TIMEOUT_S
    )
    if metadata is None:
        return None
    counts: dict[int, int] = {}
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            for replica in partition.replicas:
                counts[replica] = counts.get(replica, 0) + 1
    return counts
