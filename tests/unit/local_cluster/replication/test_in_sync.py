"""The ISR as the leader sees it: commits, shrink, expand, proposals."""

from __future__ import annotations

from typing import ClassVar

import pytest

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.replication.in_sync import UNKNOWN_OFFSET, InSyncReplicas, LiveBrokers
from local_cluster.replication.replica_selector import THE_LEADER, preferred_replica
from local_cluster.wire.errors import ErrorCode, KafkaError

LAG_MS = 1_000
EPOCHS = {1: 10, 2: 20, 3: 30}


def state(*isr: int, epoch: int = 5, version: int = 7, replicas: int = 3) -> PartitionState:
    ids = tuple(range(1, replicas + 1))
    return PartitionState(0, ids, 1, epoch, isr or ids, version)


def leading(*isr: int, end: int = 0, now: int = 0) -> InSyncReplicas:
    made = InSyncReplicas(1)
    made.start_epoch(state(*isr), log_end_offset=end, now_ms=now)
    return made


def fetch(
    made: InSyncReplicas,
    replica: int,
    end: int,
    *,
    leader_end: int,
    now: int = 0,
    epoch: int | None = None,
) -> None:
    made.record_fetch(
        replica,
        broker_epoch=EPOCHS[replica] if epoch is None else epoch,
        log_end_offset=end,
        log_start_offset=0,
        leader_end_offset=leader_end,
        now_ms=now,
    )


def committed(
    made: InSyncReplicas,
    own: int,
    *,
    min_isr: int = 2,
    now: int = 0,
    live: dict[int, int] | None = None,
) -> int:
    brokers = LiveBrokers(now, LAG_MS, EPOCHS if live is None else live)
    return made.committed_offset(own, brokers, min_insync_replicas=min_isr)


def decide(
    made: InSyncReplicas, *, end: int, high_watermark: int = 0, now: int = 0
) -> tuple[int, ...] | None:
    return made.decide_isr(
        LiveBrokers(now, LAG_MS, EPOCHS), leader_end_offset=end, high_watermark=high_watermark
    )


class TestCommits:
    def test_what_all_in_sync_have_is_committed(self) -> None:
        made = leading()
        fetch(made, 2, 8, leader_end=10)
        assert committed(made, 10) == UNKNOWN_OFFSET, "broker 3 has not fetched yet"
        fetch(made, 3, 6, leader_end=10)
        assert committed(made, 10) == 6
        assert committed(made, 5) == 5, "the leader's own durable end counts too"

    def test_nothing_is_committed_below_min_insync_replicas(self) -> None:
        made = leading(1)
        assert committed(made, 10) == UNKNOWN_OFFSET
        assert committed(made, 10, min_isr=1) == 10
        assert made.is_under_min_isr(2)

    def test_min_insync_replicas_is_bounded_by_the_number_of_replicas(self) -> None:
        made = InSyncReplicas(1)
        made.start_epoch(state(1, 2, replicas=2), log_end_offset=0, now_ms=0)
        fetch(made, 2, 4, leader_end=4)
        assert committed(made, 4, min_isr=3) == 4

    def test_a_new_epoch_forgets_what_followers_reported(self) -> None:
        made = leading()
        for replica in (2, 3):
            fetch(made, replica, 10, leader_end=10)
        made.start_epoch(state(epoch=6, version=8), log_end_offset=10, now_ms=0)
        assert committed(made, 10) == UNKNOWN_OFFSET

    @pytest.mark.parametrize("proposed", [(1, 2), (1, 2, 3)])
    def test_the_old_and_the_new_isr_count_while_a_change_is_in_flight(
        self, proposed: tuple[int, ...]
    ) -> None:
        before = (1, 2) if len(proposed) == 3 else (1, 2, 3)
        made = leading(*before)
        fetch(made, 2, 10, leader_end=10, now=0)
        fetch(made, 3, 4, leader_end=10, now=0)
        made.propose(proposed)
        late = LAG_MS * 5
        assert committed(made, 10, now=late) == 4
        made.update(state(1, 2, version=8))
        assert committed(made, 10, now=late) == 10

    def test_a_follower_that_was_caught_up_lately_holds_the_high_watermark(self) -> None:
        made = leading(1, 2)
        fetch(made, 2, 10, leader_end=10, now=100)
        fetch(made, 3, 7, leader_end=7, now=100)
        assert committed(made, 10, now=100 + LAG_MS) == 7
        assert committed(made, 10, now=101 + LAG_MS) == 10
        assert committed(made, 10, now=100, live={1: 10, 2: 20}) == 10, "its broker is not alive"
        assert committed(made, 10, now=100, live={**EPOCHS, 3: 31}) == 10, (
            "its broker has restarted"
        )

    def test_the_low_watermark_is_that_of_the_live_replicas(self) -> None:
        made = leading()
        fetch(made, 2, 10, leader_end=10)
        assert made.low_watermark(5, {1, 2, 3}) == UNKNOWN_OFFSET
        assert made.low_watermark(5, {1, 2}) == 0
        assert made.low_watermark(5, {1}) == 5


class TestShrink:
    def test_a_follower_that_lags_too_long_leaves(self) -> None:
        made = leading(end=10)
        for replica in (2, 3):
            fetch(made, replica, 10, leader_end=10)
        fetch(made, 2, 20, leader_end=20, now=900)
        assert decide(made, end=20, now=LAG_MS) is None
        assert decide(made, end=20, now=LAG_MS + 1) == (1, 2)

    def test_a_follower_that_has_everything_stays_without_fetching(self) -> None:
        made = leading()
        for replica in (2, 3):
            fetch(made, replica, 10, leader_end=10)
        assert decide(made, end=10, now=LAG_MS * 9) is None

    def test_reaching_the_leaders_end_of_the_last_fetch_counts_as_caught_up_then(self) -> None:
        made = leading()
        fetch(made, 2, 0, leader_end=10, now=500)
        fetch(made, 2, 10, leader_end=20, now=1_200)
        fetch(made, 3, 20, leader_end=20, now=1_200)
        assert decide(made, end=30, now=1_500) is None
        assert decide(made, end=30, now=1_501) == (1, 3)

    def test_an_idle_follower_falls_behind_when_the_leader_appends(self) -> None:
        made = leading()
        for replica in (2, 3):
            fetch(made, replica, 10, leader_end=10)
        made.record_append(10, LAG_MS * 9)
        assert decide(made, end=11, now=LAG_MS * 10) is None
        fetch(made, 3, 11, leader_end=11, now=LAG_MS * 9)
        # Only a follower that had everything starts to lag here.
        made.record_append(11, LAG_MS * 10)
        assert decide(made, end=12, now=LAG_MS * 10 + 1) == (1, 3)

    def test_the_leader_stays_alone(self) -> None:
        made = leading()
        assert decide(made, end=5, now=LAG_MS + 1) == (1,)


class TestExpand:
    def test_a_follower_joins_at_the_high_watermark(self) -> None:
        made = leading(1, 2)
        fetch(made, 3, 7, leader_end=7)
        assert decide(made, end=10, high_watermark=8) is None
        assert decide(made, end=10, high_watermark=7) == (1, 2, 3)

    def test_not_before_it_reached_an_earlier_end_of_the_leader(self) -> None:
        made = leading(1, 2)
        fetch(made, 3, 7, leader_end=10, now=100)
        assert decide(made, end=10, high_watermark=7, now=100) is None
        fetch(made, 3, 10, leader_end=12, now=200)
        assert decide(made, end=14, high_watermark=7, now=200) == (1, 2, 3)

    def test_a_follower_that_left_does_not_join_by_its_old_fetch(self) -> None:
        """Under min.insync.replicas the high watermark stays where that fetch was."""
        made = leading(1, 2)
        fetch(made, 2, 10, leader_end=10)
        late = LAG_MS * 2
        assert decide(made, end=20, high_watermark=10, now=late) == (1,)
        made.propose((1,))
        made.update(state(1, version=8))
        assert decide(made, end=20, high_watermark=10, now=late) is None
        fetch(made, 2, 20, leader_end=20, now=late + 1)
        assert decide(made, end=20, high_watermark=10, now=late + 1) == (1, 2)

    def test_not_before_the_start_of_the_leaders_epoch(self) -> None:
        made = leading(1, 2, end=9)
        fetch(made, 3, 8, leader_end=9)
        assert decide(made, end=9, high_watermark=3) is None

    def test_not_from_an_old_broker_epoch(self) -> None:
        made = leading(1, 2)
        fetch(made, 3, 10, leader_end=10, epoch=29)
        assert decide(made, end=10) is None
        fetch(made, 3, 10, leader_end=10, epoch=30)
        assert decide(made, end=10) == (1, 2, 3)
        with pytest.raises(KafkaError) as refused:
            fetch(made, 3, 10, leader_end=10, epoch=29)
        assert refused.value.code is ErrorCode.not_leader_or_follower

    def test_a_broker_without_a_replica_is_refused(self) -> None:
        with pytest.raises(KafkaError) as refused:
            leading().record_fetch(
                9,
                broker_epoch=1,
                log_end_offset=0,
                log_start_offset=0,
                leader_end_offset=0,
                now_ms=0,
            )
        assert refused.value.code is ErrorCode.unknown_topic_or_partition


class TestProposals:
    def test_one_at_a_time(self) -> None:
        made = leading(1, 2)
        fetch(made, 3, 10, leader_end=10)
        made.propose((1,))
        assert decide(made, end=10) is None

    def test_a_newer_state_decides_it(self) -> None:
        made = leading()
        made.propose((1, 2))
        assert not made.update(state(version=6)), "older than what is known"
        assert made.proposed_isr == (1, 2)
        assert made.update(state(1, 2, 3, version=8))
        assert made.proposed_isr is None

    def test_it_names_the_broker_epochs_of_the_fetches(self) -> None:
        made = leading(1, 2)
        fetch(made, 3, 10, leader_end=10)
        made.propose((1, 2, 3))
        assert made.proposal() == [(1, -1), (2, -1), (3, 30)]

    def test_a_repetition_does_not_name_a_later_broker_epoch(self) -> None:
        """Broker 3 lost its tail and restarted before the controller decided."""
        made = leading(1, 2)
        fetch(made, 3, 10, leader_end=10)
        made.propose((1, 2, 3))
        made.record_fetch(
            3,
            broker_epoch=31,
            log_end_offset=5,
            log_start_offset=0,
            leader_end_offset=10,
            now_ms=0,
        )
        assert made.proposal() == [(1, -1), (2, -1), (3, 30)]
        made.proposed_isr = None
        assert made.proposal() == ()
        assert decide(made, end=10) is None, "it has less than is committed"

    def test_replicas_that_are_assigned_meanwhile(self) -> None:
        made = leading(1, 2, 3)
        fetch(made, 2, 10, leader_end=10)
        made.update(state(1, 2, 3, version=8)._replace(replicas=(1, 2, 3, 4)))
        assert made.followers[2].log_end_offset == 10, "the fetches of the others are kept"
        assert made.followers[4].log_end_offset == UNKNOWN_OFFSET
        made.update(state(1, 2, version=9)._replace(replicas=(1, 2)))
        assert made.followers.keys() == {2}


class TestPreferredReplica:
    RACKS: ClassVar = {1: "a", 2: "b", 3: "b"}

    def test_the_in_sync_replica_of_the_rack_with_the_highest_end_offset(self) -> None:
        made = leading()
        fetch(made, 2, 8, leader_end=10)
        fetch(made, 3, 9, leader_end=10)
        assert preferred_replica(made, 1, "b", self.RACKS, 5) == 3
        assert preferred_replica(made, 1, "b", self.RACKS, 10) == THE_LEADER, (
            "no replica has it yet"
        )
        made.update(state(1, 2, version=8))
        assert preferred_replica(made, 1, "b", self.RACKS, 5) == 2

    def test_the_leader_if_it_is_near_or_no_other_replica_is(self) -> None:
        made = leading()
        fetch(made, 2, 8, leader_end=10)
        for rack in ("a", "c", ""):
            assert preferred_replica(made, 1, rack, self.RACKS, 5) == THE_LEADER
        assert preferred_replica(made, 1, "b", {1: "a"}, 5) == THE_LEADER, "2 is not alive"
