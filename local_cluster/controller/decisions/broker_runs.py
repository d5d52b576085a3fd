"""What follows from the runs of brokers: who came, went, was started again, falls ill or leaves.

    came        is waited for until it says what it cannot serve; elected where somebody is missing
    went        elect for every partition that it leads or holds
    bounced     both: registered before and after, but not by the same registration
    leaves      leads nothing more, and is in sync nowhere, where there is another
    reports     elect where a replica fell ill or is well again; everywhere by a run's first word

Pure; the events are those of fsm.py. Who is elected is in elections.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from local_cluster.controller.decisions.elections import elect
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    OfflineReplicas,
    TopicState,
)
from local_cluster.controller.model.cluster_state import (
    BrokerAnswering,
    BrokerLeaving,
    ClusterState,
    ReplicasReported,
    Step,
    TopicPartition,
)


def see_brokers(state: ClusterState, brokers: Mapping[int, BrokerEndpoints]) -> Step:
    """These are registered now; elect for what that touches."""
    bounced = bounced_of(state.brokers, brokers)
    came = bounced | (brokers.keys() - state.brokers.keys())
    touched = bounced | (state.brokers.keys() ^ brokers.keys())
    seen = replace(
        state,
        brokers=dict(brokers),
        outlived=state.outlived | led_by(state.topics, bounced),
        forgetful=state.forgetful | forgetful_of(state, state.topics, came),
        leaving=state.leaving & brokers.keys() - bounced,
        offline=still_offline(state, brokers.keys() - bounced),
        unheard=(state.unheard | came) & brokers.keys(),
    )
    if not touched:
        return Step(seen)
    return Step(seen, elect(seen, _of_brokers(seen, touched)))


def relieve(state: ClusterState, event: BrokerLeaving | BrokerAnswering) -> Step:
    """A broker shuts down, or its process is gone: others take over. Or it is back."""
    broker = state.brokers.get(event.broker_id)
    if broker is None:
        return Step(state)
    if isinstance(event, BrokerAnswering):
        if broker.broker_epoch != event.broker_epoch:
            return Step(state)  # of a run that is over
        if event.answers:
            return Step(replace(state, leaving=state.leaving - {event.broker_id}))
    left = replace(state, leaving=state.leaving | {event.broker_id})
    return Step(left, elect(left, _of_brokers(left, {event.broker_id})))


def take_report(state: ClusterState, event: ReplicasReported) -> Step:
    """A broker says what it cannot serve, in this run: elect where that is news."""
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
    return Step(after, elect(after, sorted(touched)))


def bounced_of(
    before: Mapping[int, BrokerEndpoints], after: Mapping[int, BrokerEndpoints]
) -> frozenset[int]:
    """Brokers that are registered in both, but not by the same registration."""
    return frozenset(
        broker_id
        for broker_id in before.keys() & after.keys()
        if before[broker_id].broker_epoch != after[broker_id].broker_epoch
    )


def led_by(topics: Mapping[str, TopicState], brokers: Collection[int]) -> frozenset[TopicPartition]:
    """Partitions whose leader is one of the brokers."""
    if not brokers:
        return frozenset()
    return frozenset(
        (topic.name, partition.partition)
        for topic in topics.values()
        for partition in topic.partitions.values()
        if partition.leader in brokers
    )


def forgetful_of(
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


def still_offline(state: ClusterState, same_runs: Collection[int]) -> OfflineReplicas:
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
