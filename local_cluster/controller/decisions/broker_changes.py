"""Brokers that register, go, restart, shut down or report offline replicas. Pure.

registers   it counts as unreported until its first report; elect where a replica was missing
goes        elect for every partition that it leads or holds
restarts    it was registered before and after, but by another registration
shuts down  it leads nothing and is in no ISR, where there is another replica
reports     elect where a replica went offline or came back; everywhere for the first report
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
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.events import (
    BrokerReachable,
    BrokerShuttingDown,
    OfflineReplicasReported,
    Step,
)


def update_brokers(state: ClusterState, brokers: Mapping[int, BrokerEndpoints]) -> Step:
    """Adopt all registrations; elect for the partitions of changed brokers."""
    restarted = find_restarted(state.brokers, brokers)
    came = restarted | (brokers.keys() - state.brokers.keys())
    touched = restarted | (state.brokers.keys() ^ brokers.keys())
    seen = replace(
        state,
        brokers=dict(brokers),
        restarted_leaders=state.restarted_leaders | find_led(state.topics, restarted),
        restarted_replicas=state.restarted_replicas | find_in_sync(state, state.topics, came),
        shutting_down=state.shutting_down & brokers.keys() - restarted,
        offline=keep_offline(state, brokers.keys() - restarted),
        unreported=(state.unreported | came) & brokers.keys(),
    )
    if not touched:
        return Step(seen)
    return Step(seen, elect(seen, _partitions_of(seen, touched)))


def update_availability(state: ClusterState, event: BrokerShuttingDown | BrokerReachable) -> Step:
    """A broker shuts down, or its process is gone: other replicas take over. Or it is back."""
    broker = state.brokers.get(event.broker_id)
    if broker is None:
        return Step(state)
    if isinstance(event, BrokerReachable):
        if broker.broker_epoch != event.broker_epoch:
            return Step(state)  # it restarted since
        if event.is_reachable:
            return Step(replace(state, shutting_down=state.shutting_down - {event.broker_id}))
    left = replace(state, shutting_down=state.shutting_down | {event.broker_id})
    return Step(left, elect(left, _partitions_of(left, {event.broker_id})))


def update_offline_replicas(state: ClusterState, event: OfflineReplicasReported) -> Step:
    """Adopt the offline replicas of a broker; elect for those that changed."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return Step(state)  # it restarted since
    before = state.offline.get(event.broker_id, frozenset())
    offline = {**state.offline, event.broker_id: event.offline}
    if not event.offline:
        del offline[event.broker_id]
    after = replace(state, offline=offline, unreported=state.unreported - {event.broker_id})
    touched = before ^ event.offline
    if event.broker_id in state.unreported:
        touched |= set(_partitions_of(state, {event.broker_id}))
    return Step(after, elect(after, sorted(touched)))


def find_restarted(
    before: Mapping[int, BrokerEndpoints], after: Mapping[int, BrokerEndpoints]
) -> frozenset[int]:
    """Return the brokers in both whose registration is another one."""
    return frozenset(
        broker_id
        for broker_id in before.keys() & after.keys()
        if before[broker_id].broker_epoch != after[broker_id].broker_epoch
    )


def find_led(
    topics: Mapping[str, TopicState], brokers: Collection[int]
) -> frozenset[TopicPartition]:
    """Return the partitions whose leader is one of the brokers."""
    if not brokers:
        return frozenset()
    return frozenset(
        (topic.name, partition.partition)
        for topic in topics.values()
        for partition in topic.partitions.values()
        if partition.leader in brokers
    )


def find_in_sync(
    state: ClusterState, topics: Mapping[str, TopicState], brokers: Collection[int]
) -> frozenset[tuple[TopicPartition, int]]:
    """Return the in-sync replicas of restarted brokers, unless `fsync` keeps their records."""
    if state.fsync or not brokers:
        return frozenset()
    return frozenset(
        ((topic.name, partition.partition), broker_id)
        for topic in topics.values()
        for partition in topic.partitions.values()
        for broker_id in partition.isr
        if broker_id in brokers
    )


def keep_offline(state: ClusterState, same_epoch: Collection[int]) -> OfflineReplicas:
    """Return the offline replicas of brokers that did not restart; others have to report again."""
    return {each: keys for each, keys in state.offline.items() if each in same_epoch}


def _partitions_of(state: ClusterState, brokers: Collection[int]) -> list[TopicPartition]:
    """Return the partitions that one of the brokers leads or holds."""
    ids = frozenset(brokers)
    return [
        (topic.name, partition.partition)
        for topic in state.topics.values()
        for partition in topic.partitions.values()
        if partition.leader in ids or not ids.isdisjoint(partition.replicas)
    ]
