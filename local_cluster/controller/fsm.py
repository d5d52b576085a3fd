"""What the controller decides: (ClusterState, Event) -> Step, without I/O.

    event             decision
    Loaded            adopt what ZooKeeper holds; begin marked deletions; elect where needed
    BrokersSeen       elect for every partition that a broker's coming or going touches
    TopicsSeen        adopt new topics and partitions and elect; forget what is no longer there
    ConfigsSeen       replace a topic's configs; elect where they now allow an unclean leader
    BrokerConfigsSeen replace the dynamic configs of a broker
    StatesWritten     adopt leaders that are now in ZooKeeper
    StatesRead        adopt what somebody else wrote, and elect again where that is not well
    BrokerLeaving     hand over what the broker leads, take it out of every ISR that has others
    BrokerAnswering   the same for one whose process is gone; one that is back may lead again
    ReplicasReported  elect for every partition whose replica on a broker fell ill or is well
                      again; for all of them where that is the first word of its run
    ElectionsWanted   give partitions to their preferred replica, or (unclean) to any live one
    DeletionsMarked   hide the topic, ask every replica's broker to delete; clear idle marks
    ReplicasDeleted   count down; erase the topic from ZooKeeper when nobody is waited for
    TopicErased       forget the deletion
    any               finish the reassignments whose added replicas are in sync, and stay so

Guarantees: a leader changes only through a `WriteState` that names the znode version it was
decided on, and is adopted only by `StatesWritten`; every change of leader or ISR raises the leader
epoch by one; the last in-sync replica is never removed from the ISR; a leader is always alive and
in the ISR it was elected from, unless the topic allows an unclean election; a broker that
registered anew leads only under a new epoch; a topic is erased only after every broker that held a
replica said so.

Not here: who is elected (elections.py), ISR changes that leaders ask for (isr_requests.py),
ZooKeeper (state_keeper.py), telling the brokers (publisher.py), placement.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from local_cluster.controller.cluster_state import (
    BrokerAnswering,
    BrokerConfigsSeen,
    BrokerLeaving,
    BrokersSeen,
    ClearMark,
    ClusterState,
    ConfigsSeen,
    Deletion,
    DeletionsMarked,
    Effect,
    ElectionsWanted,
    EraseTopic,
    Event,
    FinishReassignments,
    Loaded,
    ReplicasDeleted,
    ReplicasReported,
    SeenTopic,
    StatesRead,
    StatesWritten,
    Step,
    TopicErased,
    TopicPartition,
    TopicsSeen,
    WriteState,
)
from local_cluster.controller.elections import UNCLEAN_CONFIG, decide_leader, decide_preferred
from local_cluster.controller.model import (
    NO_EPOCH,
    NO_LEADER,
    UNWRITTEN,
    BrokerEndpoints,
    OfflineReplicas,
    PartitionState,
    TopicState,
)
from local_cluster.controller.reassignments import find_done

__all__ = [
    "BrokerAnswering",
    "BrokerConfigsSeen",
    "BrokerLeaving",
    "BrokersSeen",
    "ClearMark",
    "ClusterState",
    "ConfigsSeen",
    "Deletion",
    "DeletionsMarked",
    "Effect",
    "ElectionsWanted",
    "EraseTopic",
    "Event",
    "FinishReassignments",
    "Loaded",
    "ReplicasDeleted",
    "ReplicasReported",
    "SeenTopic",
    "StatesRead",
    "StatesWritten",
    "Step",
    "TopicErased",
    "TopicPartition",
    "TopicsSeen",
    "WriteState",
    "new_partition",
    "step",
]


def step(state: ClusterState, event: Event) -> Step:
    """Decide what follows from one event."""
    done = _decide(state, event)
    if not done.state.reassigning:
        return done
    changing = {
        (effect.topic, effect.state.partition)
        for effect in done.effects
        if isinstance(effect, WriteState)
    }
    return Step(done.state, (*done.effects, *_finish_reassignments(done.state, changing)))


def _decide(state: ClusterState, event: Event) -> Step:
    match event:
        case Loaded():
            return _load(state, event)
        case BrokersSeen(brokers):
            return _see_brokers(state, brokers)
        case TopicsSeen(topics):
            return _see_topics(state, topics)
        case ConfigsSeen(name, configs):
            return _see_configs(state, name, configs)
        case BrokerConfigsSeen(entity, configs):
            return _see_broker_configs(state, entity, configs)
        case StatesWritten(states):
            adopted = _adopt(state, states)
            forgetful = {each for each in adopted.forgetful if each[0] not in states}
            return Step(
                replace(
                    adopted,
                    outlived=adopted.outlived - states.keys(),
                    forgetful=frozenset(forgetful),
                )
            )
        case StatesRead(states):
            adopted = _adopt(state, states)
            return Step(adopted, _elect(adopted, states))
        case BrokerLeaving() | BrokerAnswering():
            return _relieve(state, event)
        case ReplicasReported():
            return _report(state, event)
        case ElectionsWanted(partitions, unclean):
            return Step(state, _elect_wanted(state, partitions, unclean))
        case DeletionsMarked(names):
            return _mark(state, names)
        case ReplicasDeleted(broker_id, topic_ids):
            return _count_down(state, broker_id, topic_ids)
        case TopicErased(name):
            deletions = {key: value for key, value in state.deletions.items() if key != name}
            return Step(replace(state, deletions=deletions))


def _see_configs(state: ClusterState, name: str, configs: Mapping[str, str]) -> Step:
    topic = state.topics.get(name)
    if topic is None:
        return Step(state)
    changed = replace(topic, configs=dict(configs))
    after = replace(state, topics={**state.topics, name: changed})
    return Step(after, _elect(after, [(name, index) for index in topic.partitions]))


def _see_broker_configs(state: ClusterState, entity: str, configs: Mapping[str, str]) -> Step:
    others = {key: each for key, each in state.broker_configs.items() if key != entity}
    set_now = {entity: dict(configs)} if configs else {}
    return Step(replace(state, broker_configs={**others, **set_now}))


def _finish_reassignments(
    state: ClusterState, changing: Collection[TopicPartition]
) -> list[Effect]:
    by_topic: dict[str, dict[int, tuple[int, ...]]] = {}
    for (name, index), replicas in find_done(state, changing).items():
        by_topic.setdefault(name, {})[index] = replicas
    return [FinishReassignments(name, replicas) for name, replicas in by_topic.items()]


def new_partition(partition: int, replicas: Iterable[int]) -> PartitionState:
    """A partition that has no state in ZooKeeper yet."""
    return PartitionState(partition, tuple(replicas), NO_LEADER, NO_EPOCH, (), UNWRITTEN)


def _load(state: ClusterState, event: Loaded) -> Step:
    bounced = _bounced(state.brokers, event.brokers)
    loaded = replace(
        state,
        brokers=event.brokers,
        topics=event.topics,
        # Who has deleted its replicas is asked again: a delete record may be told twice.
        deletions={},
        outlived=event.outlived | _led_by(event.topics, bounced) | state.outlived,
        forgetful=_forgetful(state, event.topics, bounced) | event.forgetful | state.forgetful,
        leaving=state.leaving & event.brokers.keys() - bounced,
        offline=_still_offline(state, event.brokers.keys() - bounced),
        unheard=event.unheard | ((state.unheard | bounced) & event.brokers.keys()),
        reassigning=event.reassigning,
        broker_configs=event.broker_configs,
    )
    marked = _mark(loaded, event.marked)
    everything = [(n, p) for n, topic in marked.state.topics.items() for p in topic.partitions]
    return Step(marked.state, (*marked.effects, *_elect(marked.state, everything)))


def _see_brokers(state: ClusterState, brokers: Mapping[int, BrokerEndpoints]) -> Step:
    bounced = _bounced(state.brokers, brokers)
    came = bounced | (brokers.keys() - state.brokers.keys())
    touched = bounced | (state.brokers.keys() ^ brokers.keys())
    seen = replace(
        state,
        brokers=dict(brokers),
        outlived=state.outlived | _led_by(state.topics, bounced),
        forgetful=state.forgetful | _forgetful(state, state.topics, came),
        leaving=state.leaving & brokers.keys() - bounced,
        offline=_still_offline(state, brokers.keys() - bounced),
        unheard=(state.unheard | came) & brokers.keys(),
    )
    if not touched:
        return Step(seen)
    return Step(seen, _elect(seen, _of_brokers(seen, touched)))


def _relieve(state: ClusterState, event: BrokerLeaving | BrokerAnswering) -> Step:
    broker = state.brokers.get(event.broker_id)
    if broker is None:
        return Step(state)
    if isinstance(event, BrokerAnswering):
        if broker.broker_epoch != event.broker_epoch:
            return Step(state)  # of a run that is over
        if event.answers:
            return Step(replace(state, leaving=state.leaving - {event.broker_id}))
    left = replace(state, leaving=state.leaving | {event.broker_id})
    return Step(left, _elect(left, _of_brokers(left, {event.broker_id})))


def _report(state: ClusterState, event: ReplicasReported) -> Step:
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return Step(state)  # said by a run that is over
    before = state.offline.get(event.broker_id, frozenset())
    offline = {**state.offline, event.broker_id: event.offline}
    if not event.offline:
        del offline[event.broker_id]
    after = replace(state, offline=offline, unheard=state.unheard - {event.broker_id})
    touched = before ^ event.offline
    if event.broker_id in state.unheard:
        touched |= set(_of_brokers(state, {event.broker_id}))
    return Step(after, _elect(after, sorted(touched)))


def _still_offline(state: ClusterState, same_runs: Collection[int]) -> OfflineReplicas:
    """Without brokers that went, or were started again: they say anew what they cannot serve."""
    return {each: keys for each, keys in state.offline.items() if each in same_runs}


def _of_brokers(state: ClusterState, brokers: Collection[int]) -> list[TopicPartition]:
    """Partitions that one of the brokers leads or holds."""
    ids = frozenset(brokers)
    return [
        (topic.name, partition.partition)
        for topic in state.topics.values()
        for partition in topic.partitions.values()
        if partition.leader in ids or not ids.isdisjoint(partition.replicas)
    ]


def _forgetful(
    state: ClusterState, topics: Mapping[str, TopicState], brokers: Collection[int]
) -> frozenset[tuple[TopicPartition, int]]:
    """Where brokers that were started again are in sync, if they may have lost a tail by it."""
    if state.keeps_tails or not brokers:
        return frozenset()
    return frozenset(
        ((topic.name, partition.partition), broker_id)
        for topic in topics.values()
        for partition in topic.partitions.values()
        for broker_id in partition.isr
        if broker_id in brokers
    )


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
    reassigning = {key: each for key, each in state.reassigning.items() if key[0] not in seen}
    for name, topic in seen.items():
        if topic is None:
            topics.pop(name, None)
            if deletions.pop(name, None) is not None:
                effects.append(ClearMark(name))
        elif name not in deletions:
            before = topics.get(name)
            after = _merge(name, before, topic)
            topics[name] = after
            reassigning |= {(name, index): each for index, each in topic.reassigning.items()}
            known = {} if before is None else before.partitions
            touched += [(name, p) for p, each in after.partitions.items() if known.get(p) != each]
    after_state = replace(
        state,
        topics=topics,
        deletions=deletions,
        outlived=_of(topics, state.outlived),
        reassigning=reassigning,
    )
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
        if topic is None or partition is None:
            continue
        decided = decide_leader(
            partition,
            state.able((name, index)),
            (partition.leader,) if (name, index) in state.outlived else (),
            leaving=state.leaving,
            forgetful=[r for r in partition.isr if ((name, index), r) in state.forgetful],
            unheard=state.unheard,
            unclean=_allows_unclean(state, topic),
        )
        if decided is not None:
            writes.append(WriteState(name, decided))
    return tuple(writes)


def _allows_unclean(state: ClusterState, topic: TopicState) -> bool:
    value = topic.configs.get(UNCLEAN_CONFIG)
    return state.unclean_default if value is None else value.lower() == "true"


def _elect_wanted(
    state: ClusterState, partitions: Iterable[TopicPartition], unclean: bool
) -> tuple[WriteState, ...]:
    """Writes for partitions that somebody asked an election for."""
    writes = []
    for name, index in partitions:
        topic = state.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            continue
        live = state.able((name, index))
        if unclean:
            decided = decide_leader(partition, live, leaving=state.leaving, unclean=True)
        else:
            decided = decide_preferred(partition, live, state.leaving)
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
    after = replace(
        state,
        topics=topics,
        deletions=deletions,
        outlived=_of(topics, state.outlived),
        forgetful=frozenset(each for each in state.forgetful if each[0][0] in topics),
        reassigning={key: each for key, each in state.reassigning.items() if key[0] in topics},
    )
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
