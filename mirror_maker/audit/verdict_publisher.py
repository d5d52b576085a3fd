"""Publishes the verdicts of one link's audit, and checks that they stand. Shell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mirror_maker.audit.cpu_budget import CpuMeter
from mirror_maker.audit.flow_audit import FlowAudit
from mirror_maker.audit.receipts_reader import ReceiptsReader
from mirror_maker.formats.verdict_topic import FlowVerdicts
from mirror_maker.formats.verdicts import AuditorState, auditor_record
from mirror_maker.stores.audit_topics import AuditTopics

PUBLISHED_AT_ONCE_MAX: Final = 10
"""Flows of one piece of work: 0.1 ms for the JSON of each."""

AuditedEnd = tuple[FlowAudit, int | None]
"""An audit and the end of its source partition."""


class VerdictPublisher:
    """The verdicts topic, as one auditor writes it. Methods raise KafkaError."""

    def __init__(self, topics: AuditTopics, receipts: ReceiptsReader, meter: CpuMeter) -> None:
        self._topics = topics
        self._receipts = receipts
        self._meter = meter
        self._writing = asyncio.Lock()
        """A later write must contain later verdicts."""

    async def publish(
        self, state: Callable[[], AuditorState], ends: Callable[[], Sequence[AuditedEnd]]
    ) -> None:
        """Write the auditor's state, and the verdicts since the last time."""
        async with self._writing:
            await self._publish(state(), ends())

    async def read_back(self, audits: Iterable[FlowAudit]) -> None:
        """Queue again what somebody else's late write has replaced.

        A worker that is gone may have a write in flight that arrives after ours.
        """
        async with self._writing:
            await self._topics.read_verdicts()
            known = self._topics.verdicts
            await self._meter.for_each(
                list(audits), lambda audit: audit.compare_published(known.flow(audit.flow))
            )

    async def _publish(self, state: AuditorState, ends: Sequence[AuditedEnd]) -> None:
        records = [auditor_record(state)]
        taken = []

        def take(end: AuditedEnd) -> None:
            audit, source_end = end
            audit.settle()
            if audit.is_changed(source_end):
                made = audit.take_records(
                    self._receipts.read_to, self._receipts.at_end_ms, source_end
                )
                taken.append((audit, made))
                records.extend(made)

        verdicts = self._topics.verdicts
        try:
            await self._meter.for_each(ends, take, items_max=PUBLISHED_AT_ONCE_MAX)
            await self._topics.write_verdicts(records)
        except BaseException:
            for audit, made in taken:
                audit.put_back(made)
            raise
        for audit, _ in taken:
            audit.on_written()
        if self._topics.verdicts is not verdicts:  # the topic was re-created
            for audit, _ in ends:
                audit.publish_again(FlowVerdicts())
