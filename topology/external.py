"""Brokers of existing clusters, as they tell them; nobody else here knows.

Imports the Kafka client: load it where a topology has an external cluster.
"""

from __future__ import annotations

import asyncio
from typing import Any

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from topology.deployment import ClusterView, Deployment

ANSWER_TIMEOUT_S = 3.0


def external_brokers(deployment: Deployment) -> dict[str, list[dict[str, Any]]]:
    """Brokers by cluster name, in the form of the status document; a cluster that does not
    answer in time is left out."""
    clusters = [each for each in deployment.clusters if each.kind == "external"]
    return asyncio.run(_ask_all(clusters)) if clusters else {}


async def _ask_all(clusters: list[ClusterView]) -> dict[str, list[dict[str, Any]]]:
    answers = await asyncio.gather(*(_ask(each) for each in clusters))
    return {
        cluster.name: answer
        for cluster, answer in zip(clusters, answers, strict=True)
        if answer is not None
    }


async def _ask(cluster: ClusterView) -> list[dict[str, Any]] | None:
    try:
        async with (
            asyncio.timeout(ANSWER_TIMEOUT_S),
            KafkaClient(
                cluster.bootstrap, client_id="heliograph-status", security=cluster.security
            ) as client,
        ):
            metadata = await client.metadata([])
    except (KafkaError, OSError, TimeoutError):
        return None
    return [
        {
            "id": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "pid": None,
            "state": "registered",
        }
        for broker in sorted(metadata.brokers.values())
    ]
