"""What tools before Kafka 2.6 ask for by writing a znode; it goes away when that is done.

    /admin/preferred_replica_election   the election is held, then the znode is deleted
    /admin/reassign_partitions          the moves are begun; an entry is taken out when it is done,
                                        cannot be begun, or was overridden; the last one takes the
                                        znode along

Under the controller's lock. What is not Kafka's JSON is logged and deleted: Kafka 3.9 leaves an
unreadable reassignment there, and no tool can ask for another one until somebody removes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from local_cluster.controller.active.state_keeper import StateKeeper
from local_cluster.controller.decisions import fsm
from local_cluster.controller.decisions.reassignments import ReassignmentRequest, target_of
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_state import TopicPartition
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    Delete,
    SetPayload,
)
from local_cluster.controller.zk.term import Term
from local_cluster.wire.errors import KafkaError

log = logging.getLogger(__name__)


class Mover(Protocol):
    """Who begins moves (topic_admin.py)."""

    async def alter_reassignments(
        self, requests: Sequence[ReassignmentRequest], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]: ...


class AdminZnodes:
    """For one term."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        keeper: StateKeeper,
        mover: Mover,
        touch: Callable[[str], None],
    ) -> None:
        """`touch` has a path looked at again."""
        self._coordination = coordination
        self._term = term
        self._keeper = keeper
        self._mover = mover
        self._touch = touch
        self._begun: dict[TopicPartition, tuple[int, ...]] = {}
        """Targets of the entries that this term has taken up."""

    def moves_changed(self, topic: str) -> None:
        """Moves of a topic are over, or others asked for: entries may be done."""
        if any(key[0] == topic for key in self._begun):
            self._touch(znodes.REASSIGN_PARTITIONS)

    async def see_preferred_election(self) -> None:
        """Hold the election that is asked for. Raises Fenced or CoordinationUnavailable."""
        path = znodes.PREFERRED_ELECTION
        znode = await self._coordination.read(path, watch=True)
        if znode is None:
            return
        try:
            wanted = znodes.decode_partitions(znode.payload)
        except ValueError as error:
            log.error("%s is unreadable: %s", path, error)
            wanted = set()
        await self._keeper.apply(fsm.ElectionsWanted(tuple(sorted(wanted))))
        await self._commit(Delete(path, znode.version))

    async def see_reassignments(self) -> None:
        """Begin what is asked for, and take out what is done.

        Raises Fenced or CoordinationUnavailable.
        """
        path = znodes.REASSIGN_PARTITIONS
        znode = await self._coordination.read(path, watch=True)
        if znode is None:
            self._begun.clear()
            return
        try:
            asked = znodes.decode_reassignments(znode.payload)
        except ValueError as error:
            log.error("%s is unreadable and deleted: %s", path, error)
            await self._commit(Delete(path, znode.version))
            return
        await self._begin({key: to for key, to in asked.items() if self._begun.get(key) != to})
        self._begun = {key: to for key, to in asked.items() if self._is_moving(key, to)}
        if self._begun == asked:
            return
        if self._begun:
            left = znodes.encode_reassignments(self._begun)
            await self._commit(SetPayload(path, left, znode.version))
        else:
            await self._commit(Delete(path, znode.version))

    async def _begin(self, asked: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        # What a controller before began goes on.
        new = {key: to for key, to in asked.items() if not self._is_moving(key, to)}
        requests = [ReassignmentRequest(*key, to) for key, to in sorted(new.items())]
        if not requests:
            return
        results = await self._mover.alter_reassignments(requests, may_change_factor=True)
        for (name, index), error in results.items():
            if error is not None:
                log.warning("%s-%d is not moved as a tool asked: %s", name, index, error)

    def _is_moving(self, key: TopicPartition, target: tuple[int, ...]) -> bool:
        state = self._keeper.state
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
            # A tool was faster: its word is looked at again.
            self._touch(op.path)
