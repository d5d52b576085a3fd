"""Reads the target's log behind the copy and compares it with the receipts. Shell.

One for each link of a worker, for the flows that this worker copies:

    receipts topic --> expect --+
                                +--> LogCheck --judge--> FlowTally --now and then--> verdicts
    copies         --> see   ---+

It reads with fetch sessions, without waiting at the broker, so that a partition at rest costs
nothing. After each round it waits as long as the CPU budget of the worker says.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.batch import Record
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.audit.cpu_budget import CpuBudget
from mirror_maker.audit.flow_audit import UNKNOWN_CONFIGS, CopyConfigs, FlowAudit
from mirror_maker.audit.receipts_reader import ReceiptsReader
from mirror_maker.backoff import BackOff
from mirror_maker.context import LinkContext
from mirror_maker.flow.flow import Flow
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.receipts import decode_receipts, flow_id_of
from mirror_maker.formats.verdicts import AuditorState, Finding, FlowVerdicts, auditor_record
from mirror_maker.ports import DataSource

IDLE_MS: Final = 500
"""Pause where nothing came."""
PUBLISH_MS_MIN: Final = 1_000
"""Between two writes of what was found."""
PUBLISH_MS_PER_FLOW: Final = 20
"""For each flow so much longer: with thousands of them every write costs."""
SURVEY_MS: Final = 2_000
"""Between two looks at which flows there are, and who leads their copies."""
READ_BACK_MS: Final = 10_000
"""Between two looks at whether what was published still stands."""
CONFIGS_MS: Final = 60_000
"""Between two looks at the configs of a copy."""
RECEIPTS_HELD_MAX: Final = 200_000
"""Receipts that wait, of all flows of a link, about 75 MB; beyond, none are read."""
FETCH_BYTES_MAX: Final = 1024 * 1024
PARTITION_BYTES_MAX: Final = 256 * 1024
"""Of one partition at once: a millisecond of work and less."""

logger = logging.getLogger(__name__)


class LinkAuditor:
    """The audit of one link on one worker; `run` until cancelled."""

    def __init__(
        self,
        context: LinkContext,
        reader: DataSource,
        flows: Mapping[TopicPartition, Flow],
        budget: CpuBudget,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """`reader` is a client of the target that nothing waits on; `flows` are the link's on this
        worker, as they come and go. `cpu_ns` is the CPU time that was used so far."""
        self.failure: str | None = None
        """Why the audit does not go on, or None."""
        self._context = context
        self._reader = reader
        self._flows = flows
        self._budget = budget
        self._cpu_ns = cpu_ns
        self._audits: dict[TopicPartition, FlowAudit] = {}
        """By source partition."""
        self._by_copy: dict[TopicPartition, FlowAudit] = {}
        self._by_flow_id: dict[int, FlowAudit] = {}
        self._stirred: dict[TopicPartition, None] = {}
        """Copies of which something may be told."""
        self._asked: dict[TopicPartition, int] = {}
        """Copies that a session reads -> the broker."""
        self._sessions: dict[int, FetchSession] = {}
        self._receipts = ReceiptsReader(context, reader)
        self._configs: dict[str, tuple[int, CopyConfigs]] = {}
        """By topic: when it was asked, and the answer."""
        self._survey_ms = self._publish_ms = self._read_back_ms = 0
        self._node_failure: str | None = None
        """Which broker did not answer in the last round, or None."""
        self._publishing = asyncio.Lock()
        """What is written later must be what was found later."""

    # -- what others ask ------------------------------------------------------------------------

    def findings(self) -> Iterator[tuple[TopicPartition, Finding]]:
        """What is wrong in the copies of this worker's flows, by source partition."""
        for at, audit in sorted(self._audits.items()):
            for finding in audit.tally.findings:
                yield at, finding

    def audited_at_ms(self, audit: FlowAudit) -> int:
        """Everything acknowledged before was compared; 0 where that is not known yet."""
        return audit.audited_at_ms(self._receipts.read_to, self._receipts.at_end_ms)

    def cpu_share(self, monotonic_ms: int) -> float:
        """Of one core, over the last minute, by the audits of all links of the worker."""
        return self._budget.share_used(monotonic_ms)

    @property
    def has_findings(self) -> bool:
        return any(audit.tally.has_findings for audit in self._audits.values())

    def audit(self, source: TopicPartition) -> FlowAudit | None:
        """That of one flow."""
        return self._audits.get(source)

    # -- life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Audit until cancelled; trouble with the target is told and tried again."""
        limits = self._context.limits
        back_off = BackOff(limits.back_off_ms_min, limits.back_off_ms_max, self._context.random)
        while True:
            try:
                has_news = await self.step()
            except Exception as error:  # noqa: BLE001 - copying must not end with the audit
                await self._on_failure(error)
                await self._context.clock.sleep(back_off.next_ms())
                continue
            self.failure = self._node_failure
            back_off.reset()
            delay_ms = self._budget.delay_ms(self._context.clock.monotonic_ms())
            await self._context.clock.sleep(max(delay_ms, 0 if has_news else IDLE_MS))

    async def _on_failure(self, error: Exception) -> None:
        """Tell it, and begin again with the places."""
        if self.failure is None:
            is_known = isinstance(error, KafkaError | MapFormatError)
            name = self._context.settings.name
            logger.warning("link %s: audit: %s", name, error, exc_info=not is_known)
        self.failure = str(error) or repr(error)
        self._forget_places()
        with suppress(KafkaError):
            await self.publish()

    async def step(self) -> bool:
        """One round; whether anything came. Raises KafkaError, MapFormatError."""
        now_ms = self._context.clock.monotonic_ms()
        if now_ms >= self._survey_ms and self._context.map_store.is_open:
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
        coming = [at for at in self._flows if not self._is_current(at)]
        if coming:
            await self._context.audit_topics.read_verdicts()
        if coming or self._audits:
            await self._find_receipts()
        for at in coming:
            self._leave(at)
            await self._take_up(at)
            await asyncio.sleep(0)  # thousands of them must not hold up heartbeats
        for at in self._audits.keys() - self._flows.keys():
            self._leave(at)
        for copy, audit in self._by_copy.items():
            self._place(copy, audit)
        await self._refresh_configs()

    def _is_current(self, at: TopicPartition) -> bool:
        audit = self._audits.get(at)
        flow = self._context.map_store.state.latest_flow(*at)
        return flow is None or (audit is not None and audit.flow == flow)

    async def _take_up(self, at: TopicPartition) -> None:
        context, state = self._context, self._context.map_store.state
        flow = state.latest_flow(*at)
        opening = None if flow is None else state.opening(flow)
        if flow is None or opening is None:
            return
        copy = TopicPartition(opening.target_topic, at.partition)
        verdicts = context.audit_topics.verdicts
        forgotten = [each for old in verdicts.older(flow) for each in verdicts.forgetting(old)]
        if forgotten:  # of topics that were deleted and created again
            await context.audit_topics.write_verdicts(forgotten)
        audit = FlowAudit(
            context,
            opening,
            verdicts.flow(flow),
            await self._copy_configs(copy.topic),
            self._receipts.topic_id,
            self._receipts.start_offset,
        )
        self._audits[at] = self._by_copy[copy] = audit
        self._by_flow_id[audit.flow_id] = audit

    def _leave(self, at: TopicPartition) -> None:
        audit = self._audits.pop(at, None)
        if audit is None:
            return
        self._by_copy.pop(audit.copy, None)
        self._stirred.pop(audit.copy, None)
        self._by_flow_id.pop(audit.flow_id, None)
        leader = self._asked.pop(audit.copy, None)
        if leader is not None:
            self._session(leader).remove(audit.copy)

    def _place(self, copy: TopicPartition, audit: FlowAudit) -> None:
        """Have the copy read where it is led, if there is room for more."""
        leader = self._context.directory.target_leader(copy)
        before = self._asked.get(copy)
        if before is not None and before != leader:
            self._session(before).remove(copy)
            del self._asked[copy]
        if leader is None:
            return
        if audit.check.wants_batches:
            position = FetchPosition(audit.check.seen_to)
            if self._session(leader).wanted.get(copy) != position:
                self._session(leader).add(copy, position)
            self._asked[copy] = leader
        elif copy in self._asked:
            self._session(leader).remove(copy)
            del self._asked[copy]

    def _session(self, node_id: int) -> FetchSession:
        if node_id not in self._sessions:
            self._sessions[node_id] = FetchSession()
        return self._sessions[node_id]

    def _forget_places(self) -> None:
        """After trouble: leaders are looked for again, and sessions begin again."""
        for audit in self._audits.values():
            audit.lose_sight()
        self._asked.clear()
        self._sessions.clear()
        self._receipts.lose_leader()
        self._survey_ms = 0
        self._context.directory.hurry()

    async def _refresh_configs(self) -> None:
        """Of one topic at a time: whichever was asked for longest ago."""
        oldest = min(self._configs, key=lambda topic: self._configs[topic][0], default=None)
        topics = {audit.copy.topic for audit in self._audits.values() if audit.doubts_configs}
        for topic in topics & self._configs.keys():
            # Before a fault is told: it may be the work of a new config.
            self._configs[topic] = -CONFIGS_MS, self._configs[topic][1]
        for topic in topics | ({oldest} if oldest is not None else set()):
            audits = [audit for copy, audit in self._by_copy.items() if copy.topic == topic]
            if not audits:
                self._configs.pop(topic, None)
                continue
            configs = await self._copy_configs(topic)
            for audit in audits:
                audit.reconfigure(configs)

    async def _copy_configs(self, topic: str) -> CopyConfigs:
        now_ms = self._context.clock.monotonic_ms()
        asked_ms, known = self._configs.get(topic, (0, None))
        if known is None or now_ms > asked_ms + CONFIGS_MS:
            answer = (await self._context.sink.ask_topic_configs([topic])).get(topic)
            if answer is not None and not isinstance(answer, KafkaError):
                known = CopyConfigs.of(answer)
            elif known is None:
                # Nothing is called a fault that a config may explain.
                known = UNKNOWN_CONFIGS
            self._configs[topic] = now_ms, known
        return known

    # -- reading receipts -----------------------------------------------------------------------

    async def _find_receipts(self) -> None:
        """Where the receipts topic is led, and whether it is still the same one."""
        receipts = self._receipts
        if await receipts.find():
            for audit in self._audits.values():
                audit.restart_receipts(receipts.topic_id, receipts.start_offset)

    async def _read_receipts(self) -> bool:
        """From the first that some flow has room for; whether any came."""
        waiting = [each for each in self._audits.values() if each.check.wants_receipts]
        held = sum(each.check.waiting_receipts for each in self._audits.values())
        if not waiting or held > RECEIPTS_HELD_MAX:
            return False
        if not self._receipts.is_found:
            await self._find_receipts()
        position = min(each.receipts_next for each in waiting)
        fetched, is_gone = await self._receipts.fetch(position)
        if is_gone:
            await self._find_receipts()
            for audit in self._audits.values():
                audit.lose_receipts(self._receipts.start_offset, self._receipts.end_offset)
            return False
        started_ns = self._cpu_ns()
        behind = self._receipts.take(fetched, position, self._on_receipts)
        for audit in waiting:
            audit.reach_receipts(position, behind)
        self._spend(started_ns, len(fetched.records))
        return behind > position

    def _on_receipts(self, record: Record) -> None:
        if record.value is None:
            return
        try:
            audit = self._by_flow_id.get(flow_id_of(record.value))
            if audit is None:
                return
            entry = decode_receipts(record.value)
        except MapFormatError as error:  # what it is about stays UNVERIFIED
            logger.warning("%s: offset %d: %s", self._receipts.name, record.offset, error)
            return
        audit.expect(entry, record.offset, record.timestamp_ms)
        self._stirred[audit.copy] = None

    # -- reading copies -------------------------------------------------------------------------

    async def _read_copies(self) -> bool:
        has_news = False
        for node_id in set(self._asked.values()):
            session = self._session(node_id)
            try:
                answer = await self._reader.fetch_in_session(
                    node_id,
                    session,
                    wait_ms_max=0,
                    bytes_max=FETCH_BYTES_MAX,
                    partition_bytes_max=PARTITION_BYTES_MAX,
                )
            except KafkaError as error:  # the copies of other brokers are read all the same
                self._lose_node(node_id, error)
                continue
            for copy, fetched in answer.partitions.items():
                audit = self._by_copy.get(copy)
                if audit is None:
                    continue
                if fetched.error:
                    await self._on_error(copy, audit, fetched.error)
                    continue
                started_ns = self._cpu_ns()
                has_news |= audit.take(session.wanted[copy].offset, fetched)
                self._stirred[copy] = None
                self._place(copy, audit)
                self._spend(started_ns, len(fetched.records))
        self._judge()
        return has_news

    def _lose_node(self, node_id: int, error: KafkaError) -> None:
        """A broker does not answer: its copies are looked for at the next survey."""
        self._node_failure = f"broker {node_id}: {error}"
        del self._sessions[node_id]
        for copy in [copy for copy, asked in self._asked.items() if asked == node_id]:
            del self._asked[copy]
            self._by_copy[copy].lose_sight()
        self._context.directory.hurry()

    def _judge(self) -> None:
        """Tell what can be told; what waits for the other side is looked at again next time."""
        clock, stirred = self._context.clock, self._stirred
        started_ns, now_ms = self._cpu_ns(), clock.monotonic_ms()
        self._stirred = {}
        for copy in stirred:
            audit = self._by_copy[copy]
            node = self._asked.get(copy)
            end = None if node is None else self._session(node).high_watermark(copy)
            audit.judge(end, now_ms, clock.now_ms())
            self._place(copy, audit)
            if audit.is_unsettled:
                self._stirred[copy] = None
        self._spend(started_ns, 0)

    async def _on_error(self, copy: TopicPartition, audit: FlowAudit, error: ErrorCode) -> None:
        if error == ErrorCode.offset_out_of_range:
            first, end = await self._context.sink_logs.bounds(copy)
            audit.move(first, end)
            self._stirred[copy] = None
            self._place(copy, audit)
            return
        self._context.directory.hurry()
        self._session(self._asked.pop(copy)).remove(copy)

    def _spend(self, started_ns: int, fetched_bytes: int) -> None:
        spent_ns = self._cpu_ns() - started_ns
        self._budget.spend(self._context.clock.monotonic_ms(), spent_ns, fetched_bytes)

    # -- telling --------------------------------------------------------------------------------

    async def publish(self) -> None:
        """Write what was found since the last time. Raises KafkaError."""
        async with self._publishing:
            await self._publish()

    async def read_back(self) -> None:
        """Have published again what somebody else's late write has replaced. Raises KafkaError.

        A worker that is gone may have a write on its way that arrives behind ours.
        """
        async with self._publishing:
            await self._context.audit_topics.read_verdicts()
            started_ns = self._cpu_ns()
            for audit in self._audits.values():
                audit.compare_published(self._context.audit_topics.verdicts.flow(audit.flow))
            self._spend(started_ns, 0)

    async def _publish(self) -> None:
        context = self._context
        now_ms = context.clock.now_ms()
        state = AuditorState(
            worker_id=context.worker_id,
            at_ms=now_ms,
            cpu_share=round(self.cpu_share(context.clock.monotonic_ms()), 4),
            failure=self.failure,
        )
        records = [auditor_record(state)]
        taken = []
        started_ns = self._cpu_ns()
        for at, audit in self._audits.items():
            audit.settle()
            flow = self._flows.get(at)
            source_end = None if flow is None else flow.history.high_watermark
            if audit.is_changed(source_end):
                made = audit.take_records(
                    self._receipts.read_to, self._receipts.at_end_ms, source_end
                )
                taken.append((audit, made))
                records += made
        self._spend(started_ns, 0)
        verdicts = context.audit_topics.verdicts
        try:
            await context.audit_topics.write_verdicts(records)
        except BaseException:
            for audit, made in taken:
                audit.put_back(made)
            raise
        for audit, _ in taken:
            audit.on_written()
        if context.audit_topics.verdicts is not verdicts:  # the topic was begun again
            for audit in self._audits.values():
                audit.publish_again(FlowVerdicts())
