"""The controller's state machine: (ClusterState, Event) -> Step, without I/O.

    event                    decision
    Loaded                   adopt what ZooKeeper holds; resume deletions; elect where needed
    BrokersSeen              elect for every partition with a replica on a broker that came or went
    TopicsSeen               adopt new topics and partitions and elect; forget vanished topics
    ConfigsSeen              replace a topic's configs; elect if they allow an unclean leader
    BrokerConfigsSeen        replace the dynamic configs of a broker
    EntityConfigsSeen        replace the configs of a group or a client metrics subscription
    StatesWritten            adopt the leaders that are in ZooKeeper
    StatesRead               adopt another writer's states; elect again where needed
    BrokerShuttingDown       move leadership off the broker; take it out of each ISR with others
    BrokerReachable          the same if the process is gone; if it is back, it may lead again
    OfflineReplicasReported  elect for every replica that went offline or came back; for all
                             replicas of the broker if it is its first report
    ElectionsRequested       elect preferred leaders, or (unclean) any live replica
    DeletionsMarked          hide the topic; wait for its brokers; clear marks of unknown topics
    ReplicasDeleted          purge the topic from ZooKeeper once every broker has confirmed
    TopicPurged              forget the deletion
    any                      complete the touched reassignments whose added replicas are in sync,
                             and stay so

Guarantees:

- A leader changes only through a `WriteState` that names the znode version it was decided on. It
  is adopted only by `StatesWritten`.
- Every change of leader or ISR raises the leader epoch by one.
- The last in-sync replica is never removed from the ISR.
- A leader is always alive and in the ISR it was elected from, unless the topic allows an unclean
  election.
- A broker that registered again leads only under a new leader epoch.
- A topic is purged only after every broker that held a replica confirmed the deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from local_cluster.controller.decisions.broker_changes import (
    find_in_sync,
    find_led,
    find_restarted,
    keep_offline,
    update_availability,
    update_brokers,
    update_offline_replicas,
)
from local_cluster.controller.decisions.elections import elect, elect_requested, unclean_default
from local_cluster.controller.decisions.reassignments import find_completed
from local_cluster.controller.decisions.topic_deletions import (
    confirm_deleted,
    keep_topics,
    start_deletions,
)
from local_cluster.controller.model.cluster_image import (
    PartitionState,
    TopicState,
    unwritten_partition,
)
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.events import (
    BrokerConfigsSeen,
    BrokerReachable,
    BrokerShuttingDown,
    BrokersSeen,
    ClearDeletionMark,
    CompleteReassignments,
    ConfigsSeen,
    DeletionsMarked,
    Effect,
    ElectionsRequested,
    EntityConfigsSeen,
    Event,
    Loaded,
    OfflineReplicasReported,
    ReplicasDeleted,
    SeenTopic,
    StatesRead,
    StatesWritten,
    Step,
    TopicPurged,
    TopicsSeen,
    WriteState,
)


def step(state: ClusterState, event: Event) -> Step:
    """Decide the next state and the writes that follow from one event."""
    done = _decide(state, event)
    if not done.state.reassigning:
        return done
    # A partition whose ISR or leader is about to be written is checked after that write.
    changing = {
        (effect.topic, effect.state.partition)
        for effect in done.effects
        if isinstance(effect, WriteState)
    }
    touched = [key for key in _touched_reassignments(done.state, event) if key not in changing]
    return Step(done.state, (*done.effects, *_complete_reassignments(done.state, touched)))


def _decide(state: ClusterState, event: Event) -> Step:
    match event:
        case Loaded():
            return _load(state, event)
        case BrokersSeen(brokers):
            return update_brokers(state, brokers)
        case TopicsSeen(topics):
            return _see_topics(state, topics)
        case ConfigsSeen(name, configs):
            return _see_configs(state, name, configs)
        case BrokerConfigsSeen() | EntityConfigsSeen():
            return _see_other_configs(state, event)
        case StatesWritten(states):
            adopted = _adopt(state, states)
            restarted_replicas = {
                each for each in adopted.restarted_replicas if each[0] not in states
            }
            return Step(
                replace(
                    adopted,
                    restarted_leaders=adopted.restarted_leaders - states.keys(),
                    restarted_replicas=frozenset(restarted_replicas),
                )
            )
        case StatesRead(states):
            adopted = _adopt(state, states)
            return Step(adopted, elect(adopted, states))
        case BrokerShuttingDown() | BrokerReachable():
            return update_availability(state, event)
        case OfflineReplicasReported():
            return update_offline_replicas(state, event)
        case ElectionsRequested(partitions, unclean):
            return Step(state, elect_requested(state, partitions, unclean))
        case DeletionsMarked(names):
            return start_deletions(state, names)
        case ReplicasDeleted(broker_id, topic_ids):
            return confirm_deleted(state, broker_id, topic_ids)
        case TopicPurged(name):
            deletions = {key: value for key, value in state.deletions.items() if key != name}
            return Step(replace(state, deletions=deletions))


def _see_configs(state: ClusterState, name: str, configs: Mapping[str, str]) -> Step:
    topic = state.topics.get(name)
    if topic is None:
        return Step(state)
    changed = replace(topic, configs=dict(configs))
    after = replace(state, topics={**state.topics, name: changed})
    return Step(after, elect(after, [(name, index) for index in topic.partitions]))


def _see_other_configs(state: ClusterState, event: BrokerConfigsSeen | EntityConfigsSeen) -> Step:
    if isinstance(event, EntityConfigsSeen):
        changed = _with_configs(state.entity_configs, event.entity, event.configs)
        return Step(replace(state, entity_configs=changed))
    changed = _with_configs(state.broker_configs, event.entity, event.configs)
    after = replace(state, broker_configs=changed)
    if unclean_default(state) or not unclean_default(after):
        return Step(after)
    # Partitions without a leader may have one now.
    return Step(after, elect(after, _all_partitions(after)))


def _with_configs(
    known: Mapping[str, Mapping[str, str]], entity: str, configs: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    others = {key: each for key, each in known.items() if key != entity}
    return {**others, entity: dict(configs)} if configs else others


def _touched_reassignments(state: ClusterState, event: Event) -> Collection[TopicPartition]:
    """Return the reassignments that an event may complete.

    There may be thousands, and as many events: an event must not look at all of them.
    """
    match event:
        case Loaded() | BrokersSeen() | OfflineReplicasReported():
            return state.reassigning.keys()
        case StatesWritten(states) | StatesRead(states):
            return [key for key in states if key in state.reassigning]
        case TopicsSeen(seen):
            topics = [state.topics[name] for name in seen if name in state.topics]
            keys = [(topic.name, index) for topic in topics for index in topic.partitions]
            return [key for key in keys if key in state.reassigning]
        case _:
            return ()


def _complete_reassignments(
    state: ClusterState, touched: Collection[TopicPartition]
) -> list[Effect]:
    by_topic: dict[str, dict[int, tuple[int, ...]]] = {}
    for (name, index), replicas in find_completed(state, touched).items():
        by_topic.setdefault(name, {})[index] = replicas
    return [CompleteReassignments(name, replicas) for name, replicas in by_topic.items()]


def _load(state: ClusterState, event: Loaded) -> Step:
    restarted = find_restarted(state.brokers, event.brokers)
    loaded = replace(
        state,
        brokers=event.brokers,
        topics=event.topics,
        # Brokers that confirmed before confirm again: a delete record may repeat.
        deletions={},
        restarted_leaders=event.restarted_leaders
        | find_led(event.topics, restarted)
        | state.restarted_leaders,
        restarted_replicas=find_in_sync(state, event.topics, restarted)
        | event.restarted_replicas
        | state.restarted_replicas,
        shutting_down=state.shutting_down & event.brokers.keys() - restarted,
        offline=keep_offline(state, event.brokers.keys() - restarted),
        # When a term begins, all of them: ZooKeeper does not hold reports to the last controller.
        unreported=(state.unreported | restarted | (event.brokers.keys() - state.brokers.keys()))
        & event.brokers.keys(),
        reassigning=event.reassigning,
        broker_configs=event.broker_configs,
        entity_configs=event.entity_configs,
    )
    marked = start_deletions(loaded, event.marked)
    elected = elect(marked.state, _all_partitions(marked.state))
    return Step(marked.state, (*marked.effects, *elected))


def _all_partitions(state: ClusterState) -> list[TopicPartition]:
    return [(name, index) for name, topic in state.topics.items() for index in topic.partitions]


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
                effects.append(ClearDeletionMark(name))
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
        restarted_leaders=keep_topics(topics, state.restarted_leaders),
        reassigning=reassigning,
    )
    return Step(after_state, (*effects, *elect(after_state, touched)))


def _merge(name: str, before: TopicState | None, seen: SeenTopic) -> TopicState:
    """Return the topic as seen, with the known leaders of its partitions."""
    if before is not None and before.topic_id != seen.topic_id:
        before = None  # deleted and re-created: no state of the former topic holds
    known = {} if before is None else before.partitions
    partitions = {
        partition: known[partition]._replace(replicas=tuple(replicas))
        if partition in known
        else unwritten_partition(partition, replicas)
        for partition, replicas in sorted(seen.replicas.items())
    }
    return TopicState(name, seen.topic_id, partitions, dict(seen.configs))


def _adopt(state: ClusterState, states: Mapping[TopicPartition, PartitionState]) -> ClusterState:
    by_topic: dict[str, dict[int, PartitionState]] = {}
    for (name, partition), adopted in states.items():
        topic = state.topics.get(name)
        if topic is None or partition not in topic.partitions:
            continue  # deleted during the write
        by_topic.setdefault(name, dict(topic.partitions))[partition] = adopted
    if not by_topic:
        return state
    topics = dict(state.topics)
    for name, partitions in by_topic.items():
        topics[name] = replace(topics[name], partitions=partitions)
    return replace(state, topics=topics)
