"""Moves of replicas: what is written when they are asked for, and when they are done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.decisions.reassignments import (
    PlannedReplicas,
    ReassignmentRequest,
    is_complete,
    plan_reassignment,
)
from local_cluster.controller.model import events
from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.controller.model.cluster_state import ClusterState, Reassignment, TopicPartition
from local_cluster.controller.model.events import (
    CompleteReassignments,
    OfflineReplicasReported,
    SeenTopic,
    WriteState,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import brokers, partition, topic, topic_id


def state_of(
    known: PartitionState, moving: Reassignment | None = None, live: int = 6
) -> ClusterState:
    return ClusterState(
        brokers(*range(1, live)),
        {"a": topic("a", known)},
        reassigning={} if moving is None else {("a", 0): moving},
    )


def plan(state: ClusterState, *target: int, cancel: bool = False) -> PlannedReplicas:
    return plan_reassignment(state, ReassignmentRequest("a", 0, None if cancel else target))


def moves(planned: PlannedReplicas) -> dict[int, Reassignment]:
    return {} if planned.reassignment is None else {0: planned.reassignment}


STILL = state_of(partition(0, 1, 2, 3))
MOVING = state_of(partition(0, 4, 2, 3, 1, leader=1, isr=(1, 2, 3)), Reassignment((4,), (1,)))


class TestPlans:
    def test_the_removed_ones_stay_until_it_is_done(self) -> None:
        assert plan(STILL, 4, 2) == PlannedReplicas((4, 2, 1, 3), Reassignment((4,), (1, 3)))

    def test_another_order_is_no_move(self) -> None:
        assert plan(STILL, 3, 2, 1) == PlannedReplicas((3, 2, 1), None)

    def test_another_target_starts_from_what_was_there_first(self) -> None:
        assert plan(MOVING, 5, 2, 3) == PlannedReplicas((5, 2, 3, 1), Reassignment((5,), (1,)))

    @pytest.mark.parametrize("target", [(7, 8, 9), (7, 2, 3)])
    def test_another_target_keeps_who_joined_until_it_is_reached(
        self, target: tuple[int, ...]
    ) -> None:
        """Who was there first is out of sync: 4 and 5 alone have what was written since."""
        known = partition(0, 4, 5, 6, 1, 2, 3, leader=4, isr=(4, 5))
        state = state_of(known, Reassignment((4, 5, 6), (1, 2, 3)), live=10)
        planned = plan(state, *target)
        gone = tuple(replica for replica in (1, 2, 3) if replica not in target)
        assert planned.replicas == (*target, 4, 5, *gone)
        seen = SeenTopic(topic_id("a"), {0: planned.replicas}, {}, moves(planned))
        begun = step(state, events.TopicsSeen({"a": seen}))
        assert begun.effects == (), "4 leads on, and the move is not done"
        known = begun.state.topics["a"].partitions[0]
        joined = known._replace(isr=(4, 5, *target), zk_version=9)
        reached = step(begun.state, events.StatesWritten({("a", 0): joined}))
        assert reached.effects == (CompleteReassignments("a", {0: target}),)

    def test_the_factor_of_another_target_is_that_of_the_one_before(self) -> None:
        known = partition(0, 4, 5, 1, leader=4, isr=(4, 5))
        state = state_of(known, Reassignment((4,), (5, 1)))
        request = ReassignmentRequest("a", 0, (2,))
        planned = plan_reassignment(state, request, may_change_factor=False)
        assert planned == PlannedReplicas((2, 4, 5, 1), Reassignment((2,), (4, 5, 1)))

    def test_a_cancelled_one_waits_where_who_was_there_is_dead(self) -> None:
        known = partition(0, 4, 9, leader=4, isr=(4, 9))
        state = state_of(known, Reassignment((4,), (9,)))
        assert plan(state, cancel=True) == PlannedReplicas((9, 4), Reassignment((), (4,)))

    def test_a_cancelled_one_goes_back(self) -> None:
        assert plan(MOVING, cancel=True) == PlannedReplicas((2, 3, 1), None)

    def test_a_cancelled_one_waits_where_only_the_added_ones_are_in_sync(self) -> None:
        known = partition(0, 4, 1, leader=4, isr=(4,))
        state = state_of(known, Reassignment((4,), (1,)))
        assert plan(state, cancel=True) == PlannedReplicas((1, 4), Reassignment((), (4,)))

    @pytest.mark.parametrize(
        ("target", "code"),
        [
            ((), ErrorCode.invalid_replica_assignment),
            ((1, 1), ErrorCode.invalid_replica_assignment),
            ((1, 9), ErrorCode.invalid_replica_assignment),
            (None, ErrorCode.no_reassignment_in_progress),
        ],
    )
    def test_refusals(self, target: tuple[int, ...] | None, code: ErrorCode) -> None:
        with pytest.raises(KafkaError) as refused:
            plan_reassignment(STILL, ReassignmentRequest("a", 0, target))
        assert refused.value.code is code

    def test_an_unknown_partition(self) -> None:
        with pytest.raises(KafkaError) as refused:
            plan_reassignment(STILL, ReassignmentRequest("a", 1, (1,)))
        assert refused.value.code is ErrorCode.unknown_topic_or_partition

    def test_the_replication_factor_may_be_kept(self) -> None:
        with pytest.raises(KafkaError) as refused:
            plan_reassignment(STILL, ReassignmentRequest("a", 0, (1,)), may_change_factor=False)
        assert refused.value.code is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize(
    ("isr", "adding", "removing", "live", "done"),
    [
        ((1, 2, 3), (4,), (1,), (1, 2, 3, 4), False),
        ((1, 2, 3, 4), (4,), (1,), (1, 2, 3, 4), True),
        ((4,), (4,), (1,), (1, 4), True),
        # More go than come: all that stay have to be in sync.
        ((1,), (), (1,), (1, 2, 3, 4), False),
        ((1, 2), (), (1,), (1, 2, 3, 4), False),
        ((1, 2, 3, 4), (), (1,), (1, 2, 3, 4), True),
        ((1, 2, 4), (4,), (1, 2), (1, 2, 3, 4), False),
        ((1, 3, 4), (4,), (1, 2), (1, 2, 3, 4), True),
        # What stays is dead, or an added one is: the removed one may be the last that lives.
        ((1, 2, 3, 4), (), (1,), (1, 3, 4), False),
        ((1, 2), (2,), (1,), (1,), False),
        ((1, 2, 4), (4,), (1,), (1, 2), False),
    ],
)
def test_done_when_the_added_ones_live_in_sync_and_enough_stay(
    isr: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    live: tuple[int, ...],
    done: bool,
) -> None:
    known = partition(0, 4, 2, 3, 1, isr=isr)
    assert is_complete(known, Reassignment(adding, removing), live) is done


@pytest.mark.parametrize(
    ("event", "live"),
    [
        (events.BrokersSeen(brokers(1, 3)), (1, 2, 3)),
        (events.BrokerShuttingDown(2), (1, 2, 3)),
        (events.StatesRead({("a", 0): partition(0, 2, 1, leader=2, isr=(1, 2))}), (1, 3)),
    ],
    ids=["who stays dies", "who stays shuts down", "who stays died before its write was read"],
)
def test_a_move_is_not_finished_by_the_event_that_takes_who_stays_out_of_the_isr(
    event: events.Event, live: tuple[int, ...]
) -> None:
    """Broker 1 would delete the only replica that is left in sync."""
    moving = {("a", 0): Reassignment((2,), (1,))}
    # Its end could not be noted yet: ZooKeeper was away, or the controller is a new one.
    known = topic("a", partition(0, 2, 1, leader=1, isr=(1, 2)))
    done = step(ClusterState(brokers(*live), {"a": known}, reassigning=moving), event)
    (write,) = done.effects
    assert isinstance(write, WriteState)
    assert write.state.isr == (1,)
    written = step(done.state, events.StatesWritten({("a", 0): write.state._replace(zk_version=9)}))
    assert written.effects == (), "broker 1 is the last that has everything"
    assert written.state.reassigning == moving


def test_a_move_is_not_finished_before_who_stays_said_what_it_can_serve() -> None:
    moving = {("a", 0): Reassignment((2,), (1,))}
    known = topic("a", partition(0, 2, 1, leader=2, isr=(1, 2)))
    state = ClusterState(brokers(2), {"a": known}, reassigning=moving, unreported=frozenset({2}))
    assert step(state, events.BrokersSeen(brokers(2))).effects == ()
    ill = step(state, events.OfflineReplicasReported(2, 20, frozenset({("a", 0)})))
    well = step(state, events.OfflineReplicasReported(2, 20, frozenset()))
    for done, isr, finished in (
        (ill, (1, 2), ()),
        (well, (2,), (CompleteReassignments("a", {0: (2,)}),)),
    ):
        (write,) = done.effects
        assert isinstance(write, WriteState)
        assert write.state.isr == isr
        written = step(done.state, events.StatesWritten({("a", 0): write.state}))
        assert written.effects == finished


def test_a_move_goes_on_when_who_stays_is_back_in_sync() -> None:
    alone = partition(0, 2, 1, leader=1, isr=(1,), version=3)
    moving = {("a", 0): Reassignment((2,), (1,))}
    state = ClusterState(brokers(1, 2), {"a": topic("a", alone)}, reassigning=moving)
    again = alone._replace(isr=(1, 2), zk_version=4)
    joined = step(state, events.StatesWritten({("a", 0): again}))
    assert joined.effects == (CompleteReassignments("a", {0: (2,)}),)


def test_a_change_of_one_partition_looks_at_no_other_move() -> None:
    """With thousands under way, each step of each of them would look at all."""

    class Moves(dict[TopicPartition, Reassignment]):
        def __iter__(self) -> Iterator[TopicPartition]:
            raise AssertionError("all moves are looked through")

        items = keys = values = __iter__  # type: ignore[assignment]

    joined = partition(0, 4, 2, 3, 1, leader=1, isr=(1, 2, 3, 4), version=3)
    many = replace(MOVING, reassigning=Moves(MOVING.reassigning))
    done = step(many, events.StatesWritten({("a", 0): joined}))
    assert done.effects == (CompleteReassignments("a", {0: (4, 2, 3)}),)
    other = topic("b", partition(0, 1))
    elsewhere = replace(many, topics={**many.topics, "b": other})
    assert step(elsewhere, events.StatesRead({("b", 0): other.partitions[0]})).effects == ()
    assert step(elsewhere, events.ConfigsSeen("b", {})).effects == ()


def test_when_it_is_done_the_removed_one_neither_leads_nor_is_in_sync() -> None:
    joined = partition(0, 4, 2, 3, 1, leader=1, isr=(1, 2, 3, 4), version=3)
    done = step(MOVING, events.StatesWritten({("a", 0): joined}))
    assert done.effects == (CompleteReassignments("a", {0: (4, 2, 3)}),)
    # The shell wrote the topic's znode.
    noted = step(done.state, events.TopicsSeen({"a": SeenTopic(topic_id("a"), {0: (4, 2, 3)}, {})}))
    assert not noted.state.reassigning
    (write,) = noted.effects
    assert isinstance(write, WriteState)
    assert (write.state.leader, write.state.isr, write.state.leader_epoch) == (4, (2, 3, 4), 1)


def test_a_next_controller_goes_on_with_it() -> None:
    joined = topic("a", partition(0, 4, 2, 3, 1, leader=1, isr=(1, 2, 3, 4)))
    loaded = events.Loaded(
        brokers(1, 2, 3, 4),
        {"a": joined},
        reassigning={("a", 0): Reassignment((4,), (1,))},
    )
    begun = step(ClusterState(), loaded)
    assert begun.effects == (), "nobody has said yet that it has what it counts for"
    heard = step(begun.state, OfflineReplicasReported(4, 40, frozenset()))
    assert heard.effects == (CompleteReassignments("a", {0: (4, 2, 3)}),)
