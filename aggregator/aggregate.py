"""What is known of one aggregate right now: maps and topics, read without any I/O.

The followers write into it, the HTTP handlers read from it; both run on one event loop, so that a
reader always sees a whole state. Two things are asked for on demand, under a time limit: group
positions from the source of a link, and what a link's mirror publishes for its audit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from local_cluster.client.model import ClusterMetadata, TopicPartition
from mirror_maker.formats.audit import AuditTopic

from .catalog import Catalog, build_catalog
from .groups import GroupTranslation, translate_group
from .link_audit import read_link_audit
from .link_lag import Document, LinkLag, link_lag
from .ports import ClusterReader
from .probe.link_probe import LinkProbe
from .settings import AggregatorSettings, LinkSettings
from .translation import LinkMaps, MapState

GROUP_SECONDS_MAX: Final = 10.0
"""How long a source may take to tell a group's offsets before the request is given up."""
GROUP_REQUESTS_MAX: Final = 16
"""Group translations at the same time; more wait their turn within the same limit."""
AUDIT_SECONDS_MAX: Final = 10.0
"""How long the aggregate may take to tell a link's audit topic."""
AUDIT_REQUESTS_MAX: Final = 2
"""Audit topics read at the same time."""


class Aggregate:
    """The state of one aggregator process."""

    def __init__(
        self,
        settings: AggregatorSettings,
        *,
        open_source: Callable[[LinkSettings], ClusterReader],
        open_aggregate: Callable[[], ClusterReader],
        monotonic: Callable[[], float],
        probes: Mapping[str, LinkProbe] | None = None,
    ) -> None:
        self.settings = settings
        self.probes = probes or {}
        """The probes of the links that are probed, by link."""
        self.maps = LinkMaps({link.name: link.datacenter for link in settings.links})
        self.monotonic = monotonic
        self.problem: str | None = None
        """Why the aggregate's topics are not fresh, in words; None while they are."""
        self._open_source = open_source
        self._open_aggregate = open_aggregate
        self._partition_counts: Mapping[str, int] | None = None
        self._leaderless: Collection[TopicPartition] = ()
        self._topics_at: float | None = None
        self._was_ready = False
        self._workers: Sequence[Document] = ()
        self._group_slots = asyncio.Semaphore(GROUP_REQUESTS_MAX)
        self._audit_slots = asyncio.Semaphore(AUDIT_REQUESTS_MAX)

    @property
    def is_ready(self) -> bool:
        """Whether topics are known and every map there is was read to its end; stays true.

        A map that has to be read again later concerns one link, and must not take the service
        with all the others out of rotation.
        """
        if not self._was_ready:
            self._was_ready = self._partition_counts is not None and not self.links_loading
        return self._was_ready

    @property
    def links_loading(self) -> list[str]:
        """Links whose maps are still being read."""
        return [name for name, status in self.maps.statuses() if status.state is MapState.LOADING]

    @property
    def topics_age_seconds(self) -> float | None:
        """Seconds since the aggregate last told its topics; None if it never did."""
        return None if self._topics_at is None else self.monotonic() - self._topics_at

    def set_topics(self, cluster: ClusterMetadata) -> None:
        """The topics of the aggregate, as it just told them."""
        present = {name: topic for name, topic in cluster.topics.items() if not topic.error}
        self._partition_counts = {name: len(topic.partitions) for name, topic in present.items()}
        self._leaderless = {
            TopicPartition(name, partition)
            for name, topic in present.items()
            for partition, metadata in topic.partitions.items()
            if metadata.leader < 0
        }
        self.maps.set_target_ids({name: topic.topic_id for name, topic in present.items()})
        self._topics_at = self.monotonic()
        self.problem = None

    @property
    def partition_counts(self) -> Mapping[str, int] | None:
        """Topics of the aggregate as last told; None if they never were."""
        return self._partition_counts

    def why_unreadable(self, at: TopicPartition) -> str | None:
        """Why nobody can read a partition now, as far as the aggregate has told; else None."""
        if self._partition_counts is None:
            return "the aggregate has not told its topics yet"
        if self._partition_counts.get(at.topic, 0) <= at.partition:
            return "the aggregate has no such topic yet"
        return "the partition has no leader" if at in self._leaderless else None

    def set_workers(self, workers: Sequence[Document]) -> None:
        """What the mirror workers say of themselves, those that just answered."""
        self._workers = workers

    def link_lag(self, link: str) -> LinkLag:
        """How far a link is behind; unknown while its workers do not tell."""
        return link_lag(link, self._workers)

    def catalog(self) -> Catalog | None:
        """The merged topics; None while the aggregate has not told its topics yet."""
        if self._partition_counts is None:
            return None
        return build_catalog(self.settings.links, self._partition_counts, self.maps.mapped_topics())

    async def translate_group(
        self, link: LinkSettings, group: str, topics: Collection[str] | None
    ) -> GroupTranslation:
        """Ask the link's source for a group's positions. Raises KafkaError or TimeoutError."""
        async with asyncio.timeout(GROUP_SECONDS_MAX), self._group_slots:
            client = self._open_source(link)
            try:
                return await translate_group(client, self.maps, link, group, topics)
            finally:
                await client.close()

    async def link_audit(self, link: LinkSettings) -> AuditTopic | None:
        """What the link's mirror published. Raises KafkaError, MapFormatError or TimeoutError."""
        async with asyncio.timeout(AUDIT_SECONDS_MAX), self._audit_slots:
            client = self._open_aggregate()
            try:
                return await read_link_audit(client, link.name)
            finally:
                await client.close()
