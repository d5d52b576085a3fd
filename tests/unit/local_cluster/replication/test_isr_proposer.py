"""Proposals of in-sync replicas, against a controller that fails."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.controller.decisions.isr_requests import IsrProposal, IsrResult
from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.replication import isr_proposer
from local_cluster.replication.isr_proposer import IsrProposer
from local_cluster.wire.errors import ErrorCode, KafkaError

STATE = PartitionState(0, (1, 2), 1, 5, (1, 2), 7)


class FakePartition:
    """Leads with a follower that lags, until that is written."""

    topic, partition, topic_id, leader_epoch = "t", 0, uuid.UUID(int=1), STATE.leader_epoch
    log = "t-0"

    def __init__(self, decide_errors: int = 0) -> None:
        self._decide_errors = decide_errors
        self.in_sync = SimpleNamespace(
            state=STATE, proposed=None, propose=self.propose, proposal=lambda: [(1, -1)]
        )

    def propose(self, isr: tuple[int, ...]) -> None:
        self.in_sync.proposed = isr

    def decide_isr(self) -> tuple[int, ...] | None:
        if self._decide_errors:
            self._decide_errors -= 1
            raise RuntimeError("nobody foresaw that")
        return None if self.in_sync.state.isr == (1,) else (1,)

    def adopt_isr(self, state: PartitionState) -> None:
        self.in_sync.state, self.in_sync.proposed = state, None


class Replicas(list[FakePartition]):
    lag_ms_max = 10


def written(proposals: Sequence[IsrProposal]) -> list[IsrResult]:
    """The controller takes all of them."""
    state = STATE._replace(isr=(1,), zk_version=STATE.zk_version + 1)
    return [IsrResult(proposal, state) for proposal in proposals]


async def until_written(partition: FakePartition, propose: Any) -> None:
    """Propose what the partition decides, until it has adopted that."""
    changes = IsrProposer(Replicas([partition]), propose)  # type: ignore[arg-type]
    changes.start()
    async with asyncio.timeout(5):
        while partition.in_sync.state.isr != (1,):
            await asyncio.sleep(0.001)
    await changes.stop()


@pytest.mark.parametrize("decide_errors", [0, 1])
@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.not_controller), RuntimeError("nobody foresaw that")]
)
async def test_whatever_goes_wrong_is_proposed_again(
    error: Exception, decide_errors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_proposer, "RETRY_DELAY_MS", 1)
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


async def test_an_answer_forgets_no_replica_that_was_added_while_it_was_made() -> None:
    """Who came with a move that began meanwhile has told where it is, and may be at rest."""
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
