"""The controller's state machine against a model of ZooKeeper, under any order of events.

The model keeps the written states. Every invariant is checked after every event: a leader is alive
when elected and in the ISR it was elected from, leader epochs only grow, no two leaders share an
epoch, an ISR is never empty, no topic is purged while a broker still holds a replica.
"""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.decisions.isr_changes import decide_isr
from local_cluster.controller.decisions.reassignments import (
    PlannedReplicas,
    ReassignmentRequest,
    is_complete,
    plan_reassignment,
)
from local_cluster.controller.model import cluster_image, events
from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    UNWRITTEN,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.events import (
    ClearDeletionMark,
    CompleteReassignments,
    PurgeTopic,
    SeenTopic,
    Step,
    WriteState,
)
from local_cluster.controller.model.isr_proposals import IsrProposal
from local_cluster.wire.errors import KafkaError
from tests.unit.local_cluster.controller.samples import topic_id

BROKERS = (1, 2, 3)
TOPICS = ("a", "b")

brokers_of = st.sampled_from(BROKERS)
topics_of = st.sampled_from(TOPICS)
assignments = st.lists(
    st.lists(brokers_of, min_size=1, max_size=3, unique=True), min_size=1, max_size=3
)


class ControllerMachine(RuleBasedStateMachine):
    """Drives the state machine as the controller does, with a dictionary for ZooKeeper."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.zxid = 1
        self.live: dict[int, int] = {}
        """Broker epoch by id."""
        self.seen: dict[str, SeenTopic] = {}
        """Topic znodes."""
        self.written: dict[TopicPartition, PartitionState] = {}
        """State znodes."""
        self.epochs: dict[TopicPartition, int] = {}
        """Highest leader epoch so far."""
        self.reigns: dict[tuple[TopicPartition, int], int] = {}
        """Broker epoch of the leader of each leader epoch."""
        self.marks: set[str] = set()
        self.holders: dict[str, set[int]] = {}

    # -- events -----------------------------------------------------------------------------

    @rule(broker=brokers_of)
    def register(self, broker: int) -> None:
        self.zxid += 1
        self.live[broker] = self.zxid
        self.run(events.BrokersSeen(self.endpoints()))

    @rule(broker=brokers_of)
    def die(self, broker: int) -> None:
        self.live.pop(broker, None)
        self.run(events.BrokersSeen(self.endpoints()))

    @rule(name=topics_of, replicas=assignments)
    def create(self, name: str, replicas: list[list[int]]) -> None:
        if name in self.seen:
            return
        self.seen[name] = SeenTopic(
            topic_id(name), {i: tuple(ids) for i, ids in enumerate(replicas)}, {}
        )
        self.holders[name] = {broker for ids in replicas for broker in ids}
        self.run(events.TopicsSeen({name: self.seen[name]}))

    @rule(name=topics_of, replicas=st.lists(brokers_of, min_size=1, max_size=3, unique=True))
    def add_partition(self, name: str, replicas: list[int]) -> None:
        if name not in self.seen or name in self.marks:
            return
        grown = {**self.seen[name].replicas, len(self.seen[name].replicas): tuple(replicas)}
        self.seen[name] = dataclasses.replace(self.seen[name], replicas=grown)
        self.holders[name] |= set(replicas)
        self.run(events.TopicsSeen({name: self.seen[name]}))

    @rule(name=topics_of)
    def mark(self, name: str) -> None:
        self.marks.add(name)
        self.run(events.DeletionsMarked(frozenset(self.marks)))

    @rule(broker=brokers_of)
    def delete_replicas(self, broker: int) -> None:
        if broker not in self.live:
            return
        confirmed = list(self.state.deletions)
        for name in confirmed:
            self.holders[name].discard(broker)
        ids = frozenset(self.state.deletions[name].topic.topic_id for name in confirmed)
        self.run(events.ReplicasDeleted(broker, ids))

    @rule(broker=brokers_of)
    def leave(self, broker: int) -> None:
        self.run(events.BrokerShuttingDown(broker))

    @rule(broker=brokers_of, answers=st.booleans())
    def answer(self, broker: int, answers: bool) -> None:
        """The controller reaches a broker, or its port refuses connections."""
        self.run(events.BrokerReachable(broker, self.live.get(broker, -1), answers))

    @rule(data=st.data(), broker=brokers_of)
    def report(self, data: st.DataObject, broker: int) -> None:
        """A broker reports its offline replicas."""
        keys = sorted((n, p) for n, t in self.state.topics.items() for p in t.partitions)
        offline = data.draw(st.sets(st.sampled_from(keys), max_size=3)) if keys else set()
        self.run(
            events.OfflineReplicasReported(broker, self.live.get(broker, -1), frozenset(offline))
        )

    @precondition(lambda self: self.state.topics)
    @rule(data=st.data())
    def propose_isr(self, data: st.DataObject) -> None:
        """A leader proposes an ISR; its followers may have caught up or fallen behind."""
        keys = [(n, p) for n, t in self.state.topics.items() for p in t.partitions]
        if not keys:
            return
        name, index = data.draw(st.sampled_from(sorted(keys)))
        known = self.state.topics[name].partitions[index]
        isr = data.draw(st.sets(st.sampled_from(known.replicas))) | {known.leader}
        proposal = IsrProposal(
            topic_id(name),
            index,
            known.leader_epoch,
            tuple((replica, self.live.get(replica, -1)) for replica in sorted(isr)),
            known.zk_version,
        )
        try:
            decided = decide_isr(self.state, known, known.leader, proposal)
        except KafkaError:
            return
        if (name, index) in self.state.restarted_leaders:
            return
        self.run_all([self.write(WriteState(name, decided), proposed=True)])

    @precondition(lambda self: self.state.topics)
    @rule(data=st.data(), wanted=st.lists(brokers_of, max_size=3, unique=True))
    def move(self, data: st.DataObject, wanted: list[int]) -> None:
        name = data.draw(st.sampled_from(sorted(self.state.topics)))
        if not self.state.topics[name].partitions:
            return
        index = data.draw(st.sampled_from(sorted(self.state.topics[name].partitions)))
        request = ReassignmentRequest(name, index, tuple(wanted) or None)
        try:
            plan = plan_reassignment(self.state, request)
        except KafkaError:
            return
        known = self.state.topics[name].partitions[index]
        last = set(known.isr) & set(known.replicas) & self.well((name, index))
        assert not last or last & set(plan.replicas), "no complete replica is left"
        self.assign(name, {index: plan})
        self.run(events.TopicsSeen({name: self.seen[name]}))

    def assign(self, name: str, plans: dict[int, PlannedReplicas]) -> None:
        """Write replicas into the topic's znode, as the controller does."""
        seen = self.seen[name]
        replicas = {**seen.replicas, **{i: plan.replicas for i, plan in plans.items()}}
        moving = {i: each for i, each in seen.reassigning.items() if i not in plans}
        moving |= {i: p.reassignment for i, p in plans.items() if p.reassignment is not None}
        self.seen[name] = SeenTopic(seen.topic_id, replicas, seen.configs, moving)
        # A broker that a completed reassignment removes deletes its replica by itself.
        self.holders[name] = {r for ids in replicas.values() for r in ids}

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def leader_shrinks_isr(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.written)))
        stored = self.written[key]
        if stored.leader == NO_LEADER:
            return
        shrunk = stored._replace(isr=(stored.leader,), zk_version=stored.zk_version + 1)
        self.written[key] = shrunk  # the controller has not noticed: its next write conflicts

    @rule()
    def controller_fails_over(self) -> None:
        self.state = ClusterState()
        self.load()

    @rule()
    def connection_comes_back(self) -> None:
        self.load()

    # -- the model --------------------------------------------------------------------------

    def online_brokers(self, key: TopicPartition) -> set[int]:
        """Return the live brokers, without those whose replica is offline."""
        return {each for each in self.live if key not in self.state.offline.get(each, ())}

    def well(self, key: TopicPartition) -> set[int]:
        """Return those of them that have reported."""
        return self.online_brokers(key) - self.state.unreported

    def endpoints(self) -> dict[int, BrokerEndpoints]:
        return {
            broker: BrokerEndpoints(broker, None, {"P": ("h", broker)}, epoch)
            for broker, epoch in self.live.items()
        }

    def load(self) -> None:
        topics = {}
        for name, seen in self.seen.items():
            partitions = {
                index: self.written[name, index]._replace(replicas=ids)
                if (name, index) in self.written
                else cluster_image.unwritten_partition(index, ids)
                for index, ids in seen.replicas.items()
            }
            topics[name] = TopicState(name, seen.topic_id, partitions, {})
        moving = {
            (name, index): each
            for name, seen in self.seen.items()
            for index, each in seen.reassigning.items()
        }
        marks, restarted_leaders = frozenset(self.marks), self.restarted_leaders()
        self.run(
            events.Loaded(self.endpoints(), topics, marks, restarted_leaders, reassigning=moving)
        )

    def restarted_leaders(self) -> frozenset[TopicPartition]:
        return frozenset(
            key
            for key, stored in self.written.items()
            if self.live.get(stored.leader, 0) > self.reigns.get((key, stored.leader_epoch), 0)
        )

    def run(self, event: events.Event) -> None:
        self.run_all([event])

    def run_all(self, pending: list[events.Event]) -> None:
        while pending:
            done = step(self.state, pending.pop(0))
            self.state = done.state
            self.check_finished(done)
            for effect in done.effects:
                if isinstance(effect, WriteState):
                    pending.append(self.write(effect))
                elif isinstance(effect, CompleteReassignments):
                    plans = {i: PlannedReplicas(r, None) for i, r in effect.replicas.items()}
                    self.assign(effect.topic, plans)
                    pending.append(events.TopicsSeen({effect.topic: self.seen[effect.topic]}))
                elif isinstance(effect, PurgeTopic):
                    assert not self.holders[effect.name], "a broker still holds a replica"
                    self.erase(effect.name)
                    pending.append(events.TopicPurged(effect.name))
                else:
                    assert isinstance(effect, ClearDeletionMark)
                    assert effect.name not in self.seen
                    self.marks.discard(effect.name)

    def write(self, effect: WriteState, *, proposed: bool = False) -> events.Event:
        key = (effect.topic, effect.state.partition)
        stored = self.written.get(key)
        version = UNWRITTEN if stored is None else stored.zk_version
        if effect.state.zk_version != version:
            assert stored is not None
            read = stored._replace(replicas=effect.state.replicas)
            return events.StatesRead({key: read})
        if proposed:
            assert stored is not None
            # The znode does not name the replicas: a later reassignment is only in memory.
            unchanged = stored._replace(replicas=effect.state.replicas)
            assert effect.state._replace(isr=stored.isr) == unchanged, "only the ISR changes"
            assert effect.state.leader in effect.state.isr
        else:
            self.check_write(key, stored, effect.state)
        now = effect.state._replace(zk_version=version + 1)
        self.written[key] = now
        return events.StatesWritten({key: now})

    def check_write(
        self, key: TopicPartition, before: PartitionState | None, after: PartitionState
    ) -> None:
        assert after.isr, "the last in-sync replica stays"
        assert after.leader_epoch > self.epochs.get(key, -1), "leader epochs only grow"
        self.epochs[key] = after.leader_epoch
        if before is not None:
            assert set(after.isr) <= set(before.isr), "the controller adds no broker to the ISR"
            if not set(after.isr) >= set(before.isr) & set(after.replicas):
                assert set(after.isr) & self.well(key), "a removed member is not the last one"
        if after.leader != NO_LEADER:
            assert after.leader in self.live
            assert after.leader in after.isr
            assert before is None or after.leader in before.isr
            self.reigns[key, after.leader_epoch] = self.live[after.leader]

    def check_finished(self, done: Step) -> None:
        """A removed broker deletes its replica: another complete replica must be alive."""
        changing = {
            (effect.topic, effect.state.partition)
            for effect in done.effects
            if isinstance(effect, WriteState)
        }
        for effect in done.effects:
            if isinstance(effect, CompleteReassignments):
                for index, replicas in effect.replicas.items():
                    known = done.state.topics[effect.topic].partitions[index]
                    assert set(replicas) & set(known.isr) & self.well((effect.topic, index))
                    assert (effect.topic, index) not in changing

    def erase(self, name: str) -> None:
        del self.seen[name]
        self.marks.discard(name)
        for key in [key for key in self.written if key[0] == name]:
            del self.written[key]
            del self.epochs[key]

    # -- invariants -------------------------------------------------------------------------

    @invariant()
    def knows_what_is_written(self) -> None:
        for name, topic in self.state.topics.items():
            for index, known in topic.partitions.items():
                stored = self.written.get((name, index))
                if stored is None:
                    assert known.zk_version == UNWRITTEN
                elif stored.zk_version == known.zk_version:
                    assert stored._replace(replicas=known.replicas) == known

    @invariant()
    def leaders_live_by_their_present_registration(self) -> None:
        for name, topic in self.state.topics.items():
            for index, known in topic.partitions.items():
                if known.leader == NO_LEADER:
                    continue
                reign = self.reigns[(name, index), known.leader_epoch]
                assert self.live[known.leader] == reign

    @invariant()
    def a_partition_with_a_live_isr_member_has_a_leader(self) -> None:
        for name, topic in self.state.topics.items():
            for known in topic.partitions.values():
                in_sync = known.isr if known.zk_version != UNWRITTEN else known.replicas
                able = (
                    set(known.replicas)
                    & set(in_sync)
                    & self.online_brokers((name, known.partition))
                )
                assert (known.leader != NO_LEADER) == bool(able)

    @invariant()
    def reassignments_complete_when_added_replicas_are_in_sync(self) -> None:
        for (name, index), moving in self.state.reassigning.items():
            known = self.state.topics[name].partitions[index]
            assert not is_complete(known, moving, self.well((name, index)))
            assert set(moving.adding) | set(moving.removing) <= set(known.replicas)

    @invariant()
    def removed_replicas_are_not_in_sync(self) -> None:
        for name, topic in self.state.topics.items():
            for known in topic.partitions.values():
                moved = set(known.isr) - set(known.replicas)
                able = self.online_brokers((name, known.partition))
                assert not moved or not set(known.isr) & set(known.replicas) & able

    @invariant()
    def marked_topics_are_hidden(self) -> None:
        assert not self.marks & self.state.topics.keys()


TestController = ControllerMachine.TestCase
