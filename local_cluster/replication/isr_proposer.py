"""Proposes ISR changes to the controller, for every partition that this broker leads (KIP-497).

Followers that have caught up are proposed at once. Lagging ones are looked for every half of
replica.lag.time.max.ms. A proposal whose outcome is not known is made again: until it is decided,
a record is committed only when the old and the new ISR have it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.periodic import Periodic, RunAgainError
from local_cluster.wire.errors import ErrorCode

RETRY_MS: Final = 100
GATHER_MS: Final = 2
"""How long proposals are gathered into one request."""
PROPOSALS_MAX: Final = 2_000
"""Per request."""

_NOT_WRITTEN: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.invalid_request})
"""The controller refused the proposal on the very state that it was made on."""

log = logging.getLogger(__name__)

ProposeIsr = Callable[
    [Sequence[IsrProposal], Mapping[tuple[uuid.UUID, int], tuple[int, ...]]],
    Awaitable[list[IsrResult]],
]
"""Send AlterPartition to the controller, with the replicas of each partition by topic id and
index. Raises KafkaError if the outcome is not known."""


class ProposedIsr(Protocol):
    """The ISR of a partition; `InSyncReplicas` is one."""

    @property
    def state(self) -> PartitionState: ...
    @property
    def proposed_isr(self) -> tuple[int, ...] | None: ...
    def propose(self, isr: tuple[int, ...]) -> None: ...
    def proposal(self) -> Sequence[tuple[int, int]]: ...
    def withdraw(self) -> None: ...


class Replica(Protocol):
    """A replica; `Partition` is one."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def topic_id(self) -> uuid.UUID: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def log(self) -> object: ...
    @property
    def in_sync(self) -> ProposedIsr | None: ...
    def decide_isr(self) -> tuple[int, ...] | None: ...
    def apply_isr(self, state: PartitionState) -> None: ...


class Replicas(Protocol):
    """The replicas of a broker; `ReplicaSet` is one."""

    @property
    def lag_ms_max(self) -> int: ...
    def __iter__(self) -> Iterator[Replica]: ...


class IsrProposer:
    """The proposals of one broker. Call `start` and `stop` on the loop."""

    def __init__(
        self, replicas: Replicas, propose: ProposeIsr, *, retry_ms: int = RETRY_MS
    ) -> None:
        self._replicas = replicas
        self._propose = propose
        self.shrinks = 0
        """ISR changes that the controller wrote for this broker."""
        self.expands = 0
        self.refused = 0
        """Proposals that the controller refused."""
        self._rounds = Periodic(
            "ISR proposals",
            self._propose_changes,
            interval_ms=replicas.lag_ms_max // 2,
            backoff_ms_min=retry_ms,
            backoff_ms_max=retry_ms,
            gather_ms=GATHER_MS,
        )

    def start(self) -> None:
        self._rounds.start()

    async def stop(self) -> None:
        await self._rounds.stop()

    def propose_soon(self) -> None:
        """Look at the partitions soon: a follower has caught up."""
        self._rounds.trigger()

    async def _propose_changes(self) -> None:
        proposing = self._collect()
        if not proposing:
            return
        if not await self._request(proposing):
            raise RunAgainError
        # Another follower may have caught up meanwhile, and be idle since.
        self._rounds.trigger()

    def _collect(self) -> list[Replica]:
        """Return the partitions with a proposal to make, or to repeat."""
        proposing: list[Replica] = []
        for partition in self._replicas:
            in_sync = partition.in_sync
            if in_sync is None or len(proposing) == PROPOSALS_MAX:
                continue
            if in_sync.proposed_isr is None and (decided := partition.decide_isr()) is not None:
                in_sync.propose(decided)
            if in_sync.proposed_isr is not None:
                proposing.append(partition)
        return sorted(proposing, key=lambda partition: partition.topic)

    async def _request(self, proposing: Sequence[Replica]) -> bool:
        """Return whether every proposal was decided. Raises KafkaError, PeerError."""
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
        are_decided = True
        for result in await self._propose(proposals, replicas):
            partition = by_key[result.proposal.topic_id, result.proposal.partition]
            are_decided = self._apply(partition, result) and are_decided
        return are_decided

    def _apply(self, partition: Replica, result: IsrResult) -> bool:
        """Apply the controller's result. Return False if the proposal was refused."""
        in_sync = partition.in_sync
        if (
            in_sync is None
            or partition.leader_epoch != result.proposal.leader_epoch
            or in_sync.state.zk_version != result.proposal.zk_version
        ):
            return True  # the controller has sent a newer state meanwhile
        if result.state is not None:
            log.info("%s: the ISR is %s", partition.log, list(result.state.isr))
            joined = len(result.state.isr) - len(in_sync.state.isr)
            self.shrinks += joined < 0
            self.expands += joined > 0
            # The result has the replicas of the request. A reassignment may have added some since,
            # and their fetches must not be forgotten.
            partition.apply_isr(result.state._replace(replicas=in_sync.state.replicas))
            return True
        self.refused += 1
        log.info("%s: the ISR proposal is refused: %s", partition.log, result.error.name)
        if result.error in _NOT_WRITTEN:
            in_sync.withdraw()
        return False
