"""Who leads a partition and who is in sync, as the controller decides it. Pure.

clean       the leader stays if it is alive, in sync and still the run that was elected; else the
            first live in-sync replica in the order of the assignment
leaving     a broker that shuts down leads nothing, and is in sync nowhere, where another is
forgetful   a broker that was started again and may have lost its tail (`flush: page_cache`)
            leaves the ISR where another of it lives (KIP-966); the last one stays
preferred   the first replica of the assignment, if it is alive, in sync and stays
unheard     a broker that has not told this controller yet, in this run, what its disks do not
            let it serve: where only such are left of an ISR they may lead, and the ISR stays as it
            was until they said so, for one of the others may be the last that has all of it
unclean     only where the topic allows it, and nobody of the ISR lives: any live replica
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    UNWRITTEN,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition, WriteState
from local_cluster.wire.errors import ErrorCode, KafkaError

UNCLEAN_CONFIG = "unclean.leader.election.enable"


def decide_leader(
    state: PartitionState,
    live: Collection[int],
    bounced: Collection[int] = (),
    *,
    leaving: Collection[int] = (),
    forgetful: Collection[int] = (),
    unheard: Collection[int] = (),
    unclean: bool = False,
) -> PartitionState | None:
    """The state to write, None where the present one is well.

    `bounced` are live brokers that registered anew: what they led, they lead no longer.
    """
    alive = tuple(replica for replica in state.replicas if replica in live)
    if state.zk_version == UNWRITTEN:
        if not alive:
            return None
        first = next((replica for replica in alive if replica not in leaving), alive[0])
        return state._replace(leader=first, leader_epoch=state.leader_epoch + 1, isr=alive)
    # A replica that was reassigned away is in sync no more, where another is.
    in_sync = tuple(replica for replica in state.isr if replica in alive)
    for unwanted in (forgetful, leaving):
        in_sync = tuple(replica for replica in in_sync if replica not in unwanted) or in_sync
    if not in_sync and unclean and alive:
        first = next((r for r in alive if r not in leaving), alive[0])
        return state._replace(leader=first, leader_epoch=state.leader_epoch + 1, isr=(first,))
    # With nobody of the ISR alive it stays as it was: its members alone may lead later.
    isr = in_sync or state.isr
    if in_sync and all(replica in unheard for replica in in_sync):
        # Nobody of the living is known yet to have what it counts for.
        isr = tuple(replica for replica in state.isr if replica in state.replicas)
    keeps = state.leader in alive and state.leader in in_sync and state.leader not in bounced
    # A run that ended leads again only where nobody else can: what ended it may have done damage.
    able = [r for r in alive if r in in_sync]
    best = min(able, key=lambda r: (r in bounced, r in unheard), default=NO_LEADER)
    leader = state.leader if keeps else best
    if isr == state.isr and leader == state.leader and (keeps or leader == NO_LEADER):
        return None
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)


def decide_preferred(
    state: PartitionState, live: Collection[int], leaving: Collection[int] = ()
) -> PartitionState | None:
    """The state in which the preferred replica leads; None where it does, or cannot."""
    preferred = state.replicas[0] if state.replicas else NO_LEADER
    able = preferred in live and preferred in state.isr and preferred not in leaving
    if state.zk_version == UNWRITTEN or state.leader == preferred or not able:
        return None
    return state._replace(leader=preferred, leader_epoch=state.leader_epoch + 1)


def elect(state: ClusterState, partitions: Iterable[TopicPartition]) -> tuple[WriteState, ...]:
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


def elect_wanted(
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


def election_problem(state: ClusterState, key: TopicPartition, unclean: bool) -> KafkaError | None:
    """Why an election that somebody asks for is not held, as Kafka's controller says it."""
    topic = state.topics.get(key[0])
    partition = None if topic is None else topic.partitions.get(key[1])
    if partition is None:
        return KafkaError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    live = state.able(key)
    if unclean:
        if partition.leader in live:
            return KafkaError(ErrorCode.election_not_needed, "Leader election not needed.")
        if not any(replica in live for replica in partition.replicas):
            return KafkaError(ErrorCode.eligible_leaders_not_available, "No replica is alive.")
        return None
    if partition.leader == partition.replicas[0]:
        return KafkaError(ErrorCode.election_not_needed, "Leader election not needed.")
    if decide_preferred(partition, live, state.leaving) is None:
        return KafkaError(
            ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
        )
    return None


def find_imbalanced(state: ClusterState, percentage_max: int) -> list[TopicPartition]:
    """Partitions to give back to their preferred leader (auto.leader.rebalance.enable).

    All that a broker should lead and does not, where that is more than `percentage_max` of what it
    should lead; those that are being moved are left alone.
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
                partition, state.able((name, index)), state.leaving
            ):
                away.setdefault(first, []).append((name, index))
    return [
        key
        for broker_id, keys in away.items()
        if len(keys) * 100 > percentage_max * preferred[broker_id]
        for key in keys
    ]
