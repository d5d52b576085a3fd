"""The decisions of the controller, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local_cluster.controller.decisions.elections import decide_leader
from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.cluster_state import ClusterState, Reassignment, TopicDeletion
from local_cluster.controller.model.events import (
    BrokersSeen,
    ClearDeletionMark,
    CompleteReassignments,
    ConfigsSeen,
    DeletionsMarked,
    ElectionsRequested,
    Loaded,
    OfflineReplicasReported,
    PurgeTopic,
    ReplicasDeleted,
    SeenTopic,
    StatesRead,
    StatesWritten,
    Step,
    TopicPurged,
    TopicsSeen,
    WriteState,
)
from tests.unit.local_cluster.controller.samples import (
    broker,
    brokers,
    partition,
    topic,
    topic_id,
    unwritten,
)


def state_of(live: tuple[int, ...], *topics: TopicState) -> ClusterState:
    return ClusterState(brokers(*live), {each.name: each for each in topics})


def written(done: Step) -> ClusterState:
    """Return the state after the decided writes."""
    writes = [effect for effect in done.effects if isinstance(effect, WriteState)]
    return step(
        done.state, StatesWritten({(w.topic, w.state.partition): w.state for w in writes})
    ).state


def led(state: ClusterState) -> tuple[int, int, tuple[int, ...]]:
    """Return leader, epoch and ISR of partition 0 of topic a."""
    known = state.topics["a"].partitions[0]
    return known.leader, known.leader_epoch, known.isr


def seen(name: str, replicas: dict[int, tuple[int, ...]], **configs: str) -> SeenTopic:
    return SeenTopic(topic_id(name), replicas, configs)


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


class TestLoaded:
    """A term begins."""

    def test_a_healthy_partition_is_not_written(self) -> None:
        done = step(ClusterState(), Loaded(brokers(1), {"a": topic("a", partition(0, 1))}))
        assert done.effects == ()
        assert done.state.topics["a"].partitions[0].leader == 1

    def test_missing_states_and_dead_leaders_are_repaired(self) -> None:
        loaded = Loaded(brokers(1), {"a": topic("a", unwritten(0, 1), partition(1, 2, epoch=3))})
        done = step(ClusterState(), loaded)
        writes = {w.state.partition: w.state for w in done.effects if isinstance(w, WriteState)}
        assert (writes[0].leader, writes[0].leader_epoch) == (1, 0)
        assert (writes[1].leader, writes[1].leader_epoch) == (NO_LEADER, 4)

    def test_leaders_are_adopted_only_once_written(self) -> None:
        done = step(ClusterState(), Loaded(brokers(1), {"a": topic("a", unwritten(0, 1))}))
        assert done.state.topics["a"].partitions[0].leader == NO_LEADER

    def test_a_leader_that_registered_after_its_election_is_elected_again(self) -> None:
        topics = {"a": topic("a", partition(0, 1, epoch=2), partition(1, 1, epoch=2))}
        done = step(
            ClusterState(), Loaded(brokers(1), topics, restarted_leaders=frozenset({("a", 1)}))
        )
        (write,) = done.effects
        assert isinstance(write, WriteState)
        assert (write.state.partition, write.state.leader, write.state.leader_epoch) == (1, 1, 3)

    def test_a_broker_that_restarted_while_the_connection_was_lost(self) -> None:
        before = state_of((1,), topic("a", partition(0, 1)))
        again = Loaded({1: broker(1, epoch=999)}, before.topics)
        (write,) = step(before, again).effects
        assert isinstance(write, WriteState)
        assert write.state.leader_epoch == 1

    def test_marked_topics_are_not_led_again(self) -> None:
        topics = {"gone": topic("gone", unwritten(0, 1))}
        done = step(ClusterState(), Loaded(brokers(1), topics, frozenset({"gone"})))
        assert done.effects == ()
        assert done.state.deletions["gone"].waiting == {1}
        assert "gone" not in done.state.topics

    def test_every_broker_confirms_again_after_a_reload(self) -> None:
        state = ClusterState(
            brokers(1, 2), {}, {"d": TopicDeletion(topic("d", partition(0, 1, 2)), frozenset({2}))}
        )
        again = Loaded(brokers(1, 2), {"d": topic("d", partition(0, 1, 2))}, frozenset({"d"}))
        assert step(state, again).state.deletions["d"].waiting == {1, 2}


class TestBrokers:
    """Brokers register, go and come back."""

    def test_a_death_touches_only_its_partitions(self) -> None:
        state = state_of((1, 2), topic("a", partition(0, 1), partition(1, 2)))
        done = step(state, BrokersSeen(brokers(1)))
        (write,) = done.effects
        assert write == WriteState("a", partition(1, 2, leader=-1, epoch=1, isr=(2,)))

    def test_a_return_elects_again(self) -> None:
        state = state_of((1,), topic("a", partition(0, 2, leader=-1, epoch=1, isr=(2,))))
        (write,) = step(state, BrokersSeen(brokers(1, 2))).effects
        assert write == WriteState("a", partition(0, 2, epoch=2))

    def test_the_first_broker_leads_waiting_partitions(self) -> None:
        state = state_of((), topic("a", unwritten(0, 5)))
        (write,) = step(state, BrokersSeen(brokers(5))).effects
        assert isinstance(write, WriteState)
        assert write.state.leader == 5

    def test_a_quick_restart_is_seen_by_the_epoch(self) -> None:
        state = state_of((1, 2), topic("a", partition(0, 1), partition(1, 2)))
        done = step(state, BrokersSeen({1: broker(1, epoch=500), 2: broker(2)}))
        (write,) = done.effects
        assert write == WriteState("a", partition(0, 1, epoch=1))

    def test_a_restart_is_remembered_when_its_write_conflicts(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1)))
        restarted = step(state, BrokersSeen({1: broker(1, epoch=500)})).state
        theirs = partition(0, 1, version=8)
        (write,) = step(restarted, StatesRead({("a", 0): theirs})).effects
        assert write == WriteState("a", partition(0, 1, epoch=1, version=8))
        written = step(restarted, StatesWritten({("a", 0): partition(0, 1, epoch=1, version=9)}))
        assert written.state.restarted_leaders == frozenset()

    def test_a_moved_listener_elects_nobody(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1)))
        moved = {1: broker(1, rack="elsewhere")}
        done = step(state, BrokersSeen(moved))
        assert done.effects == ()
        assert done.state.brokers == moved


class TestTopics:
    """Topics appear, grow, change and vanish."""

    def test_a_new_topic_is_led(self) -> None:
        done = step(state_of((1, 2)), TopicsSeen({"a": seen("a", {0: (1,), 1: (2,)})}))
        assert [w.state.leader for w in done.effects if isinstance(w, WriteState)] == [1, 2]

    def test_seeing_it_again_writes_nothing(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1)))
        done = step(state, TopicsSeen({"a": seen("a", {0: (1,)})}))
        assert done.effects == ()
        assert done.state.topics == state.topics

    def test_new_partitions_are_led_and_old_ones_kept(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1, epoch=3, version=3)))
        done = step(state, TopicsSeen({"a": seen("a", {0: (1,), 1: (1,)})}))
        (write,) = done.effects
        assert isinstance(write, WriteState)
        assert write.state.partition == 1
        assert done.state.topics["a"].partitions[0].leader_epoch == 3

    def test_another_id_is_another_topic(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1, epoch=3)))
        other = SeenTopic(topic_id("other"), {0: (1,)}, {})
        done = step(state, TopicsSeen({"a": other}))
        assert done.state.topics["a"].partitions[0] == unwritten(0, 1)
        assert len(done.effects) == 1

    def test_a_vanished_topic_is_forgotten_without_a_delete_record(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1)))
        done = step(state, TopicsSeen({"a": None}))
        assert done.state.topics == {}
        assert done.state.deletions == {}
        assert done.effects == ()

    def test_a_topic_being_deleted_does_not_come_back(self) -> None:
        marked = step(
            state_of((1,), topic("a", partition(0, 1))), DeletionsMarked(frozenset("a"))
        ).state
        done = step(marked, TopicsSeen({"a": seen("a", {0: (1,), 1: (1,)})}))
        assert done.state == marked
        assert done.effects == ()

    def test_configs_are_replaced(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1), retention_ms="1"))
        done = step(state, ConfigsSeen("a", {"segment.ms": "2"}))
        assert done.state.topics["a"].configs == {"segment.ms": "2"}
        assert step(state, ConfigsSeen("unknown", {})).state == state


class TestStates:
    """State writes are confirmed, or another writer was faster."""

    def test_written_states_are_adopted(self) -> None:
        state = state_of((1,), topic("a", unwritten(0, 1)))
        done = step(state, StatesWritten({("a", 0): partition(0, 1, version=0)}))
        assert done.state.topics["a"].partitions[0] == partition(0, 1)
        assert done.effects == ()

    def test_a_write_for_a_deleted_topic_is_dropped(self) -> None:
        state = state_of((1,))
        done = step(state, StatesWritten({("a", 0): partition(0, 1)}))
        assert done.state == state

    def test_states_of_other_writers_are_adopted_and_checked(self) -> None:
        state = state_of((1, 2), topic("a", partition(0, 1, 2)))
        theirs = partition(0, 1, 2, epoch=1, isr=(1,), version=5)
        assert step(state, StatesRead({("a", 0): theirs})).effects == ()
        dead = partition(0, 3, 2, epoch=1, version=5)
        (write,) = step(state, StatesRead({("a", 0): dead})).effects
        assert isinstance(write, WriteState)
        assert (write.state.leader, write.state.zk_version) == (2, 5)


class TestDeletion:
    """A topic is marked, confirmed by its brokers, purged."""

    def test_the_whole_way(self) -> None:
        state = state_of((1, 2), topic("a", partition(0, 1), partition(1, 2)))
        done = step(state, DeletionsMarked(frozenset({"a"})))
        assert "a" not in done.state.topics, "it is hidden"
        assert done.effects == (), "no purge before the replicas are deleted"
        done = step(done.state, ReplicasDeleted(1, frozenset({topic_id("a")})))
        assert done.effects == ()
        assert done.state.deletions["a"].waiting == {2}
        done = step(done.state, ReplicasDeleted(2, frozenset({topic_id("a")})))
        assert done.effects == (PurgeTopic("a"),)
        assert "a" in done.state.deletions, "until the znodes are gone"
        assert step(done.state, TopicPurged("a")).state.deletions == {}

    def test_a_broker_that_is_away_is_waited_for(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1), partition(1, 2)))
        done = step(state, DeletionsMarked(frozenset({"a"})))
        done = step(done.state, ReplicasDeleted(1, frozenset({topic_id("a")})))
        assert done.effects == ()

    def test_a_repeated_confirmation_purges_once(self) -> None:
        state = step(
            state_of((1,), topic("a", partition(0, 1))), DeletionsMarked(frozenset("a"))
        ).state
        gone = ReplicasDeleted(1, frozenset({topic_id("a")}))
        first = step(state, gone)
        assert first.effects == (PurgeTopic("a"),)
        assert step(first.state, gone).effects == ()

    def test_another_topic_id_does_not_count(self) -> None:
        state = step(
            state_of((1,), topic("a", partition(0, 1))), DeletionsMarked(frozenset("a"))
        ).state
        done = step(state, ReplicasDeleted(1, frozenset({topic_id("b")})))
        assert done.state.deletions["a"].waiting == {1}

    def test_a_mark_without_a_topic_is_cleared(self) -> None:
        done = step(state_of((1,)), DeletionsMarked(frozenset({"nothing"})))
        assert done.effects == (ClearDeletionMark("nothing"),)

    def test_a_topic_without_partitions_goes_at_once(self) -> None:
        done = step(state_of((1,), topic("a")), DeletionsMarked(frozenset({"a"})))
        assert done.effects == (PurgeTopic("a"),)

    def test_marking_twice_waits_once(self) -> None:
        state = state_of((1,), topic("a", partition(0, 1)))
        once = step(state, DeletionsMarked(frozenset({"a"}))).state
        assert step(once, DeletionsMarked(frozenset({"a"}))).state == once

    def test_znodes_removed_by_others_end_the_deletion(self) -> None:
        state = step(
            state_of((1,), topic("a", partition(0, 1))), DeletionsMarked(frozenset("a"))
        ).state
        done = step(state, TopicsSeen({"a": None}))
        assert done.state.deletions == {}
        assert done.effects == (ClearDeletionMark("a"),)

    def test_a_dying_broker_does_not_touch_what_is_being_deleted(self) -> None:
        state = step(
            state_of((1, 2), topic("a", partition(0, 1))), DeletionsMarked(frozenset("a"))
        ).state
        assert step(state, BrokersSeen(brokers(2))).effects == ()


class TestOfflineReplicasReported:
    """A live broker with a failed disk: its replicas there are offline."""

    A = partition(0, 1, 2, 3)
    B = partition(1, 1, 2, 3)
    ILL = OfflineReplicasReported(1, 10, frozenset({("a", 0)}))

    def test_an_offline_replica_neither_leads_nor_is_in_sync(self) -> None:
        done = step(state_of((1, 2, 3), topic("a", self.A, self.B)), self.ILL)
        (write,) = done.effects
        assert isinstance(write, WriteState)
        decided = write.state
        assert (decided.partition, decided.leader, decided.isr) == (0, 2, (2, 3))
        assert decided.leader_epoch == self.A.leader_epoch + 1
        assert step(done.state, self.ILL).effects == (), "a repeated report"

    def test_the_last_isr_member_stays(self) -> None:
        alone = partition(0, 1, 2, 3, isr=(1,))
        (write,) = step(state_of((1, 2, 3), topic("a", alone)), self.ILL).effects
        assert isinstance(write, WriteState)
        assert (write.state.leader, write.state.isr) == (NO_LEADER, (1,))

    def test_a_replica_that_is_back_leads_again(self) -> None:
        alone = partition(0, 1, leader=NO_LEADER, epoch=4)
        ill = step(state_of((1, 2), topic("a", alone)), self.ILL)
        assert ill.effects == ()
        (write,) = step(ill.state, OfflineReplicasReported(1, 10, frozenset())).effects
        assert isinstance(write, WriteState)
        assert (write.state.leader, write.state.leader_epoch) == (1, 5)

    def test_a_damaged_replica_that_is_back_first_is_not_alone_in_the_isr(self) -> None:
        away = partition(0, 1, 2, 3, leader=NO_LEADER, epoch=4)
        alone = written(step(state_of((), topic("a", away)), BrokersSeen(brokers(1))))
        assert alone.unreported == {1}
        assert led(alone) == (1, 5, (1, 2, 3))
        ill = written(step(alone, self.ILL))
        assert ill.unreported == frozenset()
        assert led(ill) == (NO_LEADER, 6, (1, 2, 3))
        back = written(step(ill, BrokersSeen(brokers(1, 2))))
        assert led(back) == (2, 7, (1, 2, 3))
        assert led(written(step(back, OfflineReplicasReported(2, 20, frozenset())))) == (2, 8, (2,))

    def test_a_healthy_replica_that_is_back_first_is_alone_in_the_isr(self) -> None:
        away = partition(0, 1, 2, 3, leader=NO_LEADER, epoch=4)
        alone = written(step(state_of((), topic("a", away)), BrokersSeen(brokers(1))))
        well = OfflineReplicasReported(1, 10, frozenset())
        heard = written(step(alone, well))
        assert led(heard) == (1, 6, (1,))
        assert step(heard, well) == Step(heard), "a repeated report"

    @pytest.mark.parametrize("leader", [NO_LEADER, 1])
    def test_no_broker_has_reported_to_a_new_controller(self, leader: int) -> None:
        """Reports to the last controller ended with its term."""
        away = partition(0, 1, 2, leader=leader, epoch=4)
        moving = {("a", 0): Reassignment(adding=(1,), removing=(2,))}
        loaded = Loaded(brokers(1), {"a": topic("a", away)}, reassigning=moving)
        begun = written(step(ClusterState(), loaded))
        assert begun.unreported == {1}
        assert led(begun) == (1, 4 if leader == 1 else 5, (1, 2))
        ill = step(begun, self.ILL)
        assert not [each for each in ill.effects if isinstance(each, CompleteReassignments)]
        assert led(written(ill))[2] == (1, 2), "the other replica may be complete"
        assert led(written(step(begun, OfflineReplicasReported(1, 10, frozenset()))))[2] == (1,)

    def test_a_report_holds_for_the_term(self) -> None:
        begun = written(step(ClusterState(), Loaded(brokers(1, 2), {"a": topic("a", self.A)})))
        heard = written(step(begun, OfflineReplicasReported(1, 10, frozenset())))
        again = Loaded({**brokers(1), 2: broker(2, epoch=21)}, heard.topics)
        assert step(heard, again).state.unreported == {2}

    def test_a_report_of_an_old_broker_epoch_is_ignored(self) -> None:
        late = OfflineReplicasReported(1, 9, frozenset({("a", 0)}))
        state = state_of((1, 2, 3), topic("a", self.A))
        assert step(state, late) == Step(state)
        gone = OfflineReplicasReported(4, 40, frozenset({("a", 0)}))
        assert step(state, gone) == Step(state)

    @pytest.mark.parametrize("back", [{}, {1: broker(1, epoch=11)}])
    def test_a_broker_that_goes_or_restarts_reports_again(
        self, back: dict[int, BrokerEndpoints]
    ) -> None:
        ill = step(state_of((1, 2, 3), topic("a", self.A)), self.ILL).state
        assert step(ill, BrokersSeen({**brokers(2, 3), **back})).state.offline == {}
        assert step(ill, BrokersSeen(brokers(1, 2))).state.offline == {1: {("a", 0)}}
        topics = {"a": topic("a", self.A)}
        assert step(ill, Loaded({**brokers(2, 3), **back}, topics)).state.offline == {}
        assert step(ill, Loaded(brokers(1, 2, 3), topics)).state.offline == {1: {("a", 0)}}

    def test_new_partitions_and_requested_elections_skip_offline_replicas(self) -> None:
        state = step(state_of((1, 2), topic("a", self.A)), self.ILL).state
        for unclean in (False, True):
            led = replace(
                state, topics={"a": topic("a", partition(0, 1, 2, leader=2 if not unclean else -1))}
            )
            wanted = step(led, ElectionsRequested((("a", 0),), unclean))
            leaders = [w.state.leader for w in wanted.effects if isinstance(w, WriteState)]
            assert leaders == ([2] if unclean else [])
        fresh = replace(state, topics={"a": topic("a", unwritten(0, 1, 2))})
        (write,) = step(fresh, BrokersSeen(brokers(1, 2, 3))).effects or (None,)
        assert write is None, "no event touched it"
        (write,) = step(fresh, StatesRead({("a", 0): unwritten(0, 1, 2)})).effects
        assert isinstance(write, WriteState)
        assert (write.state.leader, write.state.isr) == (2, (2,))
