"""What the links of a deployment did not copy, read from their journals on the targets."""

from __future__ import annotations

import asyncio
from typing import Any

from local_cluster.client.client import KafkaClient
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import GapJournal, MapFormatError, gaps_topic_name
from mirror_maker.formats.gaps import gap_as_json
from topology.deployment import Deployment

JsonObject = dict[str, Any]


class GapsUnreadable(Exception):
    """A journal could not be read, and why."""


def read_gaps(deployment: Deployment) -> list[JsonObject]:
    """Every gap of every link, by link and source offset. Raises GapsUnreadable."""
    return asyncio.run(_read_all(deployment))


async def _read_all(deployment: Deployment) -> list[JsonObject]:
    gaps: list[JsonObject] = []
    for link in deployment.links:
        target = deployment.cluster(link.target)
        try:
            async with KafkaClient(
                target.bootstrap, client_id="heliograph-gaps", security=target.security
            ) as client:
                journal = await _read(client, gaps_topic_name(link.name))
        except (KafkaError, MapFormatError) as error:
            raise GapsUnreadable(f"link {link.name}, journal on {link.target}: {error}") from error
        gaps += ({"link": link.name, **gap_as_json(gap)} for gap in journal.all_entries())
    return gaps


async def _read(client: KafkaClient, topic: str) -> GapJournal:
    journal = GapJournal()
    found = (await client.metadata([topic])).topics[topic]
    if found.error == ErrorCode.unknown_topic_or_partition:
        return journal  # the link has not run yet
    async for record in read_topic(client, topic):
        journal.replay(record.key, record.value)
    return journal
