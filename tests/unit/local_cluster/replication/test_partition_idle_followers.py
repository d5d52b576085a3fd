"""An idle follower does not leave the ISR at an append, and joins only when it has caught up."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.fetch_sessions.session import FetchSession
from local_cluster.handlers.data.follower_fetch import ReplicaProgress
from local_cluster.log.partition.validate import check_produced
from local_cluster.replication.in_sync import LiveBrokers
from local_cluster.replication.partition import Partition
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, batch, create

LAG_MS = 30_000
LONG_AFTER_MS = 100_000


class Peers:
    """Brokers 1 and 2 are alive, and the test sets the time."""

    broker_id = 1
    now_ms = 0
    expansions = 0
    """How often the ISR might have expanded."""

    def monotonic_ms(self) -> int:
        return self.now_ms

    def live(self) -> LiveBrokers:
        return LiveBrokers(self.now_ms, LAG_MS, {1: 11, 2: 22})

    def isr_may_expand(self) -> None:
        self.expansions += 1


def leading(directory: Path, peers: Peers, *isr: int) -> Partition:
    leader = Partition(
        "t",
        0,
        TOPIC_ID,
        create(directory),
        flusher=None,
        now_ms=lambda: NOW_MS,
        high_watermark=0,
        peers=peers,
    )
    leader.become_leader(5, PartitionState(0, (1, 2), 1, 5, isr, 0))
    return leader


def append(leader: Partition) -> None:
    records = bytearray(batch(1))
    leader.append(records, check_produced(records, batches_max=1, allow_transactional=True))


@pytest.mark.parametrize("is_woken_before", [False, True])
async def test_an_idle_follower_falls_behind_at_an_append(
    tmp_path: Path, *, is_woken_before: bool
) -> None:
    peers = Peers()
    leader = leading(tmp_path, peers, 1, 2)
    append(leader)
    leader.record_fetch(2, broker_epoch=22, log_end_offset=1, log_start_offset=0)
    session = FetchSession(7, True, 0)
    session.watches.add(("t", 0), ReplicaProgress(leader))
    peers.now_ms = LONG_AFTER_MS
    if is_woken_before:
        # Nothing waits for the next append: the follower has not fetched again yet.
        leader.log_start_advanced()
    append(leader)
    assert leader.decide_isr() is None
    peers.now_ms += LAG_MS + 1
    assert leader.decide_isr() == (1,)


async def test_a_follower_that_is_still_behind_triggers_no_proposal(tmp_path: Path) -> None:
    peers = Peers()
    leader = leading(tmp_path, peers, 1)
    for _ in range(3):
        append(leader)
    leader.record_fetch(2, broker_epoch=22, log_end_offset=0, log_start_offset=0)
    assert (peers.expansions, leader.decide_isr()) == (0, None)
    leader.record_fetch(2, broker_epoch=22, log_end_offset=3, log_start_offset=0)
    assert (peers.expansions, leader.decide_isr()) == (1, (1, 2))
