"""Proposes other in-sync replicas to the controller, for every partition that this broker leads.

Followers that join are proposed when they have caught up, those that lag every half of
replica.lag.time.max.ms. A proposal whose outcome is not known is made again: until it is decided,
the old and the new in-sync replicas must all have a record before it is committed.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from local_cluster.controller.decisions.isr_requests import IsrProposal, IsrResult
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

RETRY_DELAY_MS: Final = 100
GATHER_MS: Final = 2
"""How long proposals are gathered into one request."""
PROPOSALS_MAX: Final = 2_000
"""Per request."""

_log = logging.getLogger(__name__)

ProposeIsr = Callable[
    [Sequence[IsrProposal], Mapping[tuple[uuid.UUID, int], tuple[int, ...]]],
    Awaitable[list[IsrResult]],
]
"""Ask the controller. Raises KafkaError where the outcome is not known."""


class IsrProposer:
    """One per broker."""

    def __init__(self, replicas: ReplicaSet, propose: ProposeIsr) -> None:
        self._replicas = replicas
        self._propose = propose
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="isr-changes")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def may_change(self, partition: Partition) -> None:
        """Look at the partitions soon: a follower has caught up."""
        self._wanted.set()

    async def _run(self) -> None:
        period_s = self._replicas.lag_ms_max / 2 / 1000
        while True:
            try:
                async with asyncio.timeout(period_s):
                    await self._wanted.wait()
                    await asyncio.sleep(GATHER_MS / 1000)
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                proposing = self._collect()
                if not proposing:
                    continue
                refused = await self._ask(proposing)
            except (KafkaError, PeerError) as error:
                _log.warning("the controller was not asked for in-sync replicas: %s", error)
                refused = True
            except Exception:  # noqa: BLE001 - else no replica would leave or join any more
                _log.exception("in-sync replicas are looked at again")
                refused = True
            if refused:
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            # Another follower may have caught up while these were decided; it is at rest since.
            self._wanted.set()

    def _collect(self) -> list[Partition]:
        """Partitions with a proposal that is to be made, or made again."""
        proposing: list[Partition] = []
        for partition in self._replicas:
            in_sync = partition.in_sync
            if in_sync is None or len(proposing) == PROPOSALS_MAX:
                continue
            if in_sync.proposed is None and (decided := partition.decide_isr()) is not None:
                in_sync.propose(decided)
            if in_sync.proposed is not None:
                proposing.append(partition)
        return sorted(proposing, key=lambda partition: partition.topic)

    async def _ask(self, proposing: Sequence[Partition]) -> bool:
        """Whether anything was refused, or may not have been decided. Raises KafkaError."""
        proposals = []
        replicas = {}
        by_key = {}
        for partition in proposing:
            assert partition.in_sync is not None
            state = partition.in_sync.state
            key = (partition.topic_id, partition.partition)
            by_key[key] = partition
            replicas[key] = state.replicas
            proposals.append(
                IsrProposal(
                    *key,
                    state.leader_epoch,
                    tuple(partition.in_sync.proposal()),
                    state.zk_version,
                )
            )
        refused = False
        for result in await self._propose(proposals, replicas):
            partition = by_key[result.proposal.topic_id, result.proposal.partition]
            refused = self._take(partition, result) or refused
        return refused

    def _take(self, partition: Partition, result: IsrResult) -> bool:
        in_sync = partition.in_sync
        if (
            in_sync is None
            or partition.leader_epoch != result.proposal.leader_epoch
            or in_sync.state.zk_version != result.proposal.zk_version
        ):
            return False  # the controller has said something newer meanwhile
        if result.state is not None:
            _log.info("%s: in sync are now %s", partition.log, list(result.state.isr))
            # Its replicas are those of when it was asked for; a move may have begun since, and who
            # came with it has told where it is.
            partition.adopt_isr(result.state._replace(replicas=in_sync.state.replicas))
            return False
        _log.info("%s: other in-sync replicas are refused: %s", partition.log, result.error.name)
        if result.error in _SURELY_NOT_WRITTEN:
            in_sync.proposed = None
        return True


_SURELY_NOT_WRITTEN: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.invalid_request})
"""Refused on the very state that the proposal was made on: it can be made differently."""
