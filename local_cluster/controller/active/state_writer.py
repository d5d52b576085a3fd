"""SHELL: writes partition states, many to a commit, each conditional on its znode's version.

A commit fails as a whole if another writer changed one of its states. Its states are then written
one by one, so that one busy partition does not block the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.model.cluster_image import UNWRITTEN, PartitionState
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.events import WriteState
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    Create,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.zk.term import Term

STATES_PER_COMMIT_MAX: Final = 500
"""About 150 KiB, well below ZooKeeper's default limit of 1 MiB per request."""
COMMITS_IN_FLIGHT_MAX: Final = 8
"""Later commits are built while ZooKeeper flushes the first ones."""

Written = dict[TopicPartition, PartitionState]


class StateWriter:
    """The state writes of one term."""

    def __init__(self, coordination: Coordination, term: Term) -> None:
        self._coordination = coordination
        self._term = term

    async def write(
        self, writes: Sequence[WriteState], state: ClusterState
    ) -> tuple[Written, list[TopicPartition]]:
        """Return (states with their new versions, partitions that another writer wrote first).

        Raises Fenced or CoordinationUnavailable.
        """
        written: Written = {}
        conflicting: list[TopicPartition] = []
        rooted: set[str] = set()
        parts = [
            writes[start : start + STATES_PER_COMMIT_MAX]
            for start in range(0, len(writes), STATES_PER_COMMIT_MAX)
        ]
        for start in range(0, len(parts), COMMITS_IN_FLIGHT_MAX):
            together = parts[start : start + COMMITS_IN_FLIGHT_MAX]
            planned = [self._ops(part, rooted, state) for part in together]
            # ZooKeeper runs commits in the order of sending: the commit that creates the root of a
            # topic comes before those that need it.
            outcomes = await asyncio.gather(
                *(self._term.commit(self._coordination, ops) for ops, _ in planned),
                return_exceptions=True,
            )
            for part, (_, positions), outcome in zip(together, planned, outcomes, strict=True):
                if isinstance(outcome, CommitConflict):
                    for write in part:
                        await self._write_alone(write, written, conflicting)
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    for write, position in zip(part, positions, strict=True):
                        _note(write, outcome[position], written)
        return written, conflicting

    def _ops(
        self, writes: Iterable[WriteState], rooted: set[str], state: ClusterState
    ) -> tuple[list[ZkOp], list[int]]:
        """Return the operations, and the position of each write's own operation among them."""
        ops: list[ZkOp] = []
        positions = []
        for write in writes:
            if write.state.zk_version == UNWRITTEN:
                if write.topic not in rooted and _is_untouched(write.topic, state):
                    ops.append(Create(znode_paths.partitions_path(write.topic)))
                rooted.add(write.topic)
                ops.append(Create(znode_paths.partition_path(write.topic, write.state.partition)))
            positions.append(len(ops))
            ops.append(self._op(write))
        return ops, positions

    def _op(self, write: WriteState) -> ZkOp:
        path = znode_paths.state_path(write.topic, write.state.partition)
        payload = topic_znodes.encode_state(
            write.state, controller_epoch=self._term.controller_epoch
        )
        if write.state.zk_version == UNWRITTEN:
            return Create(path, payload)
        return SetPayload(path, payload, write.state.zk_version)

    async def _write_alone(
        self, write: WriteState, written: Written, conflicting: list[TopicPartition]
    ) -> None:
        parents = [path async for path in self._missing_parents(write)]
        ops = [*(Create(path) for path in parents), self._op(write)]
        try:
            versions = await self._term.commit(self._coordination, ops)
        except CommitConflict:
            conflicting.append((write.topic, write.state.partition))
        else:
            _note(write, versions[-1], written)

    async def _missing_parents(self, write: WriteState) -> AsyncIterator[str]:
        if write.state.zk_version != UNWRITTEN:
            return
        for path in (
            znode_paths.partitions_path(write.topic),
            znode_paths.partition_path(write.topic, write.state.partition),
        ):
            if await self._coordination.read(path) is None:
                yield path


def _is_untouched(topic: str, state: ClusterState) -> bool:
    """Return whether no partition of the topic has a state: then their parent is missing too."""
    partitions = state.topics[topic].partitions.values()
    return all(partition.zk_version == UNWRITTEN for partition in partitions)


def _note(write: WriteState, version: int, written: Written) -> None:
    key = (write.topic, write.state.partition)
    written[key] = write.state._replace(zk_version=version)
