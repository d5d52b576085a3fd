"""One link on one worker: discovery, its flows, and the map's writes.

discovery --known flows--> group of workers --assign--> flows
flows --blocks--> flush --> map topic, at most every `map_flush_ms`
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from local_cluster.client.model import TopicMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError

from .back_off import BackOff
from .context import LinkContext
from .discovery import (
    colliding_topics,
    grown_topics,
    link_topics,
    missing_topics,
    new_topic,
    select_topics,
)
from .fetcher import Fetcher
from .flow import Flow
from .formats.audit import AuditChunk
from .formats.controls import Controls
from .identity import Confirmer
from .model import FlowState, LinkFailedError, LinkState
from .ports import DataSource
from .replicator import PartitionReplicator
from .rounds import Rounds

_DISCOVERY: Final = -1
"""Stands for discovery among the brokers' ids, as an asker of the source."""
DISCOVERY_MS_MIN: Final = 100
"""At least this long between two rounds, however much somebody hurries."""

logger = logging.getLogger(__name__)


class LinkWorker:
    """What this worker does for one link; `run` until cancelled, then `finish`."""

    def __init__(
        self,
        context: LinkContext,
        polls: DataSource,
        target_alias: str,
        offer: Callable[[Flow], None],
        on_known_changed: Callable[[], None],
    ) -> None:
        """`polls` is a client of the source for long polls alone; `offer` hands a flow with a
        batch to the sender of its target broker."""
        self.context = context
        self.flows: dict[TopicPartition, Flow] = {}
        self.known: frozenset[TopicPartition] = frozenset()
        """Source partitions discovered so far; a topic that goes away stays known."""
        self.target_failure: str | None = None
        self.failure: str | None = None
        """Why the link as a whole has stopped."""
        self.collisions: dict[str, list[str]] = {}
        """Target topics that two source topics would be copied into, so that neither is."""
        self._controls = Controls()
        self._controlling = Rounds(
            context,
            self._follow_controls,
            what_failed="controls not read",
            pause_ms=context.limits.controls_ms,
        )
        self._polls = polls
        self._filter = link_topics(context.settings, target_alias)
        self._offer = offer
        self._on_known_changed = on_known_changed
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._group: asyncio.TaskGroup | None = None
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._leaving: set[TopicPartition] = set()
        self._source_failures: dict[int, str] = {}
        self._flushing = asyncio.Lock()
        self._wanted: dict[str, TopicMetadata] = {}

    @property
    def name(self) -> str:
        return self.context.settings.name

    # -- an operator's will ---------------------------------------------------------------------

    async def control(self, change: Callable[[Controls], Controls]) -> Controls:
        """Change what the link was told; other workers follow within `controls_ms`.

        Raises KafkaError where it could not be written, and what `change` raises.
        """
        store = self.context.map_store
        if not store.is_open:
            raise KafkaError(ErrorCode.coordinator_not_available, "the link has not begun")
        await store.catch_up()
        controls = change(store.state.controls)
        await store.append([controls])
        await self._follow_controls()
        return controls

    async def _follow_controls(self) -> None:
        """Read what the link was told last, and do it. Raises KafkaError."""
        store = self.context.map_store
        if not store.is_open:
            return
        await store.catch_up()
        controls, settings = store.state.controls, self.context.settings
        # This worker's part of the rate is its part of the partitions.
        share = len(self.flows) / len(self.known) if self.known else 1.0
        now_ms = self.context.clock.monotonic_ms()
        for throttle, told, default in (
            (
                self.context.rates.source,
                controls.source_bytes_per_second,
                settings.source_bytes_per_second,
            ),
            (
                self.context.rates.target,
                controls.target_bytes_per_second,
                settings.target_bytes_per_second,
            ),
        ):
            throttle.set_rate((default if told is None else told) * min(1.0, share), now_ms)
        if controls != self._controls:
            self._controls = controls
            logger.info("link %s: told %s", self.name, controls)
            self._wake_fetchers()

    @property
    def is_first_worker(self) -> bool:
        """Whether this worker, among those of the link, does what one of them must do."""
        return not self.known or min(self.known) in self.flows

    @property
    def reason(self) -> str | None:
        """Why the link is not as well as it could be, in words."""
        collision = next(iter(self.collisions.items()), None)
        return (
            self.failure
            or self.source_failure
            or self.target_failure
            or (f"{' and '.join(collision[1])} would both be {collision[0]}" if collision else None)
        )

    @property
    def source_failure(self) -> str | None:
        """Why the source, or one of its brokers, did not answer last time."""
        return next(iter(self._source_failures.values()), None)

    # -- life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled; a link that cannot be trusted stops, and says why."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._discover_forever())
                group.create_task(self._flush_forever())
                group.create_task(self._controlling.run())
                self.assign(self._assigned)
        except* LinkFailedError as errors:
            self.failure = str(errors.exceptions[0])
            logger.error("link %s stopped: %s", self.name, self.failure)
        finally:
            self._group = None

    async def finish(self) -> None:
        """Before a clean stop: nothing more is taken, what is in flight lands, the map is written.

        Bounded by `drain_ms_max`; what does not make it is proved from the target next time.
        """
        limit_s = self.context.limits.drain_ms_max / 1000
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*(flow.drain() for flow in self.flows.values()))
                await self.flush()
        except (TimeoutError, KafkaError, LinkFailedError) as error:
            logger.warning("link %s: stopped without its last map write: %r", self.name, error)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Copy these source partitions, and no others; those kept go on untouched."""
        self._assigned = frozenset(partitions)
        if self._group is None:
            return  # taken over when the link runs
        for at in self.flows.keys() - self._assigned - self._leaving:
            self._leaving.add(at)
            self._group.create_task(self._release(self.flows[at]))
        for at in sorted(self._assigned - self.flows.keys()):
            self._take_over(at)
        self.context.directory.hurry()

    def _take_over(self, at: TopicPartition) -> None:
        assert self._group is not None
        target = at._replace(topic=self.context.settings.copy_name(at.topic))
        flow = Flow(self.context, at, target)
        flow.on_ready = self._offer
        flow.on_room = self._wake_fetchers
        flow.flush_map = self.flush
        self.flows[at] = flow
        self._tasks[at] = self._group.create_task(flow.run())

    async def _release(self, flow: Flow) -> None:
        """Hand a flow over: what is in flight lands first, and the map says so."""
        try:
            async with asyncio.timeout(self.context.limits.drain_ms_max / 1000):
                await flow.drain()
                await self.flush()
        except (TimeoutError, KafkaError) as error:
            logger.warning("%s: handed over without its last map write: %r", flow.source, error)
        self._tasks.pop(flow.source).cancel()
        del self.flows[flow.source]
        self._leaving.discard(flow.source)
        if flow.source in self._assigned:
            self._take_over(flow.source)  # it came back meanwhile

    def _wake_fetchers(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.wake()

    # -- discovery ------------------------------------------------------------------------------

    async def _discover_forever(self) -> None:
        limits = self.context.limits
        back_off = BackOff(limits.back_off_ms_min, limits.back_off_ms_max, self.context.random)
        directory = self.context.directory
        failure: str | None = None
        while True:
            directory.asked.clear()
            try:
                await self.discover()
            except KafkaError as error:
                if failure is None:
                    logger.warning("link %s: discovery: %s", self.name, error)
                failure = str(error)
                await self.context.clock.sleep(back_off.next_ms())
                continue
            if failure is not None:
                logger.info("link %s: both clusters answer again", self.name)
            failure = None
            back_off.reset()
            await self.context.clock.sleep(min(DISCOVERY_MS_MIN, limits.discovery_ms))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, limits.discovery_ms - DISCOVERY_MS_MIN) / 1000):
                    await directory.asked.wait()

    async def discover(self) -> None:
        """One round: learn both clusters, make what is missing. Raises KafkaError."""
        context = self.context
        try:
            source = await context.source.metadata(None)
            self._note_source_failure(_DISCOVERY, None)
        except KafkaError as error:
            self._note_source_failure(_DISCOVERY, str(error))
            raise
        copy_name = context.settings.copy_name
        self._wanted = self._without_collisions(select_topics(source, self._filter))
        copies = sorted(map(copy_name, self._wanted))
        try:
            if not context.map_store.is_open:
                await context.gap_store.open()
                await context.map_store.open(source.cluster_id)
            context.map_store.check_source(source.cluster_id)
            target = await context.sink.metadata(copies)
            missing = missing_topics(self._wanted, target, copy_name)
            grown = grown_topics(self._wanted, target, copy_name)
            if await self._make_targets(missing, grown):
                target = await context.sink.metadata(copies)
            self.target_failure = None
        except KafkaError as error:
            self.target_failure = str(error)
            raise
        context.directory.update(source.topics, target.topics)
        self._check_flows()
        self._ensure_fetchers(source.brokers)
        self._learn(
            frozenset(
                TopicPartition(name, partition)
                for name, topic in self._wanted.items()
                for partition in topic.partitions
            )
        )

    def _without_collisions(self, wanted: dict[str, TopicMetadata]) -> dict[str, TopicMetadata]:
        """Leave out topics whose copies would have the same name, and say so."""
        found = colliding_topics(wanted, self.context.settings.copy_name)
        if found != self.collisions:
            for target, sources in found.items():
                logger.error("link %s: %s would both be %s", self.name, sources, target)
            self.collisions = found
        colliding = {name for sources in found.values() for name in sources}
        return {name: topic for name, topic in wanted.items() if name not in colliding}

    def _learn(self, found: frozenset[TopicPartition]) -> None:
        if not found <= self.known:
            self.known |= found
            self._on_known_changed()

    async def _make_targets(self, missing: list[str], grown: Mapping[str, int]) -> bool:
        """Create and grow what this worker has flows for; whether anything was changed."""
        context = self.context
        ours = {at.topic for at in self.flows}
        mine = [name for name in missing if name in ours]
        if mine:
            configs = await context.source.describe_topic_configs(mine)
            topics = [
                new_topic(
                    self._wanted[name],
                    configs.get(name, {}),
                    context.settings.copy_name,
                    context.settings.replication_factor,
                )
                for name in mine
            ]
            for name, error in (await context.sink.create_topics(topics)).items():
                if error is not None and error.code != ErrorCode.topic_already_exists:
                    logger.error("link %s: %s not created: %s", self.name, name, error)
        copies = map(context.settings.copy_name, ours)
        growing = {copy: grown[copy] for copy in copies if copy in grown}
        if growing:
            for name, error in (await context.sink.create_partitions(growing)).items():
                if error is not None:
                    logger.error("link %s: %s not grown: %s", self.name, name, error)
        return bool(mine or growing)

    def _check_flows(self) -> None:
        """Stop flows whose topic became another one, mark those whose topic is away."""
        for flow in self.flows.values():
            flow.check_topics()
            if flow.replicator is not None and flow.replicator.can_take:
                self._offer(flow)  # its target partition may have got a leader again
        self._wake_fetchers()

    def _ensure_fetchers(self, brokers: Iterable[int]) -> None:
        for node_id in brokers:
            if node_id not in self._fetchers and self._group is not None:
                confirmer = Confirmer(self.context, self.context.source, node_id)
                fetcher = Fetcher(
                    self.context,
                    self._polls,
                    node_id,
                    self.flows.values,
                    confirmer,
                    partial(self._note_source_failure, node_id),
                )
                self._fetchers[node_id] = fetcher
                self._group.create_task(fetcher.run())
                self._group.create_task(confirmer.run())

    def _note_source_failure(self, asker: int, failure: str | None) -> None:
        if failure is None:
            self._source_failures.pop(asker, None)
        else:
            self._source_failures[asker] = failure

    # -- the map --------------------------------------------------------------------------------

    async def _flush_forever(self) -> None:
        while True:
            await self.context.clock.sleep(self.context.limits.map_flush_ms)
            try:
                await self.flush()
            except KafkaError as error:
                logger.info("link %s: map not written: %s", self.name, error)

    async def flush(self) -> None:
        """Write what the flows' maps have gained. Raises KafkaError; then it is written later."""
        async with self._flushing:
            taken = [
                _Taken(flow.replicator, self.context.clock.now_ms())
                for flow in self.flows.values()
                if flow.replicator is not None and flow.replicator.block.is_dirty
            ]
            if not taken:
                return
            try:
                # The audit reaches at least as far as the map, see `audit`.
                await self.context.audit_store.append(
                    [chunk for each in taken for chunk in each.chunks],
                    [key for each in taken for key in each.chunk_keys],
                )
                await self.context.map_store.append(
                    [block for each in taken for block in each.blocks],
                    [key for each in taken for key in each.block_keys],
                )
            except BaseException:
                for each in taken:
                    each.put_back()
                raise

    # -- what others ask ------------------------------------------------------------------------

    def retry(self, topic: str | None, partition: int | None) -> list[TopicPartition]:
        """Have what stands still tried again now, within a topic or partition if named."""
        return [
            at
            for at, flow in sorted(self.flows.items())
            if topic in (None, at.topic) and partition in (None, at.partition) and flow.retry()
        ]

    def state(self) -> LinkState:
        """One word for the whole link."""
        states = [flow.current_state() for flow in self.flows.values()]
        if self.failure is not None or (states and all(s is FlowState.FAILED for s in states)):
            return LinkState.FAILED
        if self.source_failure is not None:
            return LinkState.SOURCE_DOWN
        if self.target_failure is not None:
            return LinkState.TARGET_DOWN
        hurt = {FlowState.FAILED, FlowState.PAUSED, FlowState.SOURCE_GONE}
        if self.collisions or not hurt.isdisjoint(states):
            return LinkState.DEGRADED
        if states and all(state is FlowState.HELD for state in states):
            return LinkState.HELD
        if not self.context.directory.is_loaded or FlowState.STARTING in states:
            return LinkState.STARTING
        if FlowState.CATCHING_UP in states:
            return LinkState.CATCHING_UP
        return LinkState.RUNNING


class _Taken:
    """What one flow has to write, and to delete, in both topics of its link."""

    def __init__(self, replicator: PartitionReplicator, now_ms: int) -> None:
        self._replicator = replicator
        source_next = replicator.block.source_next
        self.blocks, self.block_keys = replicator.block.take_records()
        self.chunks: list[AuditChunk] = []
        self.chunk_keys: list[bytes] = []
        if replicator.audit is not None:
            self.chunks, self.chunk_keys = replicator.audit.take_records(source_next, now_ms)

    def put_back(self) -> None:
        """The writes are not known to have happened."""
        self._replicator.block.put_back(self.blocks, self.block_keys)
        if self._replicator.audit is not None:
            self._replicator.audit.put_back(self.chunks, self.chunk_keys)
