"""Asks the aggregates for the Spark queries that publish themselves beside their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from spark_global.streaming.publishing import published_progress
from topology.deployment.deployment import Deployment
from topology.status.liveness import Cluster
from topology.status.streams import JsonObject, entries

CLIENT_ID: Final = "heliograph-status"
TIMEOUT_SECONDS: Final = 3.0
"""Seconds that an aggregate may take to tell its groups."""


def fetch_streams(deployment: Deployment, silent: Iterable[str] = ()) -> list[JsonObject]:
    """Return the queries of every aggregate; those of one that does not answer are left out.

    `silent` names clusters that are not asked.
    """
    left_out = set(silent)
    asked = [
        cluster
        for cluster in deployment.clusters
        if cluster.aggregator is not None and cluster.name not in left_out
    ]

    async def fetch_all() -> list[list[JsonObject]]:
        return await asyncio.gather(*map(streams_of, asked))

    return [entry for found in asyncio.run(fetch_all()) for entry in found]


async def streams_of(cluster: Cluster) -> list[JsonObject]:
    """Return the queries of one aggregate; none if it does not answer."""
    try:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            KafkaClient(
                cluster.bootstrap,
                client_id=CLIENT_ID,
                request_timeout_ms=round(TIMEOUT_SECONDS * 1_000),
                security=cluster.security,
            ) as client,
        ):
            return entries(cluster.name, await published_progress(client))
    except (KafkaError, OSError, TimeoutError):
        return []
