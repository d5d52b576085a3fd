"""The audit of one link on one worker: reads receipts and copies, judges, publishes. Shell.

It audits the flows that this worker copies:

    receipts topic --> expect --+
                                +--> LogCheck --judge--> FlowTally --now and then--> verdicts
    copies         --> see   ---+

It reads with fetch sessions and does not wait at the broker, so an idle partition costs nothing.
It rests between pieces and, after each round, as long as the CPU budget of the worker says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.audit.copy_configs import ConfigCache
from mirror_maker.audit.copy_reader import CopyReader
from mirror_maker.audit.cpu_budget import CpuBudget, CpuMeter
from mirror_maker.audit.flow_audit import FlowAudit
from mirror_maker.audit.receipts_feed import ReceiptsFeed
from mirror_maker.audit.receipts_reader import ReceiptsReader
from mirror_maker.audit.verdict_publisher import AuditedEnd, VerdictPublisher
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.verdicts import AuditorState, Finding
from mirror_maker.metrics.lag import HighWatermarkHistory
from mirror_maker.periodic import PeriodicTask
from mirror_maker.ports import Clock, DataSink, DataSource
from mirror_maker.resume.foreign_records import may_hold_foreign
from mirror_maker.resume.source_log import LinkLogs
from mirror_maker.settings import Limits, LinkSettings
from mirror_maker.stores.link_stores import LinkStores

IDLE_MS: Final = 500
"""Pause after a round that brought nothing."""
PUBLISH_MS_MIN: Final = 1_000
"""Between two writes of verdicts."""
PUBLISH_MS_PER_FLOW: Final = 20
"""Added per flow: with thousands of flows every write costs."""
SURVEY_MS: Final = 2_000
"""Between two surveys of flows, and of who leads their copies."""
READ_BACK_MS: Final = 10_000
"""Between two checks that what was published still stands."""
RECEIPTS_HELD_MAX: Final = 200_000
"""Waiting receipts of all flows of a link, about 75 MB; beyond, none are read."""


class AuditedFlow(Protocol):
    """A flow as the audit sees it."""

    @property
    def history(self) -> HighWatermarkHistory: ...


class LinkAuditor:
    """The audit of one link; `run` until cancelled."""

    def __init__(
        self,
        settings: LinkSettings,
        flows: Mapping[TopicPartition, AuditedFlow],
        *,
        worker_id: str,
        reader: DataSource,
        sink: DataSink,
        logs: LinkLogs,
        directory: Directory,
        stores: LinkStores,
        limits: Limits,
        clock: Clock,
        backoff: Backoff,
        budget: CpuBudget,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """`flows` are the link's on this worker, as they come and go. `reader` is a client of the
        target that nothing else waits for. `cpu_ns` returns the CPU time used so far."""
        self._settings = settings
        self._flows = flows
        self._worker_id = worker_id
        self._logs = logs
        self._directory = directory
        self._map_store = stores.map_store
        self._journal = stores.journal
        self._topics = stores.audit_topics
        self._map_flush_ms = limits.map_flush_ms
        self._clock = clock
        self._budget = budget
        self._meter = CpuMeter(budget, cpu_ns, clock)
        self._audits: dict[TopicPartition, FlowAudit] = {}
        """By source partition."""
        self._by_copy: dict[TopicPartition, FlowAudit] = {}
        self._stirred: dict[TopicPartition, None] = {}
        """Copies that may have something to judge."""
        self._copies = CopyReader(reader, directory.target_leader)
        self._receipts = ReceiptsReader(self._topics.receipts_name, sink, reader, clock)
        self._feed = ReceiptsFeed(self._receipts, self._meter, self._stir)
        self._configs = ConfigCache(sink, clock)
        self._survey_ms = self._publish_ms = self._read_back_ms = 0
        self._node_failure: str | None = None
        """The broker that did not answer in the last round."""
        self._is_idle = False
        """Whether the last round brought nothing."""
        self._publisher = VerdictPublisher(self._topics, self._receipts, self._meter)
        self._rounds = PeriodicTask(
            self._round,
            link=settings.name,
            what_failed="audit",
            pause=self._pause,
            backoff=backoff,
            on_failure=self._on_failure,
            survives=Exception,  # copying must not end with the audit
            expected=(KafkaError, MapFormatError),
        )
        self.run = self._rounds.run

    # -- what others ask ------------------------------------------------------------------------

    @property
    def failure(self) -> str | None:
        """Why the audit does not continue, or None."""
        return self._rounds.failure or self._node_failure

    def findings(self) -> Iterator[tuple[TopicPartition, Finding]]:
        """Yield what is wrong in the copies of this worker's flows, by source partition."""
        for at, audit in sorted(self._audits.items()):
            for finding in audit.tally.findings:
                yield at, finding

    def audited_at_ms(self, audit: FlowAudit) -> int:
        """Return the time before which every acknowledged batch was compared; 0 if unknown."""
        return audit.audited_at_ms(self._receipts.read_to, self._receipts.at_end_ms)

    def cpu_share(self, monotonic_ms: int) -> float:
        """Return the share of a core that all audits of the worker used in the last minute."""
        return self._budget.share_used(monotonic_ms)

    @property
    def has_findings(self) -> bool:
        return any(audit.tally.has_findings for audit in self._audits.values())

    def audit(self, source: TopicPartition) -> FlowAudit | None:
        """Return the audit of one flow."""
        return self._audits.get(source)

    # -- rounds ---------------------------------------------------------------------------------

    async def _round(self) -> None:
        self._is_idle = not await self.step()

    async def _pause(self) -> None:
        delay_ms = self._budget.delay_ms(self._clock.monotonic_ms())
        await self._clock.sleep(max(delay_ms, IDLE_MS if self._is_idle else 0))

    async def _on_failure(self) -> None:
        """Look for leaders again, and publish the failure."""
        self._forget_places()
        with suppress(KafkaError):
            await self.publish()

    async def step(self) -> bool:
        """Do one round; return whether it brought anything. Raises KafkaError, MapFormatError."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._survey_ms and self._map_store.is_open:
            await self._survey()
            self._survey_ms = now_ms + SURVEY_MS
        has_news = False
        if self._audits:
            has_news = await self._read_receipts()
            self._node_failure = None
            has_news |= await self._read_copies()
        if now_ms >= self._publish_ms:
            await self.publish()
            pause_ms = PUBLISH_MS_PER_FLOW * len(self._audits)
            self._publish_ms = now_ms + max(PUBLISH_MS_MIN, pause_ms)
        if self._audits and now_ms >= self._read_back_ms:
            await self.read_back()
            self._read_back_ms = now_ms + READ_BACK_MS
        return has_news

    # -- which flows ----------------------------------------------------------------------------

    async def _survey(self) -> None:
        """Take up flows that came, leave those that went, follow leaders that moved."""
        coming: list[TopicPartition] = []

        def look(at: TopicPartition) -> None:
            if not self._is_current(at):
                coming.append(at)

        await self._meter.for_each(list(self._flows), look)
        if coming:
            await self._topics.read_verdicts()
        if coming or self._audits:
            await self._feed.find()
        for at in coming:
            self._leave(at)
            await self._take_up(at)
            await asyncio.sleep(0)  # thousands of them must not delay heartbeats
        for at in self._audits.keys() - self._flows.keys():
            self._leave(at)
        await self._meter.for_each(list(self._by_copy.values()), self._place)
        await self._refresh_configs()

    def _is_current(self, at: TopicPartition) -> bool:
        audit = self._audits.get(at)
        flow = self._map_store.state.latest_flow(*at)
        return flow is None or (audit is not None and audit.flow == flow)

    async def _take_up(self, at: TopicPartition) -> None:
        state = self._map_store.state
        flow = state.latest_flow(*at)
        opening = None if flow is None else state.opening(flow)
        if flow is None or opening is None:
            return
        verdicts = self._topics.verdicts
        forgotten = [each for old in verdicts.older(flow) for each in verdicts.forgetting(old)]
        if forgotten:  # of topics that were deleted and re-created
            await self._topics.write_verdicts(forgotten)
        audit = FlowAudit(
            opening,
            verdicts.flow(flow),
            await self._configs.get(opening.target_topic),
            is_exclusive=not may_hold_foreign(self._settings, flow.source_topic),
            receipts_id=self._receipts.topic_id,
            receipts_start=self._receipts.start_offset,
            offsets=self._feed.offsets,
            journal=self._journal,
            worker_id=self._worker_id,
            clock=self._clock,
            map_flush_ms=self._map_flush_ms,
        )
        self._audits[at] = self._by_copy[audit.copy] = audit
        self._feed.add(audit)

    def _leave(self, at: TopicPartition) -> None:
        audit = self._audits.pop(at, None)
        if audit is None:
            return
        self._by_copy.pop(audit.copy, None)
        self._stirred.pop(audit.copy, None)
        self._feed.remove(audit)
        self._copies.leave(audit.copy)

    def _place(self, audit: FlowAudit) -> None:
        """Have the copy read where it is led, if there is room for more."""
        check = audit.check
        self._copies.want(audit.copy, check.seen_to if check.wants_batches else None)

    def _forget_places(self) -> None:
        """Look for leaders again, and open new sessions, after a failure."""
        for audit in self._audits.values():
            audit.lose_sight()
        self._copies.forget_all()
        self._receipts.lose_leader()
        self._survey_ms = 0
        self._directory.hurry()

    async def _refresh_configs(self) -> None:
        """Look up the configs of the topic with the oldest lookup, and of those with new findings.

        A finding may be the work of a new config, so the lookup precedes the next verdicts.
        """
        oldest = self._configs.oldest
        topics = {audit.copy.topic for audit in self._audits.values() if audit.doubts_configs}
        for topic in topics:
            self._configs.expire(topic)
        for topic in topics | ({oldest} if oldest is not None else set()):
            audits = [audit for copy, audit in self._by_copy.items() if copy.topic == topic]
            if not audits:
                self._configs.forget(topic)
                continue
            configs = await self._configs.get(topic)
            for audit in audits:
                audit.reconfigure(configs)

    # -- reading --------------------------------------------------------------------------------

    async def _read_receipts(self) -> bool:
        held = sum(self._by_copy[copy].check.waiting_receipts for copy in self._stirred)
        return held <= RECEIPTS_HELD_MAX and await self._feed.read()

    def _stir(self, audit: FlowAudit) -> None:
        self._stirred[audit.copy] = None

    async def _read_copies(self) -> bool:
        has_news = False
        for node_id in self._copies.brokers:
            try:
                answer = await self._copies.fetch(node_id)
            except KafkaError as error:  # the copies on other brokers are read all the same
                self._lose_broker(node_id, error)
                continue
            for copy, fetched in answer.items():
                audit = self._by_copy.get(copy)
                if audit is None:
                    continue
                if fetched.error:
                    await self._on_error(audit, fetched.error)
                    continue
                taking = audit.take(self._copies.position(copy), fetched)
                has_news |= await self._meter.in_pieces(taking, len(fetched.records))
                self._stirred[copy] = None
                self._place(audit)
        await self._judge()
        return has_news

    def _lose_broker(self, node_id: int, error: KafkaError) -> None:
        """Look for the copies of a broker that does not answer at the next survey."""
        self._node_failure = f"broker {node_id}: {error}"
        for copy in self._copies.lose_broker(node_id):
            self._by_copy[copy].lose_sight()
        self._directory.hurry()

    async def _judge(self) -> None:
        """Judge what can be judged; what waits for the other side is judged next time."""
        now_ms = self._clock.monotonic_ms()
        for copy in list(self._stirred):
            audit, end = self._by_copy[copy], self._copies.high_watermark(copy)
            await self._meter.in_pieces(audit.judge(end, now_ms, self._clock.now_ms()))
            self._place(audit)
            if not audit.is_unsettled:
                del self._stirred[copy]

    async def _on_error(self, audit: FlowAudit, error: ErrorCode) -> None:
        if error == ErrorCode.offset_out_of_range:
            audit.move(*await self._logs.target(audit.copy).bounds())
            self._stirred[audit.copy] = None
            self._place(audit)
            return
        self._directory.hurry()
        self._copies.leave(audit.copy)

    # -- publishing -----------------------------------------------------------------------------

    async def publish(self) -> None:
        """Write the verdicts since the last time. Raises KafkaError."""
        await self._publisher.publish(self._state, self._ends)

    async def read_back(self) -> None:
        """Queue again what somebody else's late write has replaced. Raises KafkaError."""
        await self._publisher.read_back(self._audits.values())

    def _state(self) -> AuditorState:
        return AuditorState(
            worker_id=self._worker_id,
            at_ms=self._clock.now_ms(),
            cpu_share=round(self.cpu_share(self._clock.monotonic_ms()), 4),
            failure=self.failure,
        )

    def _ends(self) -> list[AuditedEnd]:
        flows = [(self._flows.get(at), audit) for at, audit in self._audits.items()]
        return [
            (audit, None if flow is None else flow.history.high_watermark) for flow, audit in flows
        ]
