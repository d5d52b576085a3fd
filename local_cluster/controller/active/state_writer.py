"""Writes partition states: many to a commit, each conditional on its znode's version.

A commit fails as a whole when one of its states was overtaken; then they are written one by one,
so that one busy partition holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_image import UNWRITTEN, PartitionState
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition, WriteState
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
"""The next ones are made while ZooKeeper flushes the first."""

Written = dict[TopicPartition, PartitionState]


class StateWriter:
    """Writes for one term."""

    def __init__(self, coordination: Coordination, term: Term) -> None:
        self._coordination = coordination
        self._term = term

    async def write(
        self, writes: Sequence[WriteState], state: ClusterState
    ) -> tuple[Written, list[TopicPartition]]:
        """(states with their new versions, partitions that somebody else wrote first).

        Raises Fenced or CoordinationUnavailable.
        """
        written: Written = {}
        overtaken: list[TopicPartition] = []
        rooted: set[str] = set()
        parts = [
            writes[start : start + STATES_PER_COMMIT_MAX]
            for start in range(0, len(writes), STATES_PER_COMMIT_MAX)
        ]
        for start in range(0, len(parts), COMMITS_IN_FLIGHT_MAX):
            together = parts[start : start + COMMITS_IN_FLIGHT_MAX]
            planned = [self._ops(part, rooted, state) for part in together]
            # ZooKeeper does them in the order in which they are sent: the one that creates the
            # root of a topic comes before those that need it.
            outcomes = await asyncio.gather(
                *(self._term.commit(self._coordination, ops) for ops, _ in planned),
                return_exceptions=True,
            )
            for part, (_, positions), outcome in zip(together, planned, outcomes, strict=True):
                if isinstance(outcome, CommitConflict):
                    for write in part:
                        await self._write_alone(write, written, overtaken)
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    for write, position in zip(part, positions, strict=True):
                        _note(write, outcome[position], written)
        return written, overtaken

    def _ops(
        self, writes: Iterable[WriteState], rooted: set[str], state: ClusterState
    ) -> tuple[list[ZkOp], list[int]]:
        """Operations, and where among them each write's own is."""
        ops: list[ZkOp] = []
        positions = []
        for write in writes:
            if write.state.zk_version == UNWRITTEN:
                if write.topic not in rooted and _is_untouched(write.topic, state):
                    ops.append(Create(znodes.partitions_path(write.topic)))
                rooted.add(write.topic)
                ops.append(Create(znodes.partition_path(write.topic, write.state.partition)))
            positions.append(len(ops))
            ops.append(self._op(write))
        return ops, positions

    def _op(self, write: WriteState) -> ZkOp:
        path = znodes.state_path(write.topic, write.state.partition)
        payload = znodes.encode_state(write.state, controller_epoch=self._term.controller_epoch)
        if write.state.zk_version == UNWRITTEN:
            return Create(path, payload)
        return SetPayload(path, payload, write.state.zk_version)

    async def _write_alone(
        self, write: WriteState, written: Written, overtaken: list[TopicPartition]
    ) -> None:
        parents = [path async for path in self._missing_parents(write)]
        ops = [*(Create(path) for path in parents), self._op(write)]
        try:
            versions = await self._term.commit(self._coordination, ops)
        except CommitConflict:
            overtaken.append((write.topic, write.state.partition))
        else:
            _note(write, versions[-1], written)

    async def _missing_parents(self, write: WriteState) -> AsyncIterator[str]:
        if write.state.zk_version != UNWRITTEN:
            return
        for path in (
            znodes.partitions_path(write.topic),
            znodes.partition_path(write.topic, write.state.partition),
        ):
            if await self._coordination.read(path) is None:
                yield path


def _is_untouched(topic: str, state: ClusterState) -> bool:
    """Whether no partition of the topic has a state yet, so that their parent is missing too."""
    partitions = state.topics[topic].partitions.values()
    return all(partition.zk_version == UNWRITTEN for partition in partitions)


def _note(write: WriteState, version: int, written: Written) -> None:
    key = (write.topic, write.state.partition)
    written[key] = write.state._replace(zk_version=version)
