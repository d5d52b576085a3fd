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
    any               finish the reassignments that it touches whose added replicas are in sync, and
                      stay so

Guarantees: a leader changes only through a `WriteState` that names the znode version it was
decided on, and is adopted only by `StatesWritten`; every change of leader or ISR raises the leader
epoch by one; the last in-sync replica is never removed from the ISR; a leader is always alive and
in the ISR it was elected from, unless the topic allows an unclean election; a broker that
registered anew leads only under a new epoch; a topic is erased only after every broker that held a
replica said so.

Not here: who is elected (elections.py), what brokers that come and go change (broker_runs.py), how
a topic goes (topic_deletions.py), ISR changes that leaders ask for (isr_requests.py), ZooKeeper
(state_keeper.py), telling the brokers (publisher.py), placement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from local_cluster.controller.decisions.broker_runs import (
    bounced_of,
    forgetful_of,
    led_by,
    relieve,
    see_brokers,
    still_offline,
    take_report,
)
from local_cluster.controller.decisions.elections import elect, elect_wanted
from local_cluster.controller.decisions.reassignments import find_done
from local_cluster.controller.decisions.topic_deletions import count_down, mark_deleted, of_topics
from local_cluster.controller.model.cluster_image import (
    NO_EPOCH,
    NO_LEADER,
    UNWRITTEN,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.cluster_state import (
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
    # Whose ISR or leader is about to be written is judged when that is done.
    changing = {
        (effect.topic, effect.state.partition)
        for effect in done.effects
        if isinstance(effect, WriteState)
    }
    touched = [key for key in _moves_touched(done.state, event) if key not in changing]
    return Step(done.state, (*done.effects, *_finish_reassignments(done.state, touched)))


def _decide(state: ClusterState, event: Event) -> Step:
    match event:
        case Loaded():
            return _load(state, event)
        case BrokersSeen(brokers):
            return see_brokers(state, brokers)
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
            return Step(adopted, elect(adopted, states))
        case BrokerLeaving() | BrokerAnswering():
            return relieve(state, event)
        case ReplicasReported():
            return take_report(state, event)
        case ElectionsWanted(partitions, unclean):
            return Step(state, elect_wanted(state, partitions, unclean))
        case DeletionsMarked(names):
            return mark_deleted(state, names)
        case ReplicasDeleted(broker_id, topic_ids):
            return count_down(state, broker_id, topic_ids)
        case TopicErased(name):
            deletions = {key: value for key, value in state.deletions.items() if key != name}
            return Step(replace(state, deletions=deletions))


def _see_configs(state: ClusterState, name: str, configs: Mapping[str, str]) -> Step:
    topic = state.topics.get(name)
    if topic is None:
        return Step(state)
    changed = replace(topic, configs=dict(configs))
    after = replace(state, topics={**state.topics, name: changed})
    return Step(after, elect(after, [(name, index) for index in topic.partitions]))


def _see_broker_configs(state: ClusterState, entity: str, configs: Mapping[str, str]) -> Step:
    others = {key: each for key, each in state.broker_configs.items() if key != entity}
    set_now = {entity: dict(configs)} if configs else {}
    return Step(replace(state, broker_configs={**others, **set_now}))


def _moves_touched(state: ClusterState, event: Event) -> Collection[TopicPartition]:
    """The moves that can be done by an event: there may be thousands, and as many events."""
    match event:
        case Loaded() | BrokersSeen() | ReplicasReported():
            return state.reassigning.keys()
        case StatesWritten(states) | StatesRead(states):
            return [key for key in states if key in state.reassigning]
        case TopicsSeen(seen):
            topics = [state.topics[name] for name in seen if name in state.topics]
            keys = [(topic.name, index) for topic in topics for index in topic.partitions]
            return [key for key in keys if key in state.reassigning]
        case _:
            return ()


def _finish_reassignments(state: ClusterState, touched: Collection[TopicPartition]) -> list[Effect]:
    by_topic: dict[str, dict[int, tuple[int, ...]]] = {}
    for (name, index), replicas in find_done(state, touched).items():
        by_topic.setdefault(name, {})[index] = replicas
    return [FinishReassignments(name, replicas) for name, replicas in by_topic.items()]


def new_partition(partition: int, replicas: Iterable[int]) -> PartitionState:
    """A partition that has no state in ZooKeeper yet."""
    return PartitionState(partition, tuple(replicas), NO_LEADER, NO_EPOCH, (), UNWRITTEN)


def _load(state: ClusterState, event: Loaded) -> Step:
    bounced = bounced_of(state.brokers, event.brokers)
    loaded = replace(
        state,
        brokers=event.brokers,
        topics=event.topics,
        # Who has deleted its replicas is asked again: a delete record may be told twice.
        deletions={},
        outlived=event.outlived | led_by(event.topics, bounced) | state.outlived,
        forgetful=forgetful_of(state, event.topics, bounced) | event.forgetful | state.forgetful,
        leaving=state.leaving & event.brokers.keys() - bounced,
        offline=still_offline(state, event.brokers.keys() - bounced),
        # All of them, where the term begins: what they said to the last controller is not written.
        unheard=(state.unheard | bounced | (event.brokers.keys() - state.brokers.keys()))
        & event.brokers.keys(),
        reassigning=event.reassigning,
        broker_configs=event.broker_configs,
    )
    marked = mark_deleted(loaded, event.marked)
    everything = [(n, p) for n, topic in marked.state.topics.items() for p in topic.partitions]
    return Step(marked.state, (*marked.effects, *elect(marked.state, everything)))


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
        outlived=of_topics(topics, state.outlived),
        reassigning=reassigning,
    )
    return Step(after_state, (*effects, *elect(after_state, touched)))


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
