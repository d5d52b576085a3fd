"""SHELL: what is new in the cluster, turned into events for the controller's state.

    watches that fired     their paths are only marked; what is there is read when it is dealt with
    what brokers say       kept until then: replicas deleted, replicas offline, who answers

After a write whose outcome is unknown everything is read anew. Marks are made at any time; the
coroutines run under the controller's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Collection, Sequence
from typing import Final

from local_cluster.controller.active.admin_znodes import AdminZnodes, Mover
from local_cluster.controller.active.cluster_reader import ClusterReader
from local_cluster.controller.active.state_keeper import StateKeeper
from local_cluster.controller.decisions import fsm
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_state import TopicPartition
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, Delete
from local_cluster.controller.zk.term import Term

log = logging.getLogger(__name__)

REPORTED_NAMES_MAX: Final = 10
"""How many offline replicas one line of the log names."""

EVERYTHING: Final = None
"""In place of a path: whatever is watched."""


class ClusterNews:
    """For one term. Coroutines raise Fenced or CoordinationUnavailable."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        keeper: StateKeeper,
        reader: ClusterReader,
        mover: Mover,
    ) -> None:
        self.came = asyncio.Event()
        """Set when there is any; who waits for it clears it."""
        self._coordination = coordination
        self._term = term
        self._keeper = keeper
        self._reader = reader
        self._admin_znodes = AdminZnodes(coordination, term, keeper, mover, self.touch)
        self._known_topics: frozenset[str] = frozenset()
        """Names whose znode is watched."""
        self._unreadable: frozenset[str] = frozenset()
        """Those of them that could not be read with everything."""
        self._has_lost_topics = False
        """Whether a topic vanished in this term that nobody had deleted, or could not be read."""
        self._dirty: set[str | None] = set()
        self._deleted: set[tuple[int, uuid.UUID]] = set()
        self._reports: dict[int, fsm.ReplicasReported] = {}
        self._answering: dict[int, fsm.BrokerAnswering] = {}

    # -- what is heard ----------------------------------------------------------------------

    def touch(self, path: str | None) -> None:
        """A watched path may have changed; None: any of them."""
        self._dirty.add(path)
        self.came.set()

    def replicas_deleted(self, broker_id: int, topic_ids: Sequence[uuid.UUID]) -> None:
        """A broker holds no replica of these topics any more."""
        self._deleted.update((broker_id, topic_id) for topic_id in topic_ids)
        self.came.set()

    def replicas_reported(
        self, broker_id: int, broker_epoch: int, offline: frozenset[TopicPartition]
    ) -> None:
        """A broker says which of its replicas it cannot serve, all of them."""
        state = self._keeper.state
        is_news = offline != state.offline.get(broker_id, frozenset())
        if is_news or broker_id in state.unheard or broker_id in self._reports:
            self._reports[broker_id] = fsm.ReplicasReported(broker_id, broker_epoch, offline)
            self.came.set()

    def broker_answers(self, broker_id: int, broker_epoch: int, answers: bool) -> None:
        """Nobody listens any more where a broker was reached in that run; or again."""
        self._answering[broker_id] = fsm.BrokerAnswering(broker_id, broker_epoch, answers)
        self.came.set()

    def moves_changed(self, topic: str) -> None:
        """Moves of a topic are over, or others asked for."""
        self._admin_znodes.moves_changed(topic)

    # -- what is done about it --------------------------------------------------------------

    async def load(self) -> None:
        """Read everything and put it in order."""
        self._dirty.clear()
        self._deleted.clear()
        # Drained before everything is read: what they tell of is then read anyway.
        await self._drain(znodes.CONFIG_CHANGES)
        await self._drain(znodes.ISR_CHANGE_NOTIFICATION)
        # Every broker answers the image that follows, and says what it cannot serve.
        await self._drain(znodes.LOG_DIR_EVENTS)
        loaded, unreadable = await self._reader.everything()
        self._known_topics = frozenset(loaded.topics) | unreadable
        missed = self._unreadable - self._known_topics
        self._unreadable = unreadable
        self._note_lost(missed | (self._keeper.state.topics.keys() - loaded.topics.keys()))
        self._keeper.is_whole = loaded.is_whole and not self._has_lost_topics
        await self._keeper.apply(loaded)
        await self._admin_znodes.see_preferred_election()
        await self._admin_znodes.see_reassignments()

    async def catch_up(self) -> None:
        """Deal with all that came since the last time."""
        dirty, self._dirty = self._dirty, set()
        deleted, self._deleted = self._deleted, set()
        if EVERYTHING in dirty:
            await self.load()
            await self._see_answering()
            return
        await self._see_answering()
        paths = {path for path in dirty if path is not None}
        if any(path.startswith(znodes.BROKER_IDS) for path in paths):
            await self._keeper.apply(fsm.BrokersSeen(await self._reader.brokers()))
        await self._see_topics(paths)
        if znodes.CONFIG_CHANGES in paths:
            await self._see_configs()
        if znodes.ISR_CHANGE_NOTIFICATION in paths:
            await self._see_isr_changes()
        if znodes.LOG_DIR_EVENTS in paths and await self._drain(znodes.LOG_DIR_EVENTS):
            self._keeper.publish_image(again=True)
        await self._see_reports()
        if znodes.PREFERRED_ELECTION in paths:
            await self._admin_znodes.see_preferred_election()
        if znodes.REASSIGN_PARTITIONS in paths:
            await self._admin_znodes.see_reassignments()
        if znodes.DELETE_TOPICS in paths:
            await self._keeper.apply(fsm.DeletionsMarked(await self._reader.marked()))
        for broker_id in {broker_id for broker_id, _ in deleted}:
            ids = frozenset(topic_id for broker, topic_id in deleted if broker == broker_id)
            await self._keeper.apply(fsm.ReplicasDeleted(broker_id, ids))

    async def _see_reports(self) -> None:
        reports, self._reports = self._reports, {}
        for report in reports.values():
            if report.offline != self._keeper.state.offline.get(report.broker_id, frozenset()):
                names = [f"{name}-{index}" for name, index in sorted(report.offline)]
                log.warning(
                    "broker %d has %d replicas offline%s",
                    report.broker_id,
                    len(names),
                    ": " + ", ".join(names[:REPORTED_NAMES_MAX]) if names else "",
                )
            await self._keeper.apply(report)

    async def _see_answering(self) -> None:
        # One at a time: what is not taken up yet is not forgotten where ZooKeeper goes away.
        while self._answering:
            event = self._answering.pop(next(iter(self._answering)))
            log.warning(
                "broker %d %s",
                event.broker_id,
                "answers again" if event.answers else "is gone, and relieved before its session is",
            )
            await self._keeper.apply(event)

    async def _see_topics(self, paths: Collection[str]) -> None:
        prefix = znodes.TOPICS + "/"
        again = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
        gone: frozenset[str] = frozenset()
        if znodes.TOPICS in paths:
            names = frozenset(await self._reader.topic_names())
            # Made here, and removed by somebody before this look: only the state knows it.
            gone = (self._known_topics | self._keeper.state.topics.keys()) - names
            again |= names - self._known_topics
            self._known_topics = names
        again = {name for name in again if "/" not in name and name in self._known_topics}
        if not again and not gone:
            return
        seen = await self._reader.topics(sorted(again))
        # Its own watch may tell of one that went before that of the list does.
        gone |= {name for name, topic in seen.items() if topic is None}
        missed = gone & (self._keeper.state.topics.keys() | self._unreadable)
        self._note_lost(missed | (again - seen.keys() - self._unreadable))
        if self._unreadable & seen.keys() - gone:
            # Repaired. Who leads there may have been started again meanwhile, as for any topic at
            # the begin of a term: that shows where everything is read.
            self.touch(EVERYTHING)
            return
        await self._keeper.apply(fsm.TopicsSeen(seen | dict.fromkeys(gone)))

    def _note_lost(self, names: Collection[str]) -> None:
        """Who vouches for topics that vanished? No broker is told any more that all are named."""
        if names and not self._has_lost_topics:
            self._has_lost_topics = True
            self._keeper.is_whole = False
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
            if entity is None:
                continue
            kind, name = entity
            if kind == "topics" and name in self._keeper.state.topics:
                topics.add(name)
            elif kind == "brokers":
                entities.add(name)
        for name in sorted(topics):
            await self._keeper.apply(fsm.ConfigsSeen(name, await self._reader.configs(name)))
        for name in sorted(entities):
            await self._keeper.apply(
                fsm.BrokerConfigsSeen(name, await self._reader.broker_configs(name))
            )

    async def _see_isr_changes(self) -> None:
        changed: set[TopicPartition] = set()
        for payload in await self._drain(znodes.ISR_CHANGE_NOTIFICATION):
            try:
                changed |= znodes.decode_partitions(payload)
            except (ValueError, KeyError, TypeError) as error:
                log.error("an ISR change notification is unreadable: %s", error)
        await self._keeper.apply(await self._keeper.read_states(changed))

    async def _drain(self, path: str) -> list[bytes]:
        """Payloads of the notifications under a path, which are deleted."""
        payloads = []
        for name in sorted(await self._coordination.children(path, watch=True)):
            znode = await self._coordination.read(f"{path}/{name}")
            if znode is None:
                continue
            payloads.append(znode.payload)
            with contextlib.suppress(CommitConflict):
                await self._term.commit(self._coordination, (Delete(f"{path}/{name}"),))
        return payloads
