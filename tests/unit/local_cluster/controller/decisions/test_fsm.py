"""The decisions of the controller, event by event."""

from __future__ import annotations

from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
)
from local_cluster.controller.model.cluster_state import ClusterState, TopicDeletion
from local_cluster.controller.model.events import (
    ConfigsSeen,
    DeletionsMarked,
    Loaded,
    SeenTopic,
    StatesRead,
    StatesWritten,
    TopicsSeen,
    WriteState,
)
from tests.unit.local_cluster.controller.decisions.states import seen, state_of
from tests.unit.local_cluster.controller.samples import (
    broker,
    brokers,
    partition,
    topic,
    topic_id,
    unwritten,
)


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
