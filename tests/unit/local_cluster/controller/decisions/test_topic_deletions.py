"""Deletion of topics: marked, confirmed, purged."""

from __future__ import annotations

from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model.events import (
    BrokersSeen,
    ClearDeletionMark,
    DeletionsMarked,
    PurgeTopic,
    ReplicasDeleted,
    TopicPurged,
    TopicsSeen,
)
from tests.unit.local_cluster.controller.decisions.states import state_of
from tests.unit.local_cluster.controller.samples import (
    brokers,
    partition,
    topic,
    topic_id,
)


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
