"""SHELL: requests that tools before Kafka 2.6 make by writing a znode.

    /admin/preferred_replica_election   hold the elections, then delete the znode
    /admin/reassign_partitions          start the reassignments. Remove an entry when it is
                                        complete, cannot start, or was replaced by another request.
                                        Delete the znode with its last entry.

Runs under the controller's lock. An unreadable payload is logged and deleted. Kafka 3.9 leaves an
unreadable reassignment there, and no tool can request another one until it is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from local_cluster.controller.active.event_applier import EventApplier
from local_cluster.controller.decisions.reassignments import ReassignmentRequest, target_of
from local_cluster.controller.model import events, topic_znodes, znode_paths
from local_cluster.controller.model.cluster_state import TopicPartition
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    Delete,
    SetPayload,
)
from local_cluster.controller.zk.term import Term
from local_cluster.wire.errors import KafkaError

log = logging.getLogger(__name__)


class Reassigner(Protocol):
    """Starts and cancels reassignments (topic_admin.py)."""

    async def alter_reassignments(
        self, requests: Sequence[ReassignmentRequest], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]: ...


class AdminZnodes:
    """The admin znodes during one term."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        applier: EventApplier,
        reassigner: Reassigner,
        mark: Callable[[str], None],
    ) -> None:
        """`mark` schedules another read of a path."""
        self._coordination = coordination
        self._term = term
        self._applier = applier
        self._reassigner = reassigner
        self._mark = mark
        self._started: dict[TopicPartition, tuple[int, ...]] = {}
        """Targets of the entries that this term has started."""

    def reassignments_changed(self, topic: str) -> None:
        """Reassignments of a topic ended or changed: entries may be complete."""
        if any(key[0] == topic for key in self._started):
            self._mark(znode_paths.REASSIGN_PARTITIONS)

    async def process_preferred_election(self) -> None:
        """Hold the requested elections. Raises Fenced or CoordinationUnavailable."""
        path = znode_paths.PREFERRED_ELECTION
        znode = await self._coordination.read(path, watch=True)
        if znode is None:
            return
        try:
            wanted = topic_znodes.decode_partitions(znode.payload)
        except UnreadableZnodeError as error:
            log.error("deleting %s, it is unreadable: %s", path, error)
            wanted = set()
        await self._applier.apply(events.ElectionsRequested(tuple(sorted(wanted))))
        await self._commit(Delete(path, znode.version))

    async def process_reassignments(self) -> None:
        """Start the requested reassignments, and remove entries that are complete.

        Raises Fenced or CoordinationUnavailable.
        """
        path = znode_paths.REASSIGN_PARTITIONS
        znode = await self._coordination.read(path, watch=True)
        if znode is None:
            self._started.clear()
            return
        try:
            requested = topic_znodes.decode_reassignments(znode.payload)
        except UnreadableZnodeError as error:
            log.error("deleting %s, it is unreadable: %s", path, error)
            await self._commit(Delete(path, znode.version))
            return
        await self._start(
            {key: to for key, to in requested.items() if self._started.get(key) != to}
        )
        self._started = {key: to for key, to in requested.items() if self._is_in_progress(key, to)}
        if self._started == requested:
            return
        if self._started:
            left = topic_znodes.encode_reassignments(self._started)
            await self._commit(SetPayload(path, left, znode.version))
        else:
            await self._commit(Delete(path, znode.version))

    async def _start(self, requested: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        # Reassignments that an earlier controller started continue.
        new = {key: to for key, to in requested.items() if not self._is_in_progress(key, to)}
        requests = [ReassignmentRequest(*key, to) for key, to in sorted(new.items())]
        if not requests:
            return
        results = await self._reassigner.alter_reassignments(requests, may_change_factor=True)
        for (name, index), error in results.items():
            if error is not None:
                log.warning("cannot reassign %s-%d as a tool requested: %s", name, index, error)

    def _is_in_progress(self, key: TopicPartition, target: tuple[int, ...]) -> bool:
        state = self._applier.state
        moving = state.reassigning.get(key)
        topic = state.topics.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if moving is None or partition is None:
            return False
        return target_of(partition, moving) == target

    async def _commit(self, op: SetPayload | Delete) -> None:
        try:
            await self._term.commit(self._coordination, (op,))
        except CommitConflict:
            # A tool changed the znode meanwhile: read it again.
            self._mark(op.path)
