"""Elections: the leader and the ISR of a partition. Pure.

clean          the leader stays if it is alive, in sync and has not restarted since its
               election; else the first live in-sync replica in the order of the assignment
shutting down  such a broker leads nothing and is in no ISR, where there is another replica
restarted      with `flush: page_cache` a restarted broker may have lost unflushed records. It
               leaves the ISR if another member lives (KIP-966); the last one stays.
preferred      the first replica of the assignment, if alive, in sync and not shutting down
unreported     a broker that has not reported its offline replicas to this controller since it
               registered. If only such brokers are left of an ISR, one may lead, but the ISR
               stays until they report: an absent member may be the last complete replica.
unclean        any live replica; only if the topic allows it and no ISR member lives
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from local_cluster.controller.decisions.dynamic_broker_configs import (
    DEFAULT_ENTITY,
    value_problem,
)
from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    UNWRITTEN,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.events import WriteState
from local_cluster.wire.errors import ErrorCode, KafkaError

UNCLEAN_CONFIG = "unclean.leader.election.enable"


def decide_leader(
    state: PartitionState,
    live: Collection[int],
    restarted_leaders: Collection[int] = (),
    *,
    shutting_down: Collection[int] = (),
    restarted_replicas: Collection[int] = (),
    unreported: Collection[int] = (),
    unclean: bool = False,
) -> PartitionState | None:
    """Return the state to write, None if no change is needed.

    `restarted_leaders` are live brokers that registered again: their leadership is over.
    `restarted_replicas` may have lost unflushed records.
    """
    alive = tuple(replica for replica in state.replicas if replica in live)
    if state.zk_version == UNWRITTEN:
        if not alive:
            return None
        first = next((replica for replica in alive if replica not in shutting_down), alive[0])
        return state._replace(leader=first, leader_epoch=state.leader_epoch + 1, isr=alive)
    # A replica that was reassigned away leaves the ISR if another member lives.
    in_sync = tuple(replica for replica in state.isr if replica in alive)
    for unwanted in (restarted_replicas, shutting_down):
        in_sync = tuple(replica for replica in in_sync if replica not in unwanted) or in_sync
    if not in_sync and unclean and alive:
        first = next((r for r in alive if r not in shutting_down), alive[0])
        return state._replace(leader=first, leader_epoch=state.leader_epoch + 1, isr=(first,))
    # Without a live member the ISR stays: only its members may lead later.
    isr = in_sync or state.isr
    if in_sync and all(replica in unreported for replica in in_sync):
        # No live member has confirmed yet that its replica works.
        isr = tuple(replica for replica in state.isr if replica in state.replicas)
    keeps = (
        state.leader in alive and state.leader in in_sync and state.leader not in restarted_leaders
    )
    # A restarted broker leads again only if no other can: a crash may have damaged its replica.
    candidates = [r for r in alive if r in in_sync]
    best = min(
        candidates, key=lambda r: (r in restarted_leaders, r in unreported), default=NO_LEADER
    )
    leader = state.leader if keeps else best
    if isr == state.isr and leader == state.leader and (keeps or leader == NO_LEADER):
        return None
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)


def decide_preferred(
    state: PartitionState, live: Collection[int], shutting_down: Collection[int] = ()
) -> PartitionState | None:
    """Return the state in which the preferred replica leads; None if it does, or cannot."""
    preferred = state.replicas[0] if state.replicas else NO_LEADER
    can_lead = preferred in live and preferred in state.isr and preferred not in shutting_down
    if state.zk_version == UNWRITTEN or state.leader == preferred or not can_lead:
        return None
    return state._replace(leader=preferred, leader_epoch=state.leader_epoch + 1)


def elect(state: ClusterState, partitions: Iterable[TopicPartition]) -> tuple[WriteState, ...]:
    """Return the writes for the partitions that need a new leader or ISR."""
    writes = []
    for name, index in partitions:
        topic = state.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None:
            continue
        decided = decide_leader(
            partition,
            state.online_brokers((name, index)),
            (partition.leader,) if (name, index) in state.restarted_leaders else (),
            shutting_down=state.shutting_down,
            restarted_replicas=[
                r for r in partition.isr if ((name, index), r) in state.restarted_replicas
            ],
            unreported=state.unreported,
            unclean=_allows_unclean(state, topic),
        )
        if decided is not None:
            writes.append(WriteState(name, decided))
    return tuple(writes)


def _allows_unclean(state: ClusterState, topic: TopicState) -> bool:
    value = topic.configs.get(UNCLEAN_CONFIG)
    return unclean_default(state) if value is None else value.lower() == "true"


def unclean_default(state: ClusterState) -> bool:
    """Return unclean.leader.election.enable of the controller, as its configs have it."""
    for entity in (str(state.controller_id), DEFAULT_ENTITY):
        value = state.broker_configs.get(entity, {}).get(UNCLEAN_CONFIG)
        if value is not None and value_problem(UNCLEAN_CONFIG, value) is None:
            return value.strip().lower() == "true"
    return state.unclean_default


def elect_requested(
    state: ClusterState, partitions: Iterable[TopicPartition], unclean: bool
) -> tuple[WriteState, ...]:
    """Return the writes for requested elections."""
    writes = []
    for name, index in partitions:
        topic = state.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            continue
        live = state.online_brokers((name, index))
        if unclean:
            decided = decide_leader(
                partition, live, shutting_down=state.shutting_down, unclean=True
            )
        else:
            decided = decide_preferred(partition, live, state.shutting_down)
        if decided is not None:
            writes.append(WriteState(name, decided))
    return tuple(writes)


_NOT_NEEDED: Final = "Leader election not needed for topic partition."


def election_problem(state: ClusterState, key: TopicPartition, unclean: bool) -> KafkaError | None:
    """Return why a requested election is not held, with Kafka's code and text; None if it is."""
    topic = state.topics.get(key[0])
    partition = None if topic is None else topic.partitions.get(key[1])
    if topic is None:
        return KafkaError(ErrorCode.unknown_topic_or_partition, f"No such topic as {key[0]}")
    if partition is None:
        return KafkaError(
            ErrorCode.unknown_topic_or_partition, f"No such partition as {key[0]}-{key[1]}"
        )
    live = state.online_brokers(key)
    if unclean:
        if partition.leader in live:
            return KafkaError(ErrorCode.election_not_needed, _NOT_NEEDED)
        if not any(replica in live for replica in partition.replicas):
            return KafkaError(ErrorCode.eligible_leaders_not_available, "No replica is alive.")
        return None
    if partition.leader == partition.replicas[0]:
        return KafkaError(ErrorCode.election_not_needed, _NOT_NEEDED)
    if decide_preferred(partition, live, state.shutting_down) is None:
        return KafkaError(
            ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
        )
    return None


def find_imbalanced(state: ClusterState, percentage_max: int) -> list[TopicPartition]:
    """Return partitions to give back to their preferred leader (auto.leader.rebalance.enable).

    Take the partitions that prefer a broker and are led by another one. If they are more than
    `percentage_max` of those that prefer it, it gets all of them back. Partitions under
    reassignment are left alone.
    """
    preferred: Counter[int] = Counter()
    away: dict[int, list[TopicPartition]] = {}
    for name, topic in state.topics.items():
        for index, partition in topic.partitions.items():
            if not partition.replicas or (name, index) in state.reassigning:
                continue
            first = partition.replicas[0]
            preferred[first] += 1
            if partition.leader != first and decide_preferred(
                partition, state.online_brokers((name, index)), state.shutting_down
            ):
                away.setdefault(first, []).append((name, index))
    return [
        key
        for broker_id, keys in away.items()
        if len(keys) * 100 > percentage_max * preferred[broker_id]
        for key in keys
    ]
