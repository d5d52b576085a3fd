"""The gaps of a deployment's links: offsets that they did not copy, read from their journals.

The journals are on the targets. A target that does not respond within `RESPONSE_TIMEOUT_S`, also
later while it is read, is an error that names it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from local_cluster.client.client import KafkaClient
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import GapJournal, MapFormatError, gaps_topic_name
from mirror_maker.formats.gaps import gap_as_json
from topology.deployment.deployment import ClusterView, Deployment
from topology.status.liveness import RESPONSE_TIMEOUT_S, ClusterSilent, require_clusters

JsonObject = dict[str, Any]


class GapsUnreadable(Exception):
    """A journal could not be read; the message says why."""


def read_gaps(deployment: Deployment) -> list[JsonObject]:
    """Return every gap of every link, by link and source offset. Raises GapsUnreadable."""
    return asyncio.run(_read_all(deployment))


async def _read_all(deployment: Deployment) -> list[JsonObject]:
    targets = {link.target: deployment.cluster(link.target) for link in deployment.links}
    try:
        await require_clusters(targets.values())
    except ClusterSilent as error:
        raise GapsUnreadable(str(error)) from error
    found = await asyncio.gather(*(_read_target(deployment, each) for each in targets.values()))
    by_link = {name: journal for journals in found for name, journal in journals.items()}
    return [
        {"link": link.name, **gap_as_json(gap)}
        for link in deployment.links
        for gap in by_link[link.name].all_entries()
    ]


async def _read_target(deployment: Deployment, target: ClusterView) -> dict[str, GapJournal]:
    """Return the journals of the links into a cluster, by link name."""
    journals: dict[str, GapJournal] = {}
    async with KafkaClient(
        target.bootstrap,
        client_id="heliograph-gaps",
        request_timeout_ms=int(RESPONSE_TIMEOUT_S * 1000),
        security=target.security,
    ) as client:
        for link in deployment.links:
            if link.target != target.name:
                continue
            try:
                journals[link.name] = await _read(client, gaps_topic_name(link.name))
            except (KafkaError, MapFormatError) as error:
                raise GapsUnreadable(
                    f"link {link.name}, journal on {target.name}: {error}"
                ) from error
    return journals


async def _read(client: KafkaClient, topic: str) -> GapJournal:
    journal = GapJournal()
    found = (await client.metadata([topic])).topics[topic]
    if found.error == ErrorCode.unknown_topic_or_partition:
        return journal  # the link has not run yet
    async for record in read_topic(client, topic):
        journal.replay(record.key, record.value)
    return journal
