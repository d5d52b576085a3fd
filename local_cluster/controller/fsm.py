"""What the controller decides: (ClusterState, Event) -> Step, without I/O.

    event             decision
    Loaded            adopt what ZooKeeper holds; begin marked deletions; elect where needed
    BrokersSeen       elect for every partition that a broker's coming or going touches
    TopicsSeen        adopt new topics and partitions and elect; forget what is no longer there
    ConfigsSeen       replace a topic's configs
    StatesWritten     adopt leaders that are now in ZooKeeper
    StatesRead        adopt what somebody else wrote, and elect again where that is not well
    DeletionsMarked   hide the topic, ask every replica's broker to delete; clear idle marks
    ReplicasDeleted   count down; erase the topic from ZooKeeper when nobody is waited for
    TopicErased       forget the deletion

Guarantees: a leader changes only through a `WriteState` that names the znode version it was
decided on, and is adopted only by `StatesWritten`; every change of leader or ISR raises the leader
epoch by one; the last in-sync replica is never removed from the ISR; a leader is always alive and
in the ISR it was elected from; a broker that registered anew leads only under a new epoch; a topic
is erased only after every broker that held a replica said so.

Not here: ZooKeeper (active_controller.py), telling the brokers (publisher.py), placement.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from local_cluster.controller.cluster_state import (
    BrokersSeen,
    ClearMark,
    ClusterState,
    ConfigsSeen,
    Deletion,
    DeletionsMarked,
    Effect,
    EraseTopic,
    Event,
    Loaded,
    ReplicasDeleted,
    SeenTopic,
    StatesRead,
    StatesWritten,
    Step,
    TopicErased,
    TopicPartition,
    TopicsSeen,
    WriteState,
)
from local_cluster.controller.model import (
    NO_EPOCH,
    NO_LEADER,
    UNWRITTEN,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)

__all__ = [
    "BrokersSeen",
    "ClearMark",
    "ClusterState",
    "ConfigsSeen",
    "Deletion",
    "DeletionsMarked",
    "Effect",
    "EraseTopic",
    "Event",
    "Loaded",
    "ReplicasDeleted",
    "SeenTopic",
    "StatesRead",
    "StatesWritten",
    "Step",
    "TopicErased",
    "TopicPartition",
    "TopicsSeen",
    "WriteState",
    "decide_leader",
    "new_partition",
    "step",
]


def step(state: ClusterState, event: Event) -> Step:
    """Decide what follows from one event."""
    match event:
        case Loaded():
            return _load(state, event)
        case BrokersSeen(brokers):
            return _see_brokers(state, brokers)
        case TopicsSeen(topics):
            return _see_topics(state, topics)
        case ConfigsSeen(name, configs):
            topic = state.topics.get(name)
            if topic is None:
                return Step(state)
            changed = replace(topic, configs=dict(configs))
            return Step(replace(state, topics={**state.topics, name: changed}))
        case StatesWritten(states):
            adopted = _adopt(state, states)
            return Step(replace(adopted, outlived=adopted.outlived - states.keys()))
        case StatesRead(states):
            adopted = _adopt(state, states)
            return Step(adopted, _elect(adopted, states))
        case DeletionsMarked(names):
            return _mark(state, names)
        case ReplicasDeleted(broker_id, topic_ids):
            return _count_down(state, broker_id, topic_ids)
        case TopicErased(name):
            deletions = {key: value for key, value in state.deletions.items() if key != name}
            return Step(replace(state, deletions=deletions))


def decide_leader(
    state: PartitionState, live: Collection[int], bounced: Collection[int] = ()
) -> PartitionState | None:
    """The state to write, None where the present one is well.

    `bounced` are live brokers that registered anew: what they led, they lead no longer.
    """
    alive = tuple(replica for replica in state.replicas if replica in live)
    if state.zk_version == UNWRITTEN:
        if not alive:
            return None
        return state._replace(leader=alive[0], leader_epoch=state.leader_epoch + 1, isr=alive)
    in_sync = tuple(replica for replica in state.isr if replica in live)
    # With nobody of the ISR alive it stays as it was: its members alone may lead later.
    isr = in_sync or state.isr
    keeps = state.leader in alive and state.leader in in_sync and state.leader not in bounced
    leader = state.leader if keeps else next((r for r in alive if r in in_sync), NO_LEADER)
    if isr == state.isr and leader == state.leader and (keeps or leader == NO_LEADER):
        return None
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)


def new_partition(partition: int, replicas: Iterable[int]) -> PartitionState:
    """A partition that has no state in ZooKeeper yet."""
    return PartitionState(partition, tuple(replicas), NO_LEADER, NO_EPOCH, (), UNWRITTEN)


def _load(state: ClusterState, event: Loaded) -> Step:
    outlived = event.outlived | _led_by(event.topics, _bounced(state.brokers, event.brokers))
    # Who has deleted its replicas is asked again: a delete record may be told twice.
    loaded = ClusterState(
        event.brokers,
        event.topics,
        {},
        outlived | state.outlived,
        state.leaving & event.brokers.keys(),
    )
    marked = _mark(loaded, event.marked)
    everything = [(n, p) for n, topic in marked.state.topics.items() for p in topic.partitions]
    return Step(marked.state, (*marked.effects, *_elect(marked.state, everything)))


def _see_brokers(state: ClusterState, brokers: Mapping[int, BrokerEndpoints]) -> Step:
    bounced = _bounced(state.brokers, brokers)
    touched = bounced | (state.brokers.keys() ^ brokers.keys())
    outlived = state.outlived | _led_by(state.topics, bounced)
    seen = replace(state, brokers=dict(brokers), outlived=outlived)
    if not touched:
        return Step(seen)
    partitions = [
        (topic.name, partition.partition)
        for topic in state.topics.values()
        for partition in topic.partitions.values()
        if partition.leader in touched or not touched.isdisjoint(partition.replicas)
    ]
    return Step(seen, _elect(seen, partitions))


def _bounced(
    before: Mapping[int, BrokerEndpoints], after: Mapping[int, BrokerEndpoints]
) -> frozenset[int]:
    """Brokers that are registered in both, but not by the same registration."""
    return frozenset(
        broker_id
        for broker_id in before.keys() & after.keys()
        if before[broker_id].broker_epoch != after[broker_id].broker_epoch
    )


def _led_by(
    topics: Mapping[str, TopicState], brokers: Collection[int]
) -> frozenset[TopicPartition]:
    if not brokers:
        return frozenset()
    return frozenset(
        (topic.name, partition.partition)
        for topic in topics.values()
        for partition in topic.partitions.values()
        if partition.leader in brokers
    )


def _see_topics(state: ClusterState, seen: Mapping[str, SeenTopic | None]) -> Step:
    topics = dict(state.topics)
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    touched: list[TopicPartition] = []
    for name, topic in seen.items():
        if topic is None:
            topics.pop(name, None)
            if deletions.pop(name, None) is not None:
                effects.append(ClearMark(name))
        elif name not in deletions:
            before = topics.get(name)
            after = _merge(name, before, topic)
            topics[name] = after
            known = {} if before is None else before.partitions
            touched += [(name, p) for p, each in after.partitions.items() if known.get(p) != each]
    outlived = _of(topics, state.outlived)
    after_state = replace(state, topics=topics, deletions=deletions, outlived=outlived)
    return Step(after_state, (*effects, *_elect(after_state, touched)))


def _merge(name: str, before: TopicState | None, seen: SeenTopic) -> TopicState:
    """The topic as seen, with what is known of its partitions' leaders."""
    if before is not None and before.topic_id != seen.topic_id:
        before = None  # deleted and created again: nothing of the former one holds
    known = {} if before is None else before.partitions
    partitions = {
        partition: known[partition]._replace(replicas=tuple(replicas))
        if partition in known
        else new_partition(partition, replicas)
        for partition, replicas in sorted(seen.replicas.items())
    }
    return TopicState(name, seen.topic_id, partitions, dict(seen.configs))


def _adopt(state: ClusterState, states: Mapping[TopicPartition, PartitionState]) -> ClusterState:
    by_topic: dict[str, dict[int, PartitionState]] = {}
    for (name, partition), adopted in states.items():
        topic = state.topics.get(name)
        if topic is None or partition not in topic.partitions:
            continue  # deleted while the write was under way
        by_topic.setdefault(name, dict(topic.partitions))[partition] = adopted
    if not by_topic:
        return state
    topics = dict(state.topics)
    for name, partitions in by_topic.items():
        topics[name] = replace(topics[name], partitions=partitions)
    return replace(state, topics=topics)


def _elect(state: ClusterState, partitions: Iterable[TopicPartition]) -> tuple[WriteState, ...]:
    """Writes for those of the partitions that need a new leader or ISR."""
    writes = []
    for name, index in partitions:
        topic = state.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            continue
        former = (partition.leader,) if (name, index) in state.outlived else ()
        decided = decide_leader(partition, state.brokers.keys(), former)
        if decided is not None:
            writes.append(WriteState(name, decided))
    return tuple(writes)


def _mark(state: ClusterState, names: Collection[str]) -> Step:
    topics = dict(state.topics)
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    for name in sorted(names):
        if name in deletions:
            continue
        topic = topics.pop(name, None)
        if topic is None:
            effects.append(ClearMark(name))
            continue
        holders = frozenset(r for p in topic.partitions.values() for r in p.replicas)
        deletions[name] = Deletion(topic, holders)
        if not holders:
            effects.append(EraseTopic(name))
    after = replace(state, topics=topics, deletions=deletions, outlived=_of(topics, state.outlived))
    return Step(after, tuple(effects))


def _of(
    topics: Mapping[str, TopicState], partitions: frozenset[TopicPartition]
) -> frozenset[TopicPartition]:
    """Those of the partitions whose topic is still there."""
    return frozenset(key for key in partitions if key[0] in topics)


def _count_down(state: ClusterState, broker_id: int, topic_ids: Collection[uuid.UUID]) -> Step:
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    for name, deletion in state.deletions.items():
        if deletion.topic.topic_id in topic_ids and broker_id in deletion.waiting:
            waiting = deletion.waiting - {broker_id}
            deletions[name] = Deletion(deletion.topic, waiting)
            if not waiting:
                effects.append(EraseTopic(name))
    if deletions == state.deletions:
        return Step(state)
    return Step(replace(state, deletions=deletions), tuple(effects))
