"""Brokers that register, go, restart, and report offline replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    BrokerEndpoints,
)
from local_cluster.controller.model.cluster_state import ClusterState, Reassignment
from local_cluster.controller.model.events import (
    BrokersSeen,
    CompleteReassignments,
    ElectionsRequested,
    Loaded,
    OfflineReplicasReported,
    StatesRead,
    StatesWritten,
    Step,
    WriteState,
)
from tests.unit.local_cluster.controller.decisions.states import led, state_of, written
from tests.unit.local_cluster.controller.samples import (
    broker,
    brokers,
    partition,
    topic,
    unwritten,
)


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
