"""Elections: brokers that shut down or restart; preferred and unclean elections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local_cluster.controller.decisions.elections import (
    decide_leader,
    decide_preferred,
    election_problem,
    find_imbalanced,
)
from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model import events
from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState, TopicState
from local_cluster.controller.model.cluster_state import ClusterState, Reassignment
from local_cluster.controller.model.events import WriteState
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.samples import broker, brokers, partition, topic, unwritten

LIVE = {1, 2, 3}


def told(decided: PartitionState | None) -> tuple[int, tuple[int, ...]] | None:
    return None if decided is None else (decided.leader, decided.isr)


class TestDecideLeader:
    """One partition, with live and restarted brokers."""

    @pytest.mark.parametrize(
        ("before", "live", "after"),
        [
            # new: the first live replica, everybody alive in sync
            (unwritten(0, 1, 2), {1, 2}, (1, 0, (1, 2))),
            (unwritten(0, 1, 2), {2}, (2, 0, (2,))),
            (unwritten(0, 1), {2}, None),
            # well
            (partition(0, 1), {1, 2}, None),
            # the only replica went: nobody leads, the ISR is kept
            (partition(0, 1, epoch=4), {2}, (NO_LEADER, 5, (1,))),
            # still away
            (partition(0, 1, leader=-1, epoch=5, isr=(1,)), {2}, None),
            # came back
            (partition(0, 1, leader=-1, epoch=5, isr=(1,)), {1, 2}, (1, 6, (1,))),
            # a follower in sync takes over, in the order of the replicas
            (partition(0, 1, 2, 3, epoch=1), {2, 3}, (2, 2, (2, 3))),
            (partition(0, 3, 2, 1, epoch=1, isr=(3, 1)), {1, 2}, (1, 2, (1,))),
            # a live replica that is not in sync does not lead
            (partition(0, 1, 2, isr=(1,)), {2}, (NO_LEADER, 1, (1,))),
            # a dead follower leaves the ISR
            (partition(0, 1, 2), {1}, (1, 1, (1,))),
            # the whole ISR is away: it stays, so that its members alone may lead
            (partition(0, 1, 2, 3, isr=(1, 2)), {3}, (NO_LEADER, 1, (1, 2))),
            # reassigned away from its leader
            (PartitionState(0, (2,), 1, 3, (1, 2), 0), {1, 2}, (2, 4, (2,))),
        ],
    )
    def test_decision(
        self,
        before: PartitionState,
        live: set[int],
        after: tuple[int, int, tuple[int, ...]] | None,
    ) -> None:
        decided = decide_leader(before, live)
        if after is None:
            assert decided is None
        else:
            assert decided is not None
            assert (decided.leader, decided.leader_epoch, decided.isr) == after
            assert decided.zk_version == before.zk_version, "the write is conditional on it"

    def test_a_restarted_leader_leads_under_a_new_epoch(self) -> None:
        decided = decide_leader(partition(0, 1, epoch=7), {1}, {1})
        assert decided is not None
        assert (decided.leader, decided.leader_epoch) == (1, 8)

    def test_a_restarted_follower_changes_nothing(self) -> None:
        assert decide_leader(partition(0, 1, 2), {1, 2}, {2}) is None

    def test_a_lost_state_znode_does_not_take_the_epoch_back(self) -> None:
        lost = partition(0, 1, epoch=9)._replace(leader=NO_LEADER, zk_version=-1)
        decided = decide_leader(lost, {1})
        assert decided is not None
        assert decided.leader_epoch == 10


class TestDecisions:
    @pytest.mark.parametrize(
        ("before", "live", "leaving", "after"),
        [
            # what it leads goes to the next one in sync, and it is in sync no more
            (partition(0, 1, 2, 3), LIVE, {1}, (2, (2, 3))),
            # where it follows it leaves the ISR
            (partition(0, 2, 1, 3), LIVE, {1}, (2, (2, 3))),
            # nobody else is in sync: it leads until it is gone
            (partition(0, 1, 2, isr=(1,)), LIVE, {1}, None),
            # all of them go at once: somebody stays
            (partition(0, 1, 2), LIVE, {1, 2}, None),
            # a new partition is not given to it
            (unwritten(0, 1, 2), LIVE, {1}, (2, (1, 2))),
        ],
    )
    def test_brokers_that_shut_down(
        self,
        before: PartitionState,
        live: set[int],
        leaving: set[int],
        after: tuple[int, tuple[int, ...]] | None,
    ) -> None:
        assert told(decide_leader(before, live, shutting_down=leaving)) == after

    @pytest.mark.parametrize(
        ("before", "restarted_replicas", "after"),
        [
            (partition(0, 1, 2, 3), {1}, (2, (2, 3))),
            (partition(0, 1, 2, 3), {3}, (1, (1, 2))),
            (partition(0, 1, 2, leader=2, isr=(2,)), {2}, None),
            (partition(0, 1, 2), {1, 2}, None),
        ],
    )
    def test_restarted_replicas(
        self,
        before: PartitionState,
        restarted_replicas: set[int],
        after: tuple[int, tuple[int, ...]] | None,
    ) -> None:
        assert told(decide_leader(before, LIVE, restarted_replicas=restarted_replicas)) == after

    @pytest.mark.parametrize(
        ("live", "unreported", "after"),
        [
            # it may lead, but the others count until it said that it has what it counts for
            ({1}, {1}, (1, (1, 2, 3))),
            ({1}, set(), (1, (1,))),
            ({1, 2}, {1, 2}, (1, (1, 2, 3))),
            # one is well: it leads, and who is away is in sync no more
            ({1, 2}, {1}, (2, (1, 2))),
            (LIVE, {1, 2, 3}, (1, (1, 2, 3))),
        ],
    )
    def test_unreported_brokers(
        self, live: set[int], unreported: set[int], after: tuple[int, tuple[int, ...]]
    ) -> None:
        nobody_leads = partition(0, 1, 2, 3, leader=NO_LEADER)
        assert told(decide_leader(nobody_leads, live, unreported=unreported)) == after

    def test_an_isr_of_unreported_brokers_drops_reassigned_replicas(self) -> None:
        moved = PartitionState(0, (1, 2), NO_LEADER, 0, (1, 2, 3), 0)
        assert told(decide_leader(moved, {1}, unreported={1})) == (1, (1, 2))

    def test_a_restarted_leader_is_replaced(self) -> None:
        decided = decide_leader(partition(0, 1, 2, 3, epoch=4), LIVE, {1})
        assert decided is not None
        assert (decided.leader, decided.leader_epoch, decided.isr) == (2, 5, (1, 2, 3))

    def test_unclean_only_where_it_is_allowed_and_nobody_in_sync_lives(self) -> None:
        before = partition(0, 1, 2, 3, isr=(1,))
        assert told(decide_leader(before, {2, 3})) == (NO_LEADER, (1,))
        assert told(decide_leader(before, {2, 3}, unclean=True)) == (2, (2,))
        assert told(decide_leader(before, {1, 2}, unclean=True)) is None
        assert told(decide_leader(before, set(), unclean=True)) == (NO_LEADER, (1,))

    def test_the_preferred_replica_leads_if_it_can(self) -> None:
        other = partition(0, 1, 2, leader=2, epoch=4)
        decided = decide_preferred(other, LIVE)
        assert decided is not None
        assert (decided.leader, decided.leader_epoch, decided.isr) == (1, 5, (1, 2))
        assert decide_preferred(partition(0, 1, 2), LIVE) is None
        assert decide_preferred(other, {2, 3}) is None
        assert decide_preferred(other, LIVE, {1}) is None
        assert decide_preferred(other._replace(isr=(2,)), LIVE) is None


class TestEvents:
    def state(self, *topics: TopicState, fsync: bool = True) -> ClusterState:
        return ClusterState(brokers(1, 2, 3), {each.name: each for each in topics}, fsync=fsync)

    def test_a_broker_that_shuts_down_leads_nothing_until_it_is_back(self) -> None:
        state = self.state(topic("a", partition(0, 1, 2), partition(1, 2, 3)))
        done = step(state, events.BrokerShuttingDown(1))
        (write,) = done.effects
        assert isinstance(write, WriteState)
        assert (write.state.partition, write.state.leader, write.state.isr) == (0, 2, (2,))
        back = {**brokers(1, 2, 3), 1: broker(1, epoch=999)}
        assert step(done.state, events.BrokersSeen(back)).state.shutting_down == frozenset()
        assert step(state, events.BrokerShuttingDown(9)).state == state

    def test_an_unreachable_broker_leads_nothing_until_it_is_reachable(self) -> None:
        state = self.state(topic("a", partition(0, 1, 2), partition(1, 1)))
        done = step(
            state, events.BrokerReachable(1, state.brokers[1].broker_epoch, is_reachable=False)
        )
        (write,) = done.effects
        assert isinstance(write, WriteState)
        assert (write.state.partition, write.state.leader, write.state.isr) == (0, 2, (2,))
        assert done.state.brokers == state.brokers, "its session may survive"
        again = events.BrokerReachable(1, state.brokers[1].broker_epoch, is_reachable=True)
        assert step(done.state, again).state.shutting_down == frozenset()
        for late in (
            events.BrokerReachable(1, 7, is_reachable=False),
            events.BrokerReachable(9, 90, False),
        ):
            assert step(state, late) == events.Step(state)

    def test_with_page_cache_a_restarted_broker_leaves_the_isr(self) -> None:
        again = {**brokers(1, 2, 3), 2: broker(2, epoch=999)}
        everywhere = topic("a", partition(0, 1, 2, 3), partition(1, 2))
        assert step(self.state(everywhere), events.BrokersSeen(again)).effects == (
            WriteState("a", partition(1, 2, epoch=1)),
        ), "with fsync only the leader's epoch changes"
        done = step(self.state(everywhere, fsync=False), events.BrokersSeen(again))
        writes = {w.state.partition: w.state for w in done.effects if isinstance(w, WriteState)}
        assert writes[0].isr == (1, 3)
        assert (writes[1].isr, writes[1].leader_epoch) == ((2,), 1), "the last one stays"
        assert (("a", 0), 2) in done.state.restarted_replicas, "until it is written"
        written = writes[0]._replace(zk_version=1)
        after = step(done.state, events.StatesWritten({("a", 0): written})).state
        assert (("a", 0), 2) not in after.restarted_replicas

    def test_a_topic_that_begins_to_allow_it_gets_an_unclean_leader(self) -> None:
        state = self.state(topic("a", partition(0, 1, 2, leader=NO_LEADER, isr=(1,))))
        state = replace(state, brokers=brokers(2, 3))
        configs = {"unclean.leader.election.enable": "true"}
        (write,) = step(state, events.ConfigsSeen("a", configs)).effects
        assert isinstance(write, WriteState)
        assert (write.state.leader, write.state.isr) == (2, (2,))

    def test_requested_elections(self) -> None:
        state = self.state(topic("a", partition(0, 1, 2, leader=2), partition(1, 1, 2)))
        wanted = events.ElectionsRequested((("a", 0), ("a", 1), ("a", 7), ("none", 0)))
        (write,) = step(state, wanted).effects
        assert isinstance(write, WriteState)
        assert (write.state.partition, write.state.leader) == (0, 1)

    @pytest.mark.parametrize(
        ("key", "unclean", "code"),
        [
            (("none", 0), False, ErrorCode.unknown_topic_or_partition),
            (("a", 0), False, None),
            (("a", 1), False, ErrorCode.election_not_needed),
            (("a", 2), False, ErrorCode.preferred_leader_not_available),
            (("a", 0), True, ErrorCode.election_not_needed),
            (("a", 3), True, ErrorCode.eligible_leaders_not_available),
            (("a", 4), True, None),
        ],
    )
    def test_why_an_election_is_not_held(
        self, key: tuple[str, int], unclean: bool, code: ErrorCode | None
    ) -> None:
        state = self.state(
            topic(
                "a",
                partition(0, 1, 2, leader=2),
                partition(1, 1, 2),
                partition(2, 1, 2, leader=2, isr=(2,)),
                partition(3, 8, 9, leader=NO_LEADER, isr=(8,)),
                partition(4, 8, 2, leader=NO_LEADER, isr=(8,)),
            )
        )
        error = election_problem(state, key, unclean)
        assert (None if error is None else error.code) == code

    def test_the_words_of_refused_elections(self) -> None:
        state = self.state(topic("a", partition(0, 1, 2)))
        words = {("b", 0): "No such topic as b", ("a", 9): "No such partition as a-9"}
        words["a", 0] = "Leader election not needed for topic partition."
        for key, message in words.items():
            error = election_problem(state, key, unclean=False)
            assert error is not None
            assert error.message == message

    def test_preferred_leaders_return_to_an_imbalanced_broker(self) -> None:
        away = [partition(index, 1, 2, leader=2) for index in range(3)]
        here = [partition(index, 1, 2) for index in range(3, 10)]
        unable = partition(10, 3, 2, leader=2, isr=(2,))
        state = self.state(topic("a", *away, *here, unable))
        wanted = [("a", 0), ("a", 1), ("a", 2)]
        assert find_imbalanced(state, 10) == wanted
        assert find_imbalanced(state, 30) == []
        moving = replace(state, reassigning={("a", 0): Reassignment((3,), (2,))})
        assert find_imbalanced(moving, 10) == wanted[1:]
