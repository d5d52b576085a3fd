"""Moving replicas between brokers (KIP-455): what is asked, and when it is done. Pure.

    asked      the topic znode gets target + removed replicas, and says which are added and removed
    under way  the added ones fetch and join the ISR, as any follower does
    done       all added ones live in sync, and one that stays (all that stay, where more go than
               come): the znode gets the target, and the election then takes the removed ones out of
               the ISR, and leadership from them

Whether it is done is judged on an ISR that nobody is about to leave. Where the same event takes the
only replica that stays out of the ISR (its broker died, or shuts down), the removed ones are the
last to have everything: their brokers would delete what nobody else holds.

A cancelled one is turned round: what was added is removed. Whoever is asked for in between starts
from the replicas that were there before anything was added; of those that were added and are not
wanted any more, the ones in sync are removed when the new move is done, for they may be the last
that have everything. (So with KRaft, which keeps those that are not in sync as well. In ZooKeeper
mode all of them go at once, even the last.) Cancelled later, such a move keeps them, as in KRaft.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.controller.model.cluster_state import ClusterState, Reassignment, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError


class ReassignmentRequest(NamedTuple):
    """One partition of AlterPartitionReassignments."""

    topic: str
    partition: int
    target: tuple[int, ...] | None
    """None cancels what is under way."""


class PlannedReplicas(NamedTuple):
    """What the topic znode says of one partition."""

    replicas: tuple[int, ...]
    reassignment: Reassignment | None


def plan_reassignment(
    state: ClusterState, request: ReassignmentRequest, *, may_change_factor: bool = True
) -> PlannedReplicas:
    """What to write for a request. Raises KafkaError, with Kafka's codes."""
    key = (request.topic, request.partition)
    topic = state.topics.get(request.topic)
    partition = None if topic is None else topic.partitions.get(request.partition)
    if partition is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    under_way = state.reassigning.get(key)
    added = under_way.adding if under_way is not None else ()
    origin = tuple(replica for replica in partition.replicas if replica not in added)
    target = request.target
    if target is None:
        if under_way is None:
            raise KafkaError(
                ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress."
            )
        return _turned_round(partition, origin, added, _well(state, key))
    _check_target(target, state.brokers.keys())
    asked = partition.replicas if under_way is None else target_of(partition, under_way)
    if not may_change_factor and len(target) != len(asked):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {len(asked)} to {len(target)}",
        )
    adding = tuple(replica for replica in target if replica not in origin)
    removing = tuple(replica for replica in origin if replica not in target)
    if not adding and not removing:
        # Only the order changes, which is nobody's move; or what was under way is undone.
        dropped = [replica for replica in added if replica not in target]
        return _turned_round(partition, target, dropped, _well(state, key))
    joined = tuple(r for r in added if r in partition.isr and r not in target)
    removing = (*joined, *removing)
    return PlannedReplicas((*target, *removing), Reassignment(adding, removing))


def _turned_round(
    partition: PartitionState,
    replicas: tuple[int, ...],
    dropped: Collection[int],
    well: Collection[int],
) -> PlannedReplicas:
    stays = [replica for replica in partition.isr if replica in replicas and replica in well]
    if stays or not dropped:
        return PlannedReplicas(replicas, None)
    # Nobody of those that stay lives in sync: they have to be first.
    removing = tuple(replica for replica in partition.replicas if replica in dropped)
    return PlannedReplicas((*replicas, *removing), Reassignment((), removing))


def target_of(partition: PartitionState, reassignment: Reassignment) -> tuple[int, ...]:
    """The replicas when it is done."""
    return tuple(r for r in partition.replicas if r not in reassignment.removing)


def _well(state: ClusterState, key: TopicPartition) -> Collection[int]:
    """Live brokers that said that they can serve their replica."""
    return set(state.able(key)) - state.unheard


def is_done(partition: PartitionState, reassignment: Reassignment, well: Collection[int]) -> bool:
    """Whether the removed replicas are no longer needed; `well` are brokers that serve theirs.

    As PartitionReassignmentReplicas of Kafka 4.3: where fewer come than go, whoever goes must not
    be what the minimum of in-sync replicas stands on, so all of the target is waited for.
    """
    stays = {replica for replica in partition.isr if replica in well} - set(reassignment.removing)
    needed = set(reassignment.adding)
    if len(reassignment.adding) < len(reassignment.removing):
        needed.update(target_of(partition, reassignment))
    return bool(stays) and needed <= stays


def find_done(
    state: ClusterState, moves: Collection[TopicPartition]
) -> Mapping[TopicPartition, tuple[int, ...]]:
    """The target of each of the moves that is done."""
    done = {}
    for name, index in moves:
        topic = state.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            continue
        reassignment = state.reassigning[name, index]
        # Whoever is removed deletes its replica: those that stay must be known to have theirs.
        if is_done(partition, reassignment, _well(state, (name, index))):
            done[name, index] = target_of(partition, reassignment)
    return done


def _check_target(target: tuple[int, ...], live: Collection[int]) -> None:
    problem = ""
    if not target:
        problem = "Empty replica list specified in partition reassignment."
    elif len(set(target)) != len(target):
        problem = f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    elif unknown := [replica for replica in target if replica not in live]:
        problem = (
            f"Replica assignment has brokers that are not alive. Replica list: {list(target)}, "
            f"not alive: {unknown}"
        )
    if problem:
        raise KafkaError(ErrorCode.invalid_replica_assignment, problem)
