"""Proposals of ISR changes, against a controller that fails."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pytest

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.replication.isr_proposer import IsrProposer, ProposeIsr
from local_cluster.wire.errors import ErrorCode, KafkaError

STATE = PartitionState(0, (1, 2), 1, 5, (1, 2), 7)


class FakeInSync:
    """A follower lags until the shrunken ISR is written."""

    def __init__(self) -> None:
        self.state = STATE
        self.proposed_isr: tuple[int, ...] | None = None

    def propose(self, isr: tuple[int, ...]) -> None:
        self.proposed_isr = isr

    def withdraw(self) -> None:
        self.proposed_isr = None

    def proposal(self) -> list[tuple[int, int]]:
        return [(1, -1)]


class FakePartition:
    """A leader that decides to shrink its ISR. The first decisions may raise."""

    topic, partition, topic_id, leader_epoch = "t", 0, uuid.UUID(int=1), STATE.leader_epoch
    log = "t-0"

    def __init__(self, decide_errors: int = 0) -> None:
        self._decide_errors = decide_errors
        self.in_sync = FakeInSync()

    def decide_isr(self) -> tuple[int, ...] | None:
        if self._decide_errors:
            self._decide_errors -= 1
            raise RuntimeError("an unexpected error")
        return None if self.in_sync.state.isr == (1,) else (1,)

    def apply_isr(self, state: PartitionState) -> None:
        self.in_sync.state, self.in_sync.proposed_isr = state, None


class FakeReplicas:
    """The replicas of a broker that has one."""

    lag_ms_max = 10

    def __init__(self, partition: FakePartition) -> None:
        self._partition = partition

    def __iter__(self) -> Iterator[FakePartition]:
        return iter([self._partition])


def written(proposals: Sequence[IsrProposal]) -> list[IsrResult]:
    """Write all proposals, as the controller."""
    state = STATE._replace(isr=(1,), zk_version=STATE.zk_version + 1)
    return [IsrResult(proposal, state) for proposal in proposals]


async def until_written(partition: FakePartition, propose: ProposeIsr) -> None:
    """Propose the partition's decision until it has applied the result."""
    proposer = IsrProposer(FakeReplicas(partition), propose, retry_ms=1)
    proposer.start()
    async with asyncio.timeout(5):
        while partition.in_sync.state.isr != (1,):
            await asyncio.sleep(0.001)
    await proposer.stop()


@pytest.mark.parametrize("decide_errors", [0, 1])
@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.not_controller), RuntimeError("an unexpected error")]
)
async def test_after_any_error_the_proposal_is_made_again(
    error: Exception, decide_errors: int
) -> None:
    partition = FakePartition(decide_errors)
    errors = [error]

    async def propose(
        proposals: Sequence[IsrProposal],
        replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
    ) -> list[IsrResult]:
        if errors:
            raise errors.pop()
        return written(proposals)

    await until_written(partition, propose)


async def test_a_refused_proposal_is_made_again() -> None:
    partition = FakePartition()
    refusals = [ErrorCode.ineligible_replica, ErrorCode.invalid_update_version]

    async def propose(
        proposals: Sequence[IsrProposal],
        replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
    ) -> list[IsrResult]:
        if refusals:
            return [IsrResult(each, None, refusals.pop()) for each in proposals]
        return written(proposals)

    await until_written(partition, propose)


async def test_a_result_keeps_replicas_that_were_added_meanwhile() -> None:
    """A reassignment has added a follower. It has fetched, and may be idle."""
    partition = FakePartition()
    grown = STATE._replace(replicas=(1, 2, 3))

    async def propose(
        proposals: Sequence[IsrProposal],
        replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
    ) -> list[IsrResult]:
        partition.in_sync.state = grown
        return written(proposals)

    await until_written(partition, propose)
    assert partition.in_sync.state.replicas == (1, 2, 3)
