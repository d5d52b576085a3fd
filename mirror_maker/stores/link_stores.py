"""The topics in which one link keeps its state on the target. Shell."""

from __future__ import annotations

from random import Random
from typing import Final

from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.ports import Clock, DataSink
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.audit_topics import AuditTopics, ReplaceableTopic
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.map_store import MapStore
from mirror_maker.stores.state_topic import StateTopic, create_missing_topics

COMPLETENESS_SEGMENT_MS: Final = 6 * 3_600_000
"""Retention deletes whole segments."""


class LinkStores:
    """The map, the journal and the audit's topics of one link, as one worker reads and writes."""

    def __init__(
        self,
        sink: DataSink,
        settings: LinkSettings,
        *,
        worker_id: str,
        clock: Clock,
        random: Random,
    ) -> None:
        self._sink = sink
        self.map_store = MapStore(
            sink,
            link=settings.name,
            terms=settings.terms,
            worker_id=worker_id,
            replication_factor=settings.replication_factor,
            clock=clock,
            random=random,
        )
        self.journal = GapStore(
            sink,
            link=settings.name,
            worker_id=worker_id,
            replication_factor=settings.replication_factor,
            clock=clock,
            random=random,
        )
        self.completeness = ReplaceableTopic(
            lambda: StateTopic(
                sink,
                completeness_topic_name(settings.name),
                replication_factor=settings.replication_factor,
                clock=clock,
                replay=lambda key, value: None,
                configs={
                    "cleanup.policy": "delete",
                    "retention.ms": str(settings.completeness_retention_ms),
                    "segment.ms": str(COMPLETENESS_SEGMENT_MS),
                },
            )
        )
        """Created by the first write."""
        self.audit_topics = AuditTopics(
            sink,
            link=settings.name,
            replication_factor=settings.replication_factor,
            clock=clock,
        )

    async def open(self, source_cluster_id: str | None) -> None:
        """Create the topics if they are missing, read them, and register the link.

        Raises KafkaError, LinkFailedError.
        """
        gaps, entries = self.journal.records, self.map_store.records
        # The audit's topics are created in the same request. If that fails, their writers report
        # it.
        failures = await create_missing_topics(
            self._sink, [gaps, entries, *self.audit_topics.topics]
        )
        for needed in (gaps, entries):
            if needed.name in failures:
                raise failures[needed.name]
        await self.journal.catch_up()
        await self.map_store.open(source_cluster_id)
