"""Where the records of an aggregate's merged topic come from, by the links' offset maps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from aggregator.maps.link_map import LinkMap, TopicIds
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import FlowKey, MapFormatError, OffsetMap, map_topic_name
from topology.deployment.deployment import Deployment, LinkView
from topology.problems import DeployError, unknown_name
from topology.records.shown_record import Origin

REFRESH_SECONDS_MIN: Final = 0.5
"""Least time between two reads of the maps."""


class Provenance:
    """The offset maps of all links into one cluster. `refresh` reads what is new in them."""

    def __init__(self, client: KafkaClient, deployment: Deployment, cluster: str) -> None:
        self._client = client
        self._links = [link for link in deployment.links if link.target == cluster]
        self._datacenters = {each.name: each.datacenter for each in deployment.clusters}
        self._maps: dict[str, LinkMap] = {link.name: LinkMap() for link in self._links}
        self._next: dict[str, int] = {}
        self._ids: TopicIds = {}
        self._flows: dict[tuple[str, int], list[tuple[LinkView, FlowKey, OffsetMap]]] = {}
        self._refreshed_at = 0.0

    async def refresh(self) -> bool:
        """Read the maps on; False if that was done too shortly before. Raises KafkaError."""
        if time.monotonic() - self._refreshed_at < REFRESH_SECONDS_MIN:
            return False
        found = (await self._client.metadata(None)).topics
        self._ids = {name: topic.topic_id for name, topic in found.items() if not topic.error}
        for link in self._links:
            name = map_topic_name(link.name)
            if name in found:
                await self._read(link.name, name)
        self._flows = {}
        for link in self._links:
            for flow, target, offsets in self._maps[link.name].current_flows(self._ids):
                place = (target, flow.partition)
                self._flows.setdefault(place, []).append((link, flow, offsets))
        self._refreshed_at = time.monotonic()
        return True

    async def _read(self, link: str, topic: str) -> None:
        at = TopicPartition(topic, 0)
        listed = (await self._client.list_offsets({at: LATEST_TIMESTAMP}))[at]
        if listed.error:
            raise KafkaError(listed.error, topic)
        if listed.offset == self._next.get(link):
            return
        try:
            async for record in read_topic(self._client, topic, from_offset=self._next.get(link)):
                self._maps[link].apply(record)
                self._next[link] = record.offset + 1
        except MapFormatError as error:
            raise DeployError(f"map of link {link}: {error}") from error

    def copies_of(self, topic: str) -> list[str]:
        """Return the aggregate's topics that are copies of a source topic. Raises DeployError."""
        pairs = {pair for each in self._maps.values() for pair in each.topics()}
        found = sorted({target for source, target in pairs if source == topic})
        if not found:
            known = sorted({source for source, _ in pairs})
            raise DeployError(unknown_name("merged topic", topic, known))
        return found

    def origin(self, topic: str, partition: int, offset: int) -> Origin:
        """Return where a record comes from. Unknown parts are None."""
        flows = self._flows.get((topic, partition), [])
        for link, flow, offsets in flows:
            source = offsets.source_of(offset)
            if source is not None:
                return Origin(
                    self._datacenters[link.source], flow.source_topic, flow.partition, source
                )
        return Origin(None)

    def is_beyond(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether the maps end before an offset, so that reading them on may help."""
        flows = self._flows.get((topic, partition), [])
        return all(offset >= offsets.target_next for _, _, offsets in flows)


def check_datacenters(wanted: Iterable[str], known: Mapping[str, str]) -> frozenset[str]:
    """Return the wanted datacenters. Raises DeployError for one that no cluster is in."""
    found = frozenset(wanted)
    for name in sorted(found - set(known.values())):
        raise DeployError(unknown_name("datacenter", name, sorted(set(known.values()))))
    return found
