"""SHELL: changes of the cluster that the controller has not processed yet, turned into events.

    fired watches        mark a path; the path is read when it is processed
    reports of brokers   are kept until then: deleted replicas, offline replicas, reachability

After a write with an unknown outcome everything is read again. Marks and reports come at any time;
the coroutines run under the controller's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Collection, Sequence
from typing import Final

from local_cluster.controller.active.admin_znodes import AdminZnodes, Reassigner
from local_cluster.controller.active.cluster_reader import ClusterReader
from local_cluster.controller.active.event_applier import EventApplier
from local_cluster.controller.model import config_znodes, events, topic_znodes, znode_paths
from local_cluster.controller.model.cluster_state import TopicPartition
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, Delete
from local_cluster.controller.zk.term import Term

log = logging.getLogger(__name__)

LOGGED_REPLICAS_MAX: Final = 10
"""How many offline replicas one line of the log names."""

EVERYTHING: Final = None
"""In place of a path: every watched path."""


class ChangeProcessor:
    """The changes of one term. Coroutines raise Fenced or CoordinationUnavailable."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        applier: EventApplier,
        reader: ClusterReader,
        reassigner: Reassigner,
    ) -> None:
        self.arrived = asyncio.Event()
        """Set when there are changes to process; the caller that waits for it clears it."""
        self._coordination = coordination
        self._term = term
        self._applier = applier
        self._reader = reader
        self._admin_znodes = AdminZnodes(coordination, term, applier, reassigner, self.mark)
        self._known_topics: frozenset[str] = frozenset()
        """Names whose znode is watched."""
        self._unreadable: frozenset[str] = frozenset()
        """Those of them that were unreadable when everything was read."""
        self._has_lost_topics = False
        """Whether a topic was unreadable in this term, or vanished without having been deleted."""
        self._marked: set[str | None] = set()
        self._deleted: set[tuple[int, uuid.UUID]] = set()
        self._reports: dict[int, events.OfflineReplicasReported] = {}
        self._reachable: dict[int, events.BrokerReachable] = {}

    # -- changes that arrive ----------------------------------------------------------------

    def mark(self, path: str | None) -> None:
        """Note that a watched path may have changed; None: any of them."""
        self._marked.add(path)
        self.arrived.set()

    def note_deleted_replicas(self, broker_id: int, topic_ids: Sequence[uuid.UUID]) -> None:
        """Note that a broker holds no replica of these topics any more."""
        self._deleted.update((broker_id, topic_id) for topic_id in topic_ids)
        self.arrived.set()

    def note_offline_replicas(
        self, broker_id: int, broker_epoch: int, offline: frozenset[TopicPartition]
    ) -> None:
        """Note all offline replicas of a broker."""
        state = self._applier.state
        is_changed = offline != state.offline.get(broker_id, frozenset())
        if is_changed or broker_id in state.unreported or broker_id in self._reports:
            self._reports[broker_id] = events.OfflineReplicasReported(
                broker_id, broker_epoch, offline
            )
            self.arrived.set()

    def note_reachable(self, broker_id: int, broker_epoch: int, is_reachable: bool) -> None:
        """Note that a broker refuses connections, after it was reached under that epoch; or that
        it accepts them again."""
        self._reachable[broker_id] = events.BrokerReachable(broker_id, broker_epoch, is_reachable)
        self.arrived.set()

    def reassignments_changed(self, topic: str) -> None:
        """Reassignments of a topic ended or changed."""
        self._admin_znodes.reassignments_changed(topic)

    # -- processing -------------------------------------------------------------------------

    async def load(self) -> None:
        """Read everything and apply it."""
        self._marked.clear()
        self._deleted.clear()
        # Notifications are drained before everything is read: the read includes their changes.
        await self._drain(znode_paths.CONFIG_CHANGES)
        await self._drain(znode_paths.ISR_CHANGE_NOTIFICATION)
        # Every broker answers the image that follows, and reports its offline replicas.
        await self._drain(znode_paths.LOG_DIR_EVENTS)
        loaded, unreadable = await self._reader.everything()
        self._known_topics = frozenset(loaded.topics) | unreadable
        missing = self._unreadable - self._known_topics
        self._unreadable = unreadable
        self._note_lost(missing | (self._applier.state.topics.keys() - loaded.topics.keys()))
        self._applier.is_whole = loaded.is_whole and not self._has_lost_topics
        await self._applier.apply(loaded)
        await self._admin_znodes.process_preferred_election()
        await self._admin_znodes.process_reassignments()

    async def process(self) -> None:
        """Process all changes since the last call."""
        marked, self._marked = self._marked, set()
        deleted, self._deleted = self._deleted, set()
        if EVERYTHING in marked:
            await self.load()
            await self._process_reachable()
            return
        await self._process_reachable()
        paths = {path for path in marked if path is not None}
        if any(path.startswith(znode_paths.BROKER_IDS) for path in paths):
            await self._applier.apply(events.BrokersSeen(await self._reader.brokers()))
        await self._process_topics(paths)
        if znode_paths.CONFIG_CHANGES in paths:
            await self._process_config_changes()
        if znode_paths.ISR_CHANGE_NOTIFICATION in paths:
            await self._process_isr_changes()
        if znode_paths.LOG_DIR_EVENTS in paths and await self._drain(znode_paths.LOG_DIR_EVENTS):
            self._applier.publish_image(again=True)
        await self._process_offline_replicas()
        if znode_paths.PREFERRED_ELECTION in paths:
            await self._admin_znodes.process_preferred_election()
        if znode_paths.REASSIGN_PARTITIONS in paths:
            await self._admin_znodes.process_reassignments()
        if znode_paths.DELETE_TOPICS in paths:
            await self._applier.apply(events.DeletionsMarked(await self._reader.marked()))
        for broker_id in {broker_id for broker_id, _ in deleted}:
            ids = frozenset(topic_id for broker, topic_id in deleted if broker == broker_id)
            await self._applier.apply(events.ReplicasDeleted(broker_id, ids))

    async def _process_offline_replicas(self) -> None:
        reports, self._reports = self._reports, {}
        for report in reports.values():
            if report.offline != self._applier.state.offline.get(report.broker_id, frozenset()):
                names = [f"{name}-{index}" for name, index in sorted(report.offline)]
                log.warning(
                    "broker %d has %d offline replicas%s",
                    report.broker_id,
                    len(names),
                    ": " + ", ".join(names[:LOGGED_REPLICAS_MAX]) if names else "",
                )
            await self._applier.apply(report)

    async def _process_reachable(self) -> None:
        # One at a time: the others stay noted if ZooKeeper fails meanwhile.
        while self._reachable:
            event = self._reachable.pop(next(iter(self._reachable)))
            log.warning(
                "broker %d %s",
                event.broker_id,
                "accepts connections again"
                if event.is_reachable
                else "refuses connections; moving its leadership before its session ends",
            )
            await self._applier.apply(event)

    async def _process_topics(self, paths: Collection[str]) -> None:
        prefix = znode_paths.TOPICS + "/"
        again = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
        gone: frozenset[str] = frozenset()
        if znode_paths.TOPICS in paths:
            names = frozenset(await self._reader.topic_names())
            # A topic that was created here and removed before this read is only in the state.
            gone = (self._known_topics | self._applier.state.topics.keys()) - names
            again |= names - self._known_topics
            self._known_topics = names
        again = {name for name in again if "/" not in name and name in self._known_topics}
        if not again and not gone:
            return
        seen = await self._reader.topics(sorted(again))
        # The watch of a removed topic may fire before that of the list.
        gone |= {name for name, topic in seen.items() if topic is None}
        missing = gone & (self._applier.state.topics.keys() | self._unreadable)
        self._note_lost(missing | (again - seen.keys() - self._unreadable))
        if self._unreadable & seen.keys() - gone:
            # A topic was repaired. Its leaders may have restarted meanwhile, as at the start of a
            # term. Only a read of everything shows that.
            self.mark(EVERYTHING)
            return
        await self._applier.apply(events.TopicsSeen(seen | dict.fromkeys(gone)))

    def _note_lost(self, names: Collection[str]) -> None:
        """From here on images no longer claim to name every topic."""
        if names and not self._has_lost_topics:
            self._has_lost_topics = True
            self._applier.is_whole = False
            log.error("topics vanished without deletion, or are unreadable: %s", sorted(names))

    async def _process_config_changes(self) -> None:
        topics: set[str] = set()
        brokers: set[str] = set()
        entities: set[str] = set()
        for payload in await self._drain(znode_paths.CONFIG_CHANGES):
            try:
                changed = config_znodes.decode_config_change(payload)
            except UnreadableZnodeError as error:
                log.error("a config change notification is unreadable: %s", error)
                continue
            if changed is None:
                continue
            kind, name = changed
            if kind == "topics" and name in self._applier.state.topics:
                topics.add(name)
            elif kind == "brokers":
                brokers.add(name)
            elif kind in znode_paths.ENTITY_KINDS:
                entities.add(f"{kind}/{name}")
        for name in sorted(topics):
            await self._applier.apply(events.ConfigsSeen(name, await self._reader.configs(name)))
        for name in sorted(brokers):
            await self._applier.apply(
                events.BrokerConfigsSeen(name, await self._reader.broker_configs(name))
            )
        for entity in sorted(entities):
            await self._applier.apply(
                events.EntityConfigsSeen(entity, await self._reader.entity_configs(entity))
            )

    async def _process_isr_changes(self) -> None:
        changed: set[TopicPartition] = set()
        for payload in await self._drain(znode_paths.ISR_CHANGE_NOTIFICATION):
            try:
                changed |= topic_znodes.decode_partitions(payload)
            except UnreadableZnodeError as error:
                log.error("an ISR change notification is unreadable: %s", error)
        await self._applier.apply(await self._applier.read_states(changed))

    async def _drain(self, path: str) -> list[bytes]:
        """Delete the notifications under a path; return their payloads."""
        payloads = []
        for name in sorted(await self._coordination.children(path, watch=True)):
            znode = await self._coordination.read(f"{path}/{name}")
            if znode is None:
                continue
            payloads.append(znode.payload)
            with contextlib.suppress(CommitConflict):
                await self._term.commit(self._coordination, (Delete(f"{path}/{name}"),))
        return payloads
