"""SHELL: the elected controller: feeds what ZooKeeper holds to the FSM, writes what it decides.

Everything runs under one lock, one event after another; watches only mark what to read again.
After any write whose outcome is unknown the whole state is read anew. `Fenced` ends the term.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from local_cluster.controller import fsm, znodes
from local_cluster.controller.cluster_reader import ClusterReader, gather_bounded
from local_cluster.controller.coordination import (
    CommitConflict,
    Conflict,
    Coordination,
    CoordinationUnavailable,
    Create,
    Delete,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.fsm import (
    ClearMark,
    ClusterState,
    EraseTopic,
    Event,
    SeenTopic,
    TopicPartition,
    WriteState,
)
from local_cluster.controller.model import NO_LEADER, UNWRITTEN, ClusterImage
from local_cluster.controller.state_writer import StateWriter
from local_cluster.controller.term import Fenced, Term
from local_cluster.controller.topic_eraser import TopicEraser
from local_cluster.controller.topic_requests import (
    PartitionsSpec,
    TopicCreation,
    TopicPlan,
    TopicSpec,
    plan_partitions,
    plan_topic,
)
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

CONFLICTS_MAX: Final = 5
"""How often one write is tried anew after somebody else was faster."""
RETRY_DELAY_MS: Final = 100

_EVERYTHING: Final = None


class ActiveController:
    """One term. `publish` is given every new image; `fenced` is called when the term is over."""

    def __init__(
        self,
        coordination: Coordination,
        settings: BrokerSettings,
        term: Term,
        *,
        publish: Callable[[ClusterImage], None],
        fenced: Callable[[], None],
        new_uuid: Callable[[], uuid.UUID],
    ) -> None:
        self.term = term
        self.state = ClusterState()
        self.sequence = 0
        """Of the image published last."""
        self._coordination = coordination
        self._settings = settings
        self._publish = publish
        self._fenced = fenced
        self._new_uuid = new_uuid
        self._reader = ClusterReader(coordination, term, new_uuid)
        self._writer = StateWriter(coordination, term)
        self._eraser = TopicEraser(coordination, term)
        self._published: ClusterImage | None = None
        self._known_topics: frozenset[str] = frozenset()
        """Names whose znode is watched."""
        self._dirty: set[str | None] = set()
        self._deleted: set[tuple[int, uuid.UUID]] = set()
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()

    # -- what others say --------------------------------------------------------------------

    def touch(self, path: str | None) -> None:
        """A watched path may have changed; None: any of them."""
        self._dirty.add(path)
        self._wake.set()

    def replicas_deleted(self, broker_id: int, topic_ids: Sequence[uuid.UUID]) -> None:
        """A broker holds no replica of these topics any more."""
        self._deleted.update((broker_id, topic_id) for topic_id in topic_ids)
        self._wake.set()

    # -- the term ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Read everything and put it in order. Raises Fenced or CoordinationUnavailable."""
        async with self._lock:
            await self._load()

    async def run(self) -> None:
        """Follow the watches until the term is over."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                async with self._lock:
                    await self._catch_up()
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper does not answer the controller: %s", error)
                self.touch(_EVERYTHING)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Fenced as error:
                log.warning("deposed: %s", error)
                self._fenced()
                return

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self, specs: Sequence[TopicSpec], *, validate_only: bool
    ) -> list[TopicCreation]:
        """Create what may be created; one result per spec. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._create_topics(specs, validate_only)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Mark topics for deletion; they are gone once every replica's broker has said so."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._delete_topics(names)

    async def create_partitions(
        self, specs: Sequence[PartitionsSpec], *, validate_only: bool
    ) -> dict[str, KafkaError | None]:
        """Add partitions; one result per topic. Raises KafkaError for all of them."""
        async with self._lock:
            errors: dict[str, KafkaError | None] = {}
            for spec in specs:
                try:
                    added = plan_partitions(spec, self.state)
                except KafkaError as error:
                    errors[spec.topic] = error
                    continue
                with self._as_kafka_errors():
                    errors[spec.topic] = (
                        None if validate_only else await self._add_partitions(spec.topic, added)
                    )
            return errors

    @contextlib.contextmanager
    def _as_kafka_errors(self) -> Iterator[None]:
        try:
            yield
        except CoordinationUnavailable as error:
            self.touch(_EVERYTHING)
            raise KafkaError(
                ErrorCode.request_timed_out, f"ZooKeeper did not answer: {error}"
            ) from error
        except Fenced as error:
            self._fenced()
            raise KafkaError(ErrorCode.not_controller, str(error)) from error

    # -- requests, under the lock -----------------------------------------------------------

    async def _create_topics(
        self, specs: Sequence[TopicSpec], validate_only: bool
    ) -> list[TopicCreation]:
        results: list[TopicCreation | TopicPlan] = []
        planned = self.state
        for spec in specs:
            try:
                plan = plan_topic(spec, planned, self._settings, self._new_uuid())
            except KafkaError as error:
                results.append(TopicCreation(spec.name, error))
                continue
            # Later topics of the request are placed knowing of this one.
            planned = fsm.step(planned, fsm.TopicsSeen({plan.name: _seen(plan)})).state
            results.append(plan)
        plans = [result for result in results if isinstance(result, TopicPlan)]
        errors: dict[str, KafkaError | None] = {}
        if not validate_only:
            made = await gather_bounded(plans, self._create_topic)
            errors = {plan.name: error for plan, error in made}
            created = {plan.name: _seen(plan) for plan in plans if errors[plan.name] is None}
            await self._apply(fsm.TopicsSeen(created))
        topics = {**planned.topics, **self.state.topics}
        return [
            result
            if isinstance(result, TopicCreation)
            else TopicCreation(result.name, errors.get(result.name), topics[result.name])
            for result in results
        ]

    async def _create_topic(self, plan: TopicPlan) -> KafkaError | None:
        config_path = znodes.topic_config_path(plan.name)
        config = znodes.encode_config(plan.configs)
        topic = Create(
            znodes.topic_path(plan.name),
            znodes.encode_topic(znodes.TopicAssignment(plan.topic_id, plan.replicas, {}, {})),
        )
        for _ in range(CONFLICTS_MAX):
            # Configs may outlive a topic that a tool removed; they are replaced, as Kafka does.
            left = await self._coordination.read(config_path)
            first: ZkOp = (
                Create(config_path, config)
                if left is None
                else SetPayload(config_path, config, left.version)
            )
            try:
                await self.term.commit(self._coordination, (first, topic))
            except CommitConflict as conflict:
                if conflict.op is not topic:
                    continue
                return KafkaError(
                    ErrorCode.topic_already_exists, f"Topic '{plan.name}' already exists."
                )
            return None
        return KafkaError(ErrorCode.request_timed_out, f"{config_path} changes too fast")

    async def _delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        errors: dict[str, KafkaError | None] = {}
        marked = []
        for name in names:
            known = name in self.state.topics or name in self.state.deletions
            errors[name] = None if known else KafkaError(ErrorCode.unknown_topic_or_partition)
            if known:
                marked.append(name)
        for name in marked:
            try:
                await self.term.commit(
                    self._coordination, (Create(znodes.delete_topic_path(name)),)
                )
            except CommitConflict as conflict:
                if conflict.conflict is not Conflict.NODE_EXISTS:
                    raise CoordinationUnavailable(str(conflict)) from conflict
        await self._apply(fsm.DeletionsMarked(frozenset(marked)))
        return errors

    async def _add_partitions(
        self, name: str, added: Mapping[int, tuple[int, ...]]
    ) -> KafkaError | None:
        path = znodes.topic_path(name)
        for _ in range(CONFLICTS_MAX):
            znode = await self._coordination.read(path)
            if znode is None:
                return KafkaError(ErrorCode.unknown_topic_or_partition)
            stored = znodes.decode_topic(znode.payload)
            if stored.replicas.keys() & added.keys():
                return KafkaError(ErrorCode.invalid_partitions, "partitions were just added")
            grown = dataclasses.replace(stored, replicas={**stored.replicas, **added})
            try:
                await self.term.commit(
                    self._coordination,
                    (SetPayload(path, znodes.encode_topic(grown), znode.version),),
                )
            except CommitConflict:
                continue
            topic = self.state.topics[name]
            seen = SeenTopic(topic.topic_id, grown.replicas, topic.configs)
            await self._apply(fsm.TopicsSeen({name: seen}))
            return None
        return KafkaError(ErrorCode.request_timed_out, f"{path} changes too fast")

    # -- what ZooKeeper holds, under the lock -----------------------------------------------

    async def _load(self) -> None:
        self._dirty.clear()
        self._deleted.clear()
        # Drained before everything is read: what they tell of is then read anyway.
        await self._drain(znodes.CONFIG_CHANGES)
        await self._drain(znodes.ISR_CHANGE_NOTIFICATION)
        loaded = await self._reader.everything()
        self._known_topics = frozenset(loaded.topics)
        await self._apply(loaded)

    async def _catch_up(self) -> None:
        dirty, self._dirty = self._dirty, set()
        deleted, self._deleted = self._deleted, set()
        if _EVERYTHING in dirty:
            await self._load()
            return
        paths = {path for path in dirty if path is not None}
        if any(path.startswith(znodes.BROKER_IDS) for path in paths):
            await self._apply(fsm.BrokersSeen(await self._reader.brokers()))
        await self._see_topics(paths)
        if znodes.CONFIG_CHANGES in paths:
            await self._see_configs()
        if znodes.ISR_CHANGE_NOTIFICATION in paths:
            await self._see_isr_changes()
        if znodes.DELETE_TOPICS in paths:
            await self._apply(fsm.DeletionsMarked(await self._reader.marked()))
        for broker_id in {broker_id for broker_id, _ in deleted}:
            ids = frozenset(topic_id for broker, topic_id in deleted if broker == broker_id)
            await self._apply(fsm.ReplicasDeleted(broker_id, ids))

    async def _see_topics(self, paths: Collection[str]) -> None:
        prefix = znodes.TOPICS + "/"
        again = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
        gone: frozenset[str] = frozenset()
        if znodes.TOPICS in paths:
            names = frozenset(await self._reader.topic_names())
            gone = self._known_topics - names
            again |= names - self._known_topics
            self._known_topics = names
        again = {name for name in again if "/" not in name and name in self._known_topics}
        if not again and not gone:
            return
        seen = await self._reader.topics(sorted(again))
        await self._apply(fsm.TopicsSeen(seen | dict.fromkeys(gone)))

    async def _see_configs(self) -> None:
        changed = set()
        for payload in await self._drain(znodes.CONFIG_CHANGES):
            try:
                entity = znodes.decode_config_change(payload)
            except ValueError as error:
                log.error("a config change notification is unreadable: %s", error)
                continue
            if entity is not None and entity[0] == "topics" and entity[1] in self.state.topics:
                changed.add(entity[1])
        for name in sorted(changed):
            await self._apply(fsm.ConfigsSeen(name, await self._reader.configs(name)))

    async def _see_isr_changes(self) -> None:
        changed: set[TopicPartition] = set()
        for payload in await self._drain(znodes.ISR_CHANGE_NOTIFICATION):
            try:
                changed |= znodes.decode_isr_change(payload)
            except (ValueError, KeyError, TypeError) as error:
                log.error("an ISR change notification is unreadable: %s", error)
        await self._apply(await self._read_states(changed))

    async def _read_states(self, keys: Iterable[TopicPartition]) -> fsm.StatesRead:
        known = {
            (name, partition): self.state.topics[name].partitions[partition]
            for name, partition in keys
            if name in self.state.topics and partition in self.state.topics[name].partitions
        }
        read = await self._reader.states({key: state.replicas for key, state in known.items()})
        # A state that is gone keeps its epoch here, so that the next one does not go back.
        lost = {
            key: state._replace(leader=NO_LEADER, zk_version=UNWRITTEN)
            for key, state in known.items()
            if key not in read
        }
        return fsm.StatesRead(lost | {key: each.state for key, each in read.items()})

    async def _drain(self, path: str) -> list[bytes]:
        """Payloads of the notifications under a path, which are deleted."""
        payloads = []
        for name in sorted(await self._coordination.children(path, watch=True)):
            znode = await self._coordination.read(f"{path}/{name}")
            if znode is None:
                continue
            payloads.append(znode.payload)
            with contextlib.suppress(CommitConflict):
                await self.term.commit(self._coordination, (Delete(f"{path}/{name}"),))
        return payloads

    # -- events and their effects, under the lock -------------------------------------------

    async def _apply(self, event: Event) -> None:
        """Run the FSM until nothing is left to write, then publish."""
        events = collections.deque([event])
        conflicts = 0
        while events:
            decided = fsm.step(self.state, events.popleft())
            self.state = decided.state
            writes = [effect for effect in decided.effects if isinstance(effect, WriteState)]
            written, overtaken = await self._writer.write(writes, self.state)
            if written:
                events.append(fsm.StatesWritten(written))
            if overtaken and conflicts < CONFLICTS_MAX:
                conflicts += 1
                events.append(await self._read_states(overtaken))
            elif overtaken:
                log.error("states that cannot be written are left as they are: %s", overtaken)
            for effect in decided.effects:
                if isinstance(effect, EraseTopic) and await self._eraser.erase(effect.name):
                    events.append(fsm.TopicErased(effect.name))
                elif isinstance(effect, ClearMark):
                    await self._eraser.clear_mark(effect.name)
        self._publish_image(again=isinstance(event, fsm.Loaded))

    def _publish_image(self, *, again: bool) -> None:
        """Publish what differs; `again`, even what does not, so that every broker answers."""
        image = ClusterImage(
            controller_id=self._settings.broker_id,
            controller_epoch=self.term.controller_epoch,
            sequence=self.sequence,
            brokers=self.state.brokers,
            topics=self.state.topics,
            deletions={n: each.topic.topic_id for n, each in self.state.deletions.items()},
        )
        if image == self._published and not again:
            return
        self.sequence += 1
        self._published = dataclasses.replace(image, sequence=self.sequence)
        self._publish(self._published)


def _seen(plan: TopicPlan) -> SeenTopic:
    return SeenTopic(plan.topic_id, plan.replicas, plan.configs)
