"""One link on one worker: its flows as they are assigned, and the state of the link.

TopicDiscovery --known flows--> group of workers --assign--> flows
flows --on_moved--> FetcherPool: what to fetch; MapFlusher: what to map;
                    watchers: what has moved since their last look
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError
from mirror_maker.audit.findings import describe_findings
from mirror_maker.flow.flow import Flow
from mirror_maker.formats import gaps_topic_name, map_topic_name
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.controls import PausedPart
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import verdicts_topic_name
from mirror_maker.formats.written_rights import rights_topic_name
from mirror_maker.link.link_parts import LinkParts
from mirror_maker.link.stalled_partitions import StalledPartition, StalledPartitions, find_stalled
from mirror_maker.model import FlowState, LinkFailedError, LinkState
from mirror_maker.repair.copy_repair import JsonObject
from mirror_maker.repair.plan import How

log = logging.getLogger(__name__)


class LinkWorker:
    """One worker's part of one link; `run` until cancelled, then `finish`."""

    def __init__(
        self,
        parts: LinkParts,
        target_alias: str,
        on_known_changed: Callable[[], None],
        missing_rights: Callable[[], list[str]] = list,
    ) -> None:
        """`missing_rights` returns what the mirror's principals were refused in either cluster, a
        sentence each.
        """
        self.settings = parts.settings
        self.limits = parts.limits
        self.clock = parts.clock
        self.directory = parts.directory
        self.sink = parts.clients.sink
        self.map_store = parts.stores.map_store
        self.journal = parts.stores.journal
        self.map_writes = parts.map_writes
        self.new_backoff = parts.new_backoff
        self.missing_rights = missing_rights
        self.flows = parts.flows
        self.known: frozenset[TopicPartition] = frozenset()
        """Source partitions discovered so far; a deleted topic stays known."""
        self.failure: str | None = None
        """Why the link as a whole has stopped."""
        self.owned_copies = parts.owned_copies()
        self._fetchers = parts.fetchers(self._note_poll_failure)
        self._operator_controls = parts.operator_controls(
            lambda: self.known, self._fetchers.look_at_all, self._on_ordered
        )
        self.control = self._operator_controls.control
        self._discovery = parts.discovery(
            target_alias, self.owned_copies, self._on_round, self._operator_controls.follow
        )
        self._compacted_topics = parts.compacted_topics()
        self._flusher = parts.map_flusher(self._compacted_topics, self._fetchers.look_at_all)
        self.flush = self._flusher.flush
        self.auditor = parts.auditor()
        self.completeness = parts.completeness
        self._repair = parts.copy_repair()
        self._flow_factory = parts.flow_factory
        self._offer = parts.offer
        self._on_known_changed = on_known_changed
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._leaving: set[TopicPartition] = set()
        self._watchers: list[set[TopicPartition]] = []
        self._poll_failures: dict[int, str] = {}
        """By broker of the source."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def mirrored_flows(self) -> list[Flow]:
        """Return this worker's flows except the probe's, by source partition.

        The probe's flow does not count for the link's state, lag and totals: the aggregator reports
        it.
        """
        probe_topic = self.settings.probe_topic
        return [flow for at, flow in sorted(self.flows.items()) if at.topic != probe_topic]

    @property
    def mirrored_partitions(self) -> int:
        """Return how many partitions are `known`, without the probe's."""
        probe_topic = self.settings.probe_topic
        return sum(at.topic != probe_topic for at in self.known)

    @property
    def is_first_worker(self) -> bool:
        """Return whether this worker does what one worker of the link must do.

        That is the worker of the first partition at the source, which all workers see alike;
        `known` differs among them. If the link has nothing to copy, it is every worker.
        """
        wanted = self._discovery.wanted
        names = [name for name, topic in wanted.items() if topic.partitions]
        if not names:
            return True
        first = min(names)
        return TopicPartition(first, min(wanted[first].partitions)) in self.flows

    @property
    def reason(self) -> str | None:
        """Return why the link is not well: the worst known problem, in words."""
        collision = next(iter(self._discovery.collisions.items()), None)
        stalled = self.stalled()
        is_failed = bool(stalled.worst) and stalled.worst[0].state is FlowState.FAILED
        return (
            self.failure
            or self.source_failure
            or self.target_failure
            or self._map_failure
            or (stalled.sentence() if is_failed else None)
            or self.audit_reason
            or (
                f"{' and '.join(collision[1])} would both become {collision[0]}"
                if collision
                else None
            )
            or next(iter(self.missing_rights()), None)
            or stalled.sentence()
            or ("an operator has paused it" if self.state() is LinkState.HELD else None)
        )

    def stalled(self) -> StalledPartitions:
        """Return this worker's partitions of the link that copy nothing, and why."""
        return find_stalled(
            StalledPartition(at, flow.current_state(), flow.trouble, flow.reason)
            for at, flow in self.flows.items()
        )

    @property
    def audit_reason(self) -> str | None:
        """Return what the audit found wrong in the copies of this worker, or None."""
        return None if self.auditor is None else describe_findings(self.auditor.findings())

    @property
    def left_out(self) -> list[str]:
        """Return source topics that match the link's patterns and are not copied."""
        return self._discovery.left_out

    @property
    def source_failure(self) -> str | None:
        """Return why the source, or one of its brokers, did not answer last time."""
        return self._discovery.source_failure or next(iter(self._poll_failures.values()), None)

    @property
    def target_failure(self) -> str | None:
        """Return why the target did not answer last time."""
        return self._discovery.target_failure

    @property
    def _map_failure(self) -> str | None:
        """Return why the map could not be written last time, and the consequence."""
        writes = self.map_writes
        if writes.failure is None:
            return None
        since_s = writes.unwritten_ms(self.clock.monotonic_ms()) // 1000
        stops = ", and nothing is copied until it is" if writes.is_overdue else ""
        return f"the map has not been written for {since_s} s{stops}: {writes.failure}"

    # -- life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled; a link that cannot be trusted stops and says why."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._discovery.run())
                group.create_task(self._flusher.run())
                group.create_task(self._compacted_topics.run())
                group.create_task(self._operator_controls.run())
                if self.auditor is not None:
                    group.create_task(self.auditor.run())
                if self.completeness is not None:
                    group.create_task(self.completeness.run())
                self.assign(self._assigned)
        except* LinkFailedError as errors:
            self.failure = str(errors.exceptions[0])
            log.error("link %s stopped: %s", self.name, self.failure)
        finally:
            self._group = None

    async def finish(self) -> None:
        """Prepare a clean stop: stop reading, wait for batches in flight, write the map.

        This takes at most `drain_ms_max`. The next worker proves the rest from the target.
        """
        limit_s = self.limits.drain_ms_max / 1000
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*(flow.drain() for flow in self.flows.values()))
                await self.flush()
        except (TimeoutError, KafkaError, LinkFailedError) as error:
            log.warning("link %s: stopped without its last map write: %r", self.name, error)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Copy these source partitions and no others; flows that stay are not touched."""
        self._assigned = frozenset(partitions)
        if self._group is None:
            return  # `run` takes it over
        for at in self.flows.keys() - self._assigned - self._leaving:
            self._leaving.add(at)
            self._group.create_task(self._release(self.flows[at]))
        for at in sorted(self._assigned - self.flows.keys()):
            self._take_over(at)
        self.directory.hurry()

    def _take_over(self, at: TopicPartition) -> None:
        assert self._group is not None
        flow = self._flow_factory.make(at, on_moved=self._on_moved, flush_map=self.flush)
        self.flows[at] = flow
        self._tasks[at] = self._group.create_task(flow.run())

    async def _release(self, flow: Flow) -> None:
        """Hand a flow over: wait for batches in flight, then write the map."""
        try:
            async with asyncio.timeout(self.limits.drain_ms_max / 1000):
                await flow.drain()
                await self.flush()
        except (TimeoutError, KafkaError) as error:
            log.warning("%s: handed over without its last map write: %r", flow.source, error)
        self._tasks.pop(flow.source).cancel()
        del self.flows[flow.source]
        self._on_moved(flow)
        self._leaving.discard(flow.source)
        if flow.source in self._assigned:
            self._take_over(flow.source)  # it was assigned again meanwhile

    def _on_moved(self, flow: Flow) -> None:
        self._flusher.look_at(flow.source)
        self._fetchers.look_at(flow.source)
        if self.completeness is not None:
            self.completeness.look_at(flow.source)
        for watched in self._watchers:
            watched.add(flow.source)

    def _on_round(self, brokers: Iterable[int], is_changed: bool) -> None:
        """Take in a round of discovery."""
        if self._group is not None:
            self._fetchers.ensure(brokers, self._group)
        if not is_changed:
            return
        # A flow stops if its topic was re-created, and is marked if its topic is missing.
        for flow in self.flows.values():
            flow.check_topics()
            if flow.session is not None and flow.session.replicator.can_take:
                self._offer(flow.session)  # its target partition may have a leader again
        self._fetchers.look_at_all()
        found = frozenset(
            TopicPartition(name, partition)
            for name, topic in self._discovery.wanted.items()
            for partition in topic.partitions
        )
        if not found <= self.known:
            self.known |= found
            self._on_known_changed()

    def _note_poll_failure(self, node_id: int, failure: str | None) -> None:
        if failure is None:
            self._poll_failures.pop(node_id, None)
        else:
            self._poll_failures[node_id] = failure

    # -- for other parts of the worker ----------------------------------------------------------

    def watch(self) -> set[TopicPartition]:
        """Return a set that collects source partitions of flows that moved, came or went.

        The caller empties it.
        """
        watched = set(self.flows)
        self._watchers.append(watched)
        return watched

    def uses(self, topic: str | None) -> bool:
        """Return whether it is one of the link's topics on the target: a copy or a topic of
        state.
        """
        names = (
            map_topic_name,
            gaps_topic_name,
            receipts_topic_name,
            verdicts_topic_name,
            completeness_topic_name,
            rights_topic_name,
        )
        states = {name(self.name) for name in names}
        return topic in self.directory.target or topic in states

    def retry(self, topic: str | None, partition: int | None) -> list[TopicPartition]:
        """Retry stalled partitions at once, within a topic or partition if named; return them."""
        return [
            at
            for at, flow in sorted(self.flows.items())
            if topic in (None, at.topic) and partition in (None, at.partition) and flow.retry()
        ]

    async def examine(self, source: TopicPartition) -> JsonObject:
        """Return what is wrong with the copy of a partition, whoever copies it, and the possible
        repairs.

        Raises NoRepairError, KafkaError.
        """
        return await self._repair.examine(source)

    async def repair(self, source: TopicPartition, how: How) -> JsonObject:
        """Order a repair; the worker that copies the partition follows within `controls_ms`.

        Raises NoRepairError, KafkaError.
        """
        document = await self._repair.order(source, how)
        await self._operator_controls.follow()
        return document

    def _on_ordered(self, source: TopicPartition) -> None:
        if source in self.flows:
            self.flows[source].check_orders()

    def state(self) -> LinkState:
        """Return the state of the whole link."""
        states = [flow.current_state() for flow in self.mirrored_flows]
        if self.failure is not None or (states and all(s is FlowState.FAILED for s in states)):
            return LinkState.FAILED
        if self.source_failure is not None:
            return LinkState.SOURCE_DOWN
        if self.target_failure is not None:
            return LinkState.TARGET_DOWN
        hurt = {FlowState.FAILED, FlowState.PAUSED, FlowState.SOURCE_GONE}
        is_restricted = bool(
            self._discovery.collisions
            or self.map_writes.failure
            or self.missing_rights()
            or (self.auditor is not None and self.auditor.has_findings)
        )
        if is_restricted or not hurt.isdisjoint(states):
            return LinkState.DEGRADED
        is_paused = PausedPart() in self.map_store.state.controls.paused
        if (states or is_paused) and all(state is FlowState.HELD for state in states):
            return LinkState.HELD
        if not self.directory.is_loaded or FlowState.STARTING in states:
            return LinkState.STARTING
        if FlowState.CATCHING_UP in states:
            return LinkState.CATCHING_UP
        return LinkState.RUNNING
