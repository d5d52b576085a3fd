"""The state of one aggregator: topics, maps, audits, probes, worker status.

Loops write into it and HTTP handlers read from it, all on one event loop. So a reader always sees a
consistent state, and waits for no I/O. Only the committed offsets of a group are requested on
demand, from the source of a link and with a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aggregator.audit.audit_document import Document, link_document
from aggregator.audit.audit_topics import AuditTopics
from aggregator.audit.link_audit import PartitionAudit
from aggregator.completeness.completeness_topics import CompletenessTopics
from aggregator.completeness.parts import PartCompleteness
from aggregator.link_lag import LinkLag, WorkerStatus, link_lag, source_ends
from aggregator.link_state import link_state, shared_positions
from aggregator.maps.catalog import Catalog, build_catalog
from aggregator.maps.followed_topic import Followed, TopicState
from aggregator.maps.group_translation import (
    GroupTranslation,
    translate_group,
    translate_group_back,
)
from aggregator.maps.translation import LinkMaps
from aggregator.ports import ClusterReader
from aggregator.probe.link_probe import LinkProbe
from aggregator.settings import AggregatorSettings, LinkSettings
from aggregator.worker_clocks import ClockSkew
from local_cluster.client.model import ClusterMetadata, TopicPartition
from mirror_maker.formats import MapFormatError

GROUP_SECONDS_MAX: Final = 10.0
"""Seconds that a source may take to return a group's committed offsets."""
GROUP_REQUESTS_MAX: Final = 16
"""Most group translations in parallel; others wait, within the same timeout."""

AUDIT_SHOWN_SECONDS: Final = 2.0
"""Seconds for which the audit of all links is reused: with thousands of partitions it takes time to
assemble."""


class Aggregate:
    """The state of one aggregator process."""

    def __init__(
        self,
        settings: AggregatorSettings,
        *,
        open_source: Callable[[LinkSettings], ClusterReader],
        open_aggregate: Callable[[], ClusterReader],
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        probes: Mapping[str, LinkProbe] | None = None,
    ) -> None:
        self.settings = settings
        self.probes = probes or {}
        """The probes, by link."""
        self.maps = LinkMaps(_datacenters(settings))
        self.audits = AuditTopics(self.maps, [link.name for link in settings.links])
        self.completeness = CompletenessTopics(settings.links)
        self.monotonic = monotonic
        self.now_ms = now_ms
        """The wall clock, in milliseconds since the epoch."""
        self.problem: str | None = None
        """Why the aggregate's topics are stale; None while they are up to date."""
        self.clocks: Sequence[ClockSkew] = ()
        """The clocks of the mirror workers that responded."""
        self._open_source = open_source
        self._open_aggregate = open_aggregate
        self._partition_counts: Mapping[str, int] | None = None
        self._leaderless: Collection[TopicPartition] = ()
        self._topics_at: float | None = None
        self._was_ready = False
        self._workers: Sequence[WorkerStatus] = ()
        self._audit_shown: tuple[float, list[Document]] = (float("-inf"), [])
        self._group_slots = asyncio.Semaphore(GROUP_REQUESTS_MAX)

    def set_links(self, settings: AggregatorSettings, probes: Mapping[str, LinkProbe]) -> None:
        """Take over settings with edited links, and their probes.

        What is known of links that stay goes on. Requests in flight end with what they began with.
        """
        self.settings, self.probes = settings, probes
        names = [link.name for link in settings.links]
        self.maps = LinkMaps(_datacenters(settings), self.maps)
        self.audits = AuditTopics(self.maps, names, self.audits)
        self.completeness = CompletenessTopics(settings.links, self.completeness)
        self._audit_shown = (float("-inf"), [])

    @property
    def is_ready(self) -> bool:
        """Whether the topics are known and every existing map was read to its end; stays true.

        A map that must be read again later concerns one link. It must not make the whole service
        unready.
        """
        if not self._was_ready:
            self._was_ready = self._partition_counts is not None and not self.links_loading
        return self._was_ready

    @property
    def links_loading(self) -> list[str]:
        """The links whose maps are being read."""
        return [name for name, status in self.maps.topics() if status.state is TopicState.LOADING]

    @property
    def topics_age_seconds(self) -> float | None:
        """Seconds since the last update of the aggregate's topics; None before the first."""
        return None if self._topics_at is None else self.monotonic() - self._topics_at

    def set_topics(self, cluster: ClusterMetadata) -> None:
        """Set the topics of the aggregate."""
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
        """Partition counts of the aggregate's topics; None before the first update."""
        return self._partition_counts

    def why_unreadable(self, at: TopicPartition) -> str | None:
        """Return why a partition of the aggregate cannot be read now; None if it can."""
        if self._partition_counts is None:
            return "the topics of the aggregate are not known yet"
        if self._partition_counts.get(at.topic, 0) <= at.partition:
            return "the aggregate has no such topic yet"
        return "the partition has no leader" if at in self._leaderless else None

    def followed(self) -> Iterator[Followed[Any]]:
        """Yield every topic to follow."""
        yield from (followed for _, followed in self.maps.topics())
        yield from self.audits.followed()
        yield from self.completeness.followed()

    def set_workers(self, workers: Sequence[WorkerStatus]) -> None:
        """Set the status of the mirror workers that responded."""
        self._workers = workers

    def link_lag(self, link: str) -> LinkLag:
        """Return the lag of a link; unknown without a status of its workers."""
        return link_lag(link, self._workers)

    def link_state(self, link: str) -> Document:
        """Return what the workers that responded know of a link."""
        return link_state(link, self._workers)

    def link_audit(self, link: str) -> list[PartitionAudit]:
        """Return the audit of a link, by source partition. Raises MapFormatError."""
        ends = source_ends(link, self._workers)
        return self.audits.partitions(link, self.maps.target_ids, ends)

    def audit_document(
        self,
        link: LinkSettings,
        audits: Sequence[PartitionAudit],
        *,
        with_rows: bool,
        since_ms: int | None = None,
    ) -> Document:
        """Return the JSON of the given audits of a link."""
        verdicts = self.audits.verdicts(link.name).value
        names = {
            "link": link.name,
            "datacenter": link.datacenter,
            "source": link.source,
            "target": self.settings.aggregate,
        }
        return link_document(
            names,
            audits,
            {} if verdicts is None else verdicts.auditors,
            problem=self.audits.problem(link.name),
            now_ms=self.now_ms(),
            with_rows=with_rows,
            since_ms=since_ms,
        )

    def audit_documents(self) -> list[Document]:
        """Return the audits of all links with only the rows of faults.

        The result is reused for `AUDIT_SHOWN_SECONDS`.
        """
        shown_at, documents = self._audit_shown
        if self.monotonic() >= shown_at + AUDIT_SHOWN_SECONDS:
            documents = []
            for link in self.settings.links:
                audits: list[PartitionAudit] = []
                with suppress(MapFormatError):  # the link's map reports it
                    audits = self.link_audit(link.name)
                documents.append(self.audit_document(link, audits, with_rows=False))
            self._audit_shown = self.monotonic(), documents
        return documents

    def catalog(self) -> Catalog | None:
        """Return the merged topics; None while the topics of the aggregate are unknown."""
        if self._partition_counts is None:
            return None
        return build_catalog(self.settings.links, self._partition_counts, self.maps.mapped_topics())

    def completeness_parts(self) -> dict[str, list[PartCompleteness]] | None:
        """Return the completeness of each merged topic's copies; None before the topics."""
        catalog = self.catalog()
        return None if catalog is None else self.completeness.parts(catalog, self.now_ms())

    async def translate_group(
        self, link: LinkSettings, group: str, topics: Collection[str] | None
    ) -> GroupTranslation:
        """Translate a group's offsets at the source. Raises KafkaError or TimeoutError."""
        shared = shared_positions(link.name, group, self._workers)
        async with self._group_reader(lambda: self._open_source(link)) as client:
            return await translate_group(client, self.maps, link, group, topics, shared)

    async def translate_group_back(
        self, link: LinkSettings, group: str, topics: Collection[str] | None
    ) -> GroupTranslation:
        """Translate a group's offsets on the aggregate. Raises KafkaError or TimeoutError."""
        async with self._group_reader(self._open_aggregate) as client:
            return await translate_group_back(client, self.maps, link, group, topics)

    @asynccontextmanager
    async def _group_reader(
        self, open_cluster: Callable[[], ClusterReader]
    ) -> AsyncIterator[ClusterReader]:
        """Open a cluster for one translation, in its turn. Raises TimeoutError."""
        async with asyncio.timeout(GROUP_SECONDS_MAX), self._group_slots:
            client = open_cluster()
            try:
                yield client
            finally:
                await client.close()


def _datacenters(settings: AggregatorSettings) -> dict[str, str]:
    """Return the datacenter of each link's source, by link name."""
    return {link.name: link.datacenter for link in settings.links}
