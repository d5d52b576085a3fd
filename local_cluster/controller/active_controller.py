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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from local_cluster.controller import fsm, znodes
from local_cluster.controller.admin_znodes import AdminZnodes
from local_cluster.controller.cluster_reader import ClusterReader
from local_cluster.controller.cluster_state import (
    ClearMark,
    ClusterState,
    EraseTopic,
    Event,
    FinishReassignments,
    TopicPartition,
    WriteState,
)
from local_cluster.controller.coordination import (
    CommitConflict,
    Coordination,
    CoordinationUnavailable,
    Delete,
)
from local_cluster.controller.elections import (
    UNCLEAN_CONFIG,
    election_problem,
    find_imbalanced,
)
from local_cluster.controller.isr_requests import (
    IsrProposal,
    IsrResult,
    check_proposer,
    decide_isr,
)
from local_cluster.controller.model import NO_LEADER, UNWRITTEN, ClusterImage
from local_cluster.controller.reassignments import PlannedReplicas, ReassignmentRequest
from local_cluster.controller.state_writer import StateWriter
from local_cluster.controller.term import Fenced, Term
from local_cluster.controller.topic_admin import TopicAdmin
from local_cluster.controller.topic_eraser import TopicEraser
from local_cluster.controller.topic_requests import (
    PartitionsSpec,
    TopicCreation,
    TopicSpec,
)
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

CONFLICTS_MAX: Final = 5
"""How often one write is tried anew after somebody else was faster."""
RETRY_DELAY_MS: Final = 100
DEFECT_DELAY_MS: Final = 1_000
"""After an error that nobody foresaw, and that may well come again."""
REPORTED_NAMES_MAX: Final = 10
"""How many offline replicas one line of the log names."""
REBALANCE_INTERVAL_S: Final = 300
"""Kafka's default of leader.imbalance.check.interval.seconds."""
IMBALANCE_PERCENTAGE_MAX: Final = 10
"""Kafka's default of leader.imbalance.per.broker.percentage."""

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
        self.state = ClusterState(
            keeps_tails=settings.flush == "fsync",
            unclean_default=settings.config_bool(UNCLEAN_CONFIG, False),
        )
        self.is_loaded = False
        """Before that it knows nothing, and must not answer as if nothing existed."""
        self.sequence = 0
        """Of the image published last."""
        self._coordination = coordination
        self._settings = settings
        self._publish = publish
        self._fenced = fenced
        self._new_uuid = new_uuid
        self._reader = ClusterReader(
            coordination, term, new_uuid, keeps_tails=self.state.keeps_tails
        )
        self._writer = StateWriter(coordination, term)
        self._eraser = TopicEraser(coordination, term)
        self._admin = TopicAdmin(coordination, settings, term, self, new_uuid)
        self._admin_znodes = AdminZnodes(coordination, term, self, self._admin)
        self._published: ClusterImage | None = None
        self._known_topics: frozenset[str] = frozenset()
        """Names whose znode is watched."""
        self._is_whole = False
        """Whether the state has every topic that there is."""
        self._has_lost_topics = False
        """Whether a topic vanished in this term that nobody had deleted, or could not be read."""
        self._dirty: set[str | None] = set()
        self._deleted: set[tuple[int, uuid.UUID]] = set()
        self._reports: dict[int, fsm.ReplicasReported] = {}
        self._answering: dict[int, fsm.BrokerAnswering] = {}
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

    def replicas_reported(
        self, broker_id: int, broker_epoch: int, offline: frozenset[TopicPartition]
    ) -> None:
        """A broker says which of its replicas it cannot serve, all of them."""
        is_news = offline != self.state.offline.get(broker_id, frozenset())
        if is_news or broker_id in self.state.unheard or broker_id in self._reports:
            self._reports[broker_id] = fsm.ReplicasReported(broker_id, broker_epoch, offline)
            self._wake.set()

    def broker_answers(self, broker_id: int, broker_epoch: int, answers: bool) -> None:
        """Nobody listens any more where a broker was reached in that run; or again."""
        self._answering[broker_id] = fsm.BrokerAnswering(broker_id, broker_epoch, answers)
        self._wake.set()

    # -- the term ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Read everything and put it in order. Raises Fenced or CoordinationUnavailable."""
        async with self._lock:
            await self._load()

    async def run(self) -> None:
        """Follow the watches until the term is over."""
        loop = asyncio.get_running_loop()
        period_s = self._settings.config_int(
            "leader.imbalance.check.interval.seconds", REBALANCE_INTERVAL_S
        )
        rebalance_at = loop.time() + period_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(rebalance_at):
                    await self._wake.wait()
            self._wake.clear()
            try:
                async with self._lock:
                    await self._catch_up()
                    if loop.time() >= rebalance_at:
                        rebalance_at = loop.time() + period_s
                        await self._rebalance_leaders()
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper does not answer the controller: %s", error)
                self.touch(_EVERYTHING)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Fenced as error:
                log.warning("deposed: %s", error)
                self._fenced()
                return
            except Exception:
                # The outermost shell of a term: without it nobody would control until the end of
                # this broker's session.
                log.exception("the controller failed, and reads everything again")
                self.touch(_EVERYTHING)
                await asyncio.sleep(DEFECT_DELAY_MS / 1000)

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self, specs: Sequence[TopicSpec], *, validate_only: bool
    ) -> list[TopicCreation]:
        """Create what may be created; one result per spec. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.create_topics(specs, validate_only)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Mark topics for deletion; they are gone once every replica's broker has said so."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.delete_topics(names)

    async def create_partitions(
        self, specs: Sequence[PartitionsSpec], *, validate_only: bool
    ) -> dict[str, KafkaError | None]:
        """Add partitions; one result per topic. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.create_partitions(specs, validate_only)

    async def relieve(self, broker_id: int, broker_epoch: int) -> None:
        """Let others lead what a broker that shuts down leads. Raises KafkaError."""
        async with self._lock:
            with self._as_kafka_errors():
                check_proposer(self.state, broker_id, broker_epoch)
                log.info("broker %d shuts down and is relieved", broker_id)
                await self.apply(fsm.BrokerLeaving(broker_id))

    async def alter_reassignments(
        self, requests: Sequence[ReassignmentRequest], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin or cancel moves of replicas. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                results = await self._admin.alter_reassignments(
                    requests, may_change_factor=may_change_factor
                )
                for topic in {request.topic for request in requests}:
                    self._admin_znodes.moves_changed(topic)
                return results

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect as asked; one result per partition. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                errors = {key: election_problem(self.state, key, unclean) for key in partitions}
                wanted = tuple(key for key, error in errors.items() if error is None)
                await self.apply(fsm.ElectionsWanted(wanted, unclean))
                return errors

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrResult]:
        """Write the in-sync replicas that a leader proposes; one result per proposal, in order.

        Raises KafkaError for all of them: stale_broker_epoch, not_controller, request_timed_out.
        """
        async with self._lock:
            with self._as_kafka_errors():
                check_proposer(self.state, broker_id, broker_epoch)
                return await self._alter_partitions(broker_id, proposals)

    async def _alter_partitions(
        self, broker_id: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrResult]:
        names = {topic.topic_id: name for name, topic in self.state.topics.items()}
        errors: dict[IsrProposal, ErrorCode] = {}
        writes: dict[IsrProposal, WriteState] = {}
        for proposal in proposals:
            name = names.get(proposal.topic_id)
            known = (
                None if name is None else self.state.topics[name].partitions.get(proposal.partition)
            )
            if name is None or known is None:
                errors[proposal] = ErrorCode.unknown_topic_id
                continue
            if (name, proposal.partition) in self.state.outlived:
                errors[proposal] = ErrorCode.fenced_leader_epoch
                continue
            try:
                decided = decide_isr(self.state, known, broker_id, proposal)
            except KafkaError as error:
                errors[proposal] = error.code
            else:
                writes[proposal] = WriteState(name, decided)
        written, overtaken = await self._writer.write(list(writes.values()), self.state)
        if written:
            await self.apply(fsm.StatesWritten(written))
        if overtaken:
            await self.apply(await self._read_states(overtaken))
        results = []
        for proposal in proposals:
            write = writes.get(proposal)
            done = None if write is None else written.get((write.topic, proposal.partition))
            code = errors.get(proposal, ErrorCode.none)
            if write is not None and done is None:
                code = ErrorCode.invalid_update_version
            results.append(IsrResult(proposal, done, code))
        return results

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

    # -- what ZooKeeper holds, under the lock -----------------------------------------------

    async def _load(self) -> None:
        self._dirty.clear()
        self._deleted.clear()
        # Drained before everything is read: what they tell of is then read anyway.
        await self._drain(znodes.CONFIG_CHANGES)
        await self._drain(znodes.ISR_CHANGE_NOTIFICATION)
        # Every broker answers the image that follows, and says what it cannot serve.
        await self._drain(znodes.LOG_DIR_EVENTS)
        loaded = await self._reader.everything()
        self._known_topics = frozenset(loaded.topics)
        self._note_lost(self.state.topics.keys() - loaded.topics.keys())
        self._is_whole = loaded.is_whole
        await self.apply(loaded)
        await self._admin_znodes.see_preferred_election()
        await self._admin_znodes.see_reassignments()
        self.is_loaded = True

    async def _catch_up(self) -> None:
        dirty, self._dirty = self._dirty, set()
        deleted, self._deleted = self._deleted, set()
        if _EVERYTHING in dirty:
            await self._load()
            await self._see_answering()
            return
        await self._see_answering()
        paths = {path for path in dirty if path is not None}
        if any(path.startswith(znodes.BROKER_IDS) for path in paths):
            await self.apply(fsm.BrokersSeen(await self._reader.brokers()))
        await self._see_topics(paths)
        if znodes.CONFIG_CHANGES in paths:
            await self._see_configs()
        if znodes.ISR_CHANGE_NOTIFICATION in paths:
            await self._see_isr_changes()
        if znodes.LOG_DIR_EVENTS in paths and await self._drain(znodes.LOG_DIR_EVENTS):
            self._publish_image(again=True)
        await self._see_reports()
        if znodes.PREFERRED_ELECTION in paths:
            await self._admin_znodes.see_preferred_election()
        if znodes.REASSIGN_PARTITIONS in paths:
            await self._admin_znodes.see_reassignments()
        if znodes.DELETE_TOPICS in paths:
            await self.apply(fsm.DeletionsMarked(await self._reader.marked()))
        for broker_id in {broker_id for broker_id, _ in deleted}:
            ids = frozenset(topic_id for broker, topic_id in deleted if broker == broker_id)
            await self.apply(fsm.ReplicasDeleted(broker_id, ids))

    async def _see_reports(self) -> None:
        reports, self._reports = self._reports, {}
        for report in reports.values():
            if report.offline != self.state.offline.get(report.broker_id, frozenset()):
                names = [f"{name}-{index}" for name, index in sorted(report.offline)]
                log.warning(
                    "broker %d has %d replicas offline%s",
                    report.broker_id,
                    len(names),
                    ": " + ", ".join(names[:REPORTED_NAMES_MAX]) if names else "",
                )
            await self.apply(report)

    async def _see_answering(self) -> None:
        # One at a time: what is not taken up yet is not forgotten where ZooKeeper goes away.
        while self._answering:
            event = self._answering.pop(next(iter(self._answering)))
            log.warning(
                "broker %d %s",
                event.broker_id,
                "answers again" if event.answers else "is gone, and relieved before its session is",
            )
            await self.apply(event)

    async def _rebalance_leaders(self) -> None:
        """Give leadership back to the preferred replicas, where a broker leads far too little."""
        if not self._settings.config_bool("auto.leader.rebalance.enable", True):
            return
        percentage_max = self._settings.config_int(
            "leader.imbalance.per.broker.percentage", IMBALANCE_PERCENTAGE_MAX
        )
        wanted = find_imbalanced(self.state, percentage_max)
        if wanted:
            log.info("%d partitions go back to their preferred leaders", len(wanted))
            await self.apply(fsm.ElectionsWanted(tuple(wanted)))

    async def _see_topics(self, paths: Collection[str]) -> None:
        prefix = znodes.TOPICS + "/"
        again = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
        gone: frozenset[str] = frozenset()
        if znodes.TOPICS in paths:
            names = frozenset(await self._reader.topic_names())
            # Made here, and removed by somebody before this look: only the state knows it.
            gone = (self._known_topics | self.state.topics.keys()) - names
            again |= names - self._known_topics
            self._known_topics = names
        again = {name for name in again if "/" not in name and name in self._known_topics}
        if not again and not gone:
            return
        seen = await self._reader.topics(sorted(again))
        self._note_lost((gone & self.state.topics.keys()) | (again - seen.keys()))
        await self.apply(fsm.TopicsSeen(seen | dict.fromkeys(gone)))

    def _note_lost(self, names: Collection[str]) -> None:
        """Who vouches for topics that vanished? No broker is told any more that all are named."""
        if names and not self._has_lost_topics:
            self._has_lost_topics = True
            log.error("topics are gone that nobody deleted, or unreadable: %s", sorted(names))

    async def _see_configs(self) -> None:
        topics: set[str] = set()
        entities: set[str] = set()
        for payload in await self._drain(znodes.CONFIG_CHANGES):
            try:
                entity = znodes.decode_config_change(payload)
            except ValueError as error:
                log.error("a config change notification is unreadable: %s", error)
                continue
            if entity is not None and entity[0] == "topics" and entity[1] in self.state.topics:
                topics.add(entity[1])
            elif entity is not None and entity[0] == "brokers":
                entities.add(entity[1])
        for name in sorted(topics):
            await self.apply(fsm.ConfigsSeen(name, await self._reader.configs(name)))
        for name in sorted(entities):
            await self.apply(fsm.BrokerConfigsSeen(name, await self._reader.broker_configs(name)))

    async def _see_isr_changes(self) -> None:
        changed: set[TopicPartition] = set()
        for payload in await self._drain(znodes.ISR_CHANGE_NOTIFICATION):
            try:
                changed |= znodes.decode_partitions(payload)
            except (ValueError, KeyError, TypeError) as error:
                log.error("an ISR change notification is unreadable: %s", error)
        await self.apply(await self._read_states(changed))

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

    async def apply(self, event: Event) -> None:
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
                elif isinstance(effect, FinishReassignments):
                    events.extend(await self._finish_reassignments(effect))
                elif isinstance(effect, ClearMark):
                    await self._eraser.clear_mark(effect.name)
        self._publish_image(again=isinstance(event, fsm.Loaded))

    async def _finish_reassignments(self, effect: FinishReassignments) -> list[Event]:
        plans = {i: PlannedReplicas(ids, None) for i, ids in effect.replicas.items()}
        seen = await self._admin.write_replicas(effect.topic, plans)
        if isinstance(seen, KafkaError):
            log.error("moved replicas of %s are not noted: %s", effect.topic, seen)
            return []
        log.info("replicas of %s were moved: %s", effect.topic, dict(effect.replicas))
        self._admin_znodes.moves_changed(effect.topic)
        return [fsm.TopicsSeen({effect.topic: seen})]

    def _publish_image(self, *, again: bool) -> None:
        """Publish what differs; `again`, even what does not, so that every broker answers."""
        image = ClusterImage(
            controller_id=self._settings.broker_id,
            controller_epoch=self.term.controller_epoch,
            sequence=self.sequence,
            brokers=self.state.brokers,
            topics=self.state.topics,
            deletions={n: each.topic.topic_id for n, each in self.state.deletions.items()},
            broker_configs=self.state.broker_configs,
            offline=self.state.offline,
            is_whole=self._is_whole and not self._has_lost_topics,
        )
        if image == self._published and not again:
            return
        self.sequence += 1
        self._published = dataclasses.replace(image, sequence=self.sequence)
        self._publish(self._published)
