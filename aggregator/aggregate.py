"""What is known of one aggregate right now: maps and topics, read without any I/O.

The followers write into it, the HTTP handlers read from it; both run on one event loop, so that a
reader always sees a whole state. Only group positions are asked for on demand, from the source of a
link and under a time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aggregator.audit.audit_document import Document, link_document
from aggregator.audit.audit_topics import LinkAudits
from aggregator.audit.link_audit import PartitionAudit
from aggregator.link_lag import LinkLag, WorkerStatus, link_lag, source_ends
from aggregator.maps.catalog import Catalog, build_catalog
from aggregator.maps.followed_topic import Followed, TopicState
from aggregator.maps.group_translation import GroupTranslation, translate_group
from aggregator.maps.translation import LinkMaps
from aggregator.ports import ClusterReader
from aggregator.probe.link_probe import LinkProbe
from aggregator.settings import AggregatorSettings, LinkSettings
from local_cluster.client.model import ClusterMetadata, TopicPartition
from mirror_maker.formats import MapFormatError

GROUP_SECONDS_MAX: Final = 10.0
"""How long a source may take to tell a group's offsets before the request is given up."""
GROUP_REQUESTS_MAX: Final = 16
"""Group translations at the same time; more wait their turn within the same limit."""

AUDIT_SHOWN_SECONDS: Final = 2.0
"""How long the audit of all links is shown before it is put together again: thousands of
partitions take a while."""


class Aggregate:
    """The state of one aggregator process."""

    def __init__(
        self,
        settings: AggregatorSettings,
        *,
        open_source: Callable[[LinkSettings], ClusterReader],
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        probes: Mapping[str, LinkProbe] | None = None,
    ) -> None:
        self.settings = settings
        self.probes = probes or {}
        """The probes of the links that are probed, by link."""
        self.maps = LinkMaps({link.name: link.datacenter for link in settings.links})
        self.audits = LinkAudits(self.maps, [link.name for link in settings.links])
        self.monotonic = monotonic
        self.now_ms = now_ms
        """The wall clock, in milliseconds since the epoch."""
        self.problem: str | None = None
        """Why the aggregate's topics are not fresh, in words; None while they are."""
        self._open_source = open_source
        self._partition_counts: Mapping[str, int] | None = None
        self._leaderless: Collection[TopicPartition] = ()
        self._topics_at: float | None = None
        self._was_ready = False
        self._workers: Sequence[WorkerStatus] = ()
        self._audit_shown: tuple[float, list[Document]] = (float("-inf"), [])
        self._group_slots = asyncio.Semaphore(GROUP_REQUESTS_MAX)

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
        return [name for name, status in self.maps.topics() if status.state is TopicState.LOADING]

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

    def followed(self) -> Iterator[Followed[Any]]:
        """Every topic that is to be read."""
        yield from (followed for _, followed in self.maps.topics())
        yield from self.audits.followed()

    def set_workers(self, workers: Sequence[WorkerStatus]) -> None:
        """What the mirror workers say of themselves, those that just answered."""
        self._workers = workers

    def link_lag(self, link: str) -> LinkLag:
        """How far a link is behind; unknown while its workers do not tell."""
        return link_lag(link, self._workers)

    def link_audit(self, link: str) -> list[PartitionAudit]:
        """The audit of a link, by source partition. Raises MapFormatError."""
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
        """What the audit says of a link's copies, or of those that are given."""
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
        """All links, without the rows that are no fault; for `AUDIT_SHOWN_SECONDS` the same."""
        shown_at, documents = self._audit_shown
        if self.monotonic() >= shown_at + AUDIT_SHOWN_SECONDS:
            documents = []
            for link in self.settings.links:
                audits: list[PartitionAudit] = []
                with suppress(MapFormatError):  # the link's map says so itself
                    audits = self.link_audit(link.name)
                documents.append(self.audit_document(link, audits, with_rows=False))
            self._audit_shown = self.monotonic(), documents
        return documents

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
