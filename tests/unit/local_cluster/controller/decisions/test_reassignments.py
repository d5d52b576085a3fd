"""Reassignments: the plan of a request, and completion."""

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
    def test_removed_replicas_stay_until_completion(self) -> None:
        assert plan(STILL, 4, 2) == PlannedReplicas((4, 2, 1, 3), Reassignment((4,), (1, 3)))

    def test_another_order_moves_no_replica(self) -> None:
        assert plan(STILL, 3, 2, 1) == PlannedReplicas((3, 2, 1), None)

    def test_another_target_starts_from_the_original_replicas(self) -> None:
        assert plan(MOVING, 5, 2, 3) == PlannedReplicas((5, 2, 3, 1), Reassignment((5,), (1,)))

    @pytest.mark.parametrize("target", [(7, 8, 9), (7, 2, 3)])
    def test_another_target_keeps_joined_replicas_until_completion(
        self, target: tuple[int, ...]
    ) -> None:
        """The original replicas are out of sync: only 4 and 5 are complete."""
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

    def test_a_cancelled_reassignment_waits_if_the_original_replicas_are_dead(self) -> None:
        known = partition(0, 4, 9, leader=4, isr=(4, 9))
        state = state_of(known, Reassignment((4,), (9,)))
        assert plan(state, cancel=True) == PlannedReplicas((9, 4), Reassignment((), (4,)))

    def test_a_cancelled_reassignment_is_reverted(self) -> None:
        assert plan(MOVING, cancel=True) == PlannedReplicas((2, 3, 1), None)

    def test_a_cancelled_reassignment_waits_if_only_added_replicas_are_in_sync(self) -> None:
        known = partition(0, 4, 1, leader=4, isr=(4,))
        state = state_of(known, Reassignment((4,), (1,)))
        assert plan(state, cancel=True) == PlannedReplicas((1, 4), Reassignment((), (4,)))

    @pytest.mark.parametrize(
        ("target", "code", "words"),
        [
            ((), ErrorCode.invalid_replica_assignment, "Empty replica list"),
            ((1, 1), ErrorCode.invalid_replica_assignment, "includes the broker 1 more than once."),
            ((1, 9), ErrorCode.invalid_replica_assignment, "includes broker 9, but no such broker"),
            (None, ErrorCode.no_reassignment_in_progress, "No partition reassignment"),
        ],
    )
    def test_refusals(self, target: tuple[int, ...] | None, code: ErrorCode, words: str) -> None:
        with pytest.raises(KafkaError) as refused:
            plan_reassignment(STILL, ReassignmentRequest("a", 0, target))
        assert refused.value.code is code
        assert words in refused.value.message

    def test_an_unknown_partition(self) -> None:
        with pytest.raises(KafkaError) as refused:
            plan_reassignment(STILL, ReassignmentRequest("a", 1, (1,)))
        assert refused.value.code is ErrorCode.unknown_topic_or_partition
        assert refused.value.message == "Unable to find partition a:1."

    def test_an_unknown_topic(self) -> None:
        with pytest.raises(KafkaError) as refused:
            plan_reassignment(STILL, ReassignmentRequest("b", 0, (1,)))
        assert refused.value.code is ErrorCode.unknown_topic_or_partition
        assert refused.value.message == "Unable to find a topic named b."

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
        # More are removed than added: all that stay must be in sync.
        ((1,), (), (1,), (1, 2, 3, 4), False),
        ((1, 2), (), (1,), (1, 2, 3, 4), False),
        ((1, 2, 3, 4), (), (1,), (1, 2, 3, 4), True),
        ((1, 2, 4), (4,), (1, 2), (1, 2, 3, 4), False),
        ((1, 3, 4), (4,), (1, 2), (1, 2, 3, 4), True),
        # A staying or added replica is dead: the removed one may be the last live one.
        ((1, 2, 3, 4), (), (1,), (1, 3, 4), False),
        ((1, 2), (2,), (1,), (1,), False),
        ((1, 2, 4), (4,), (1,), (1, 2), False),
    ],
)
def test_complete_when_added_replicas_are_in_sync_and_enough_stay(
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
    ids=["staying one dies", "staying one shuts down", "staying one died before the read"],
)
def test_the_event_that_takes_the_staying_replica_out_of_the_isr_does_not_complete(
    event: events.Event, live: tuple[int, ...]
) -> None:
    """Broker 1 would delete the only replica left in the ISR."""
    moving = {("a", 0): Reassignment((2,), (1,))}
    # Completion was not written yet: ZooKeeper was away, or the controller is new.
    known = topic("a", partition(0, 2, 1, leader=1, isr=(1, 2)))
    done = step(ClusterState(brokers(*live), {"a": known}, reassigning=moving), event)
    (write,) = done.effects
    assert isinstance(write, WriteState)
    assert write.state.isr == (1,)
    written = step(done.state, events.StatesWritten({("a", 0): write.state._replace(zk_version=9)}))
    assert written.effects == (), "broker 1 is the last complete replica"
    assert written.state.reassigning == moving


def test_no_completion_before_the_staying_broker_reports() -> None:
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


def test_completion_when_the_staying_replica_is_back_in_sync() -> None:
    alone = partition(0, 2, 1, leader=1, isr=(1,), version=3)
    moving = {("a", 0): Reassignment((2,), (1,))}
    state = ClusterState(brokers(1, 2), {"a": topic("a", alone)}, reassigning=moving)
    again = alone._replace(isr=(1, 2), zk_version=4)
    joined = step(state, events.StatesWritten({("a", 0): again}))
    assert joined.effects == (CompleteReassignments("a", {0: (2,)}),)


def test_a_change_of_one_partition_checks_no_other_reassignment() -> None:
    """With thousands in progress, each step of each of them would check all."""

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


def test_after_completion_the_removed_replica_neither_leads_nor_is_in_sync() -> None:
    joined = partition(0, 4, 2, 3, 1, leader=1, isr=(1, 2, 3, 4), version=3)
    done = step(MOVING, events.StatesWritten({("a", 0): joined}))
    assert done.effects == (CompleteReassignments("a", {0: (4, 2, 3)}),)
    # The shell wrote the topic's znode.
    noted = step(done.state, events.TopicsSeen({"a": SeenTopic(topic_id("a"), {0: (4, 2, 3)}, {})}))
    assert not noted.state.reassigning
    (write,) = noted.effects
    assert isinstance(write, WriteState)
    assert (write.state.leader, write.state.isr, write.state.leader_epoch) == (4, (2, 3, 4), 1)


def test_the_next_controller_completes_a_reassignment() -> None:
    joined = topic("a", partition(0, 4, 2, 3, 1, leader=1, isr=(1, 2, 3, 4)))
    loaded = events.Loaded(
        brokers(1, 2, 3, 4),
        {"a": joined},
        reassigning={("a", 0): Reassignment((4,), (1,))},
    )
    begun = step(ClusterState(), loaded)
    assert begun.effects == (), "no broker has reported yet"
    heard = step(begun.state, OfflineReplicasReported(4, 40, frozenset()))
    assert heard.effects == (CompleteReassignments("a", {0: (4, 2, 3)}),)
