"""Reassignment of replicas (KIP-455): the plan for a request, and when it is complete. Pure.

    requested    the topic znode gets target + removed replicas, and lists both added and removed
    in progress  the added replicas fetch and join the ISR, as any follower does
    complete     all added replicas are in sync and alive, and one that stays is too (all that stay,
                 if more are removed than added). The znode gets the target. The election then takes
                 the removed replicas out of the ISR, and leadership from them.

Completion is checked on an ISR that no replica is about to leave. One event may take the only
staying replica out of the ISR (its broker died, or shuts down). The removed replicas are then the
last complete ones, and their brokers would delete the only copy.

A cancelled reassignment is reversed: the added replicas are removed. A request for another target
starts from the replicas before the first reassignment. Replicas that were added and are not in the
new target are removed when it is complete, if they are in sync: they may be the last complete ones.
KRaft does the same, and also keeps those that are not in sync; ZooKeeper mode drops all of them at
once, even the last one. If such a reassignment is cancelled later, it keeps them, as in KRaft.
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
    """None cancels the reassignment in progress."""


class PlannedReplicas(NamedTuple):
    """The topic znode's entry of one partition."""

    replicas: tuple[int, ...]
    reassignment: Reassignment | None


def plan_reassignment(
    state: ClusterState, request: ReassignmentRequest, *, may_change_factor: bool = True
) -> PlannedReplicas:
    """Return what to write for a request. Raises KafkaError, with Kafka's codes."""
    key = (request.topic, request.partition)
    topic = state.topics.get(request.topic)
    partition = None if topic is None else topic.partitions.get(request.partition)
    if topic is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {request.topic}."
        )
    if partition is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition,
            f"Unable to find partition {request.topic}:{request.partition}.",
        )
    in_progress = state.reassigning.get(key)
    added = in_progress.adding if in_progress is not None else ()
    origin = tuple(replica for replica in partition.replicas if replica not in added)
    target = request.target
    if target is None:
        if in_progress is None:
            raise KafkaError(
                ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress."
            )
        return _revert(partition, origin, added, _healthy(state, key))
    _check_target(target, state.brokers.keys())
    current = partition.replicas if in_progress is None else target_of(partition, in_progress)
    if not may_change_factor and len(target) != len(current):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor would change from {len(current)} to {len(target)}",
        )
    adding = tuple(replica for replica in target if replica not in origin)
    removing = tuple(replica for replica in origin if replica not in target)
    if not adding and not removing:
        # Only the order changes, so no replica moves; or the reassignment in progress is undone.
        dropped = [replica for replica in added if replica not in target]
        return _revert(partition, target, dropped, _healthy(state, key))
    joined = tuple(r for r in added if r in partition.isr and r not in target)
    removing = (*joined, *removing)
    return PlannedReplicas((*target, *removing), Reassignment(adding, removing))


def _revert(
    partition: PartitionState,
    replicas: tuple[int, ...],
    dropped: Collection[int],
    healthy: Collection[int],
) -> PlannedReplicas:
    stays = [replica for replica in partition.isr if replica in replicas and replica in healthy]
    if stays or not dropped:
        return PlannedReplicas(replicas, None)
    # No staying replica is in sync and alive: wait for one before the others are removed.
    removing = tuple(replica for replica in partition.replicas if replica in dropped)
    return PlannedReplicas((*replicas, *removing), Reassignment((), removing))


def target_of(partition: PartitionState, reassignment: Reassignment) -> tuple[int, ...]:
    """Return the replicas after completion."""
    return tuple(r for r in partition.replicas if r not in reassignment.removing)


def _healthy(state: ClusterState, key: TopicPartition) -> Collection[int]:
    """Return the live brokers that have reported, and serve their replica of the partition."""
    return set(state.online_brokers(key)) - state.unreported


def is_complete(
    partition: PartitionState, reassignment: Reassignment, healthy: Collection[int]
) -> bool:
    """Return whether the removed replicas are no longer needed.

    `healthy` are the brokers that serve their replica. As PartitionReassignmentReplicas of Kafka
    4.3: if more replicas are removed than added, all of the target must be in sync, so that
    min.insync.replicas does not depend on a removed one.
    """
    stays = {replica for replica in partition.isr if replica in healthy}
    stays -= set(reassignment.removing)
    needed = set(reassignment.adding)
    if len(reassignment.adding) < len(reassignment.removing):
        needed.update(target_of(partition, reassignment))
    return bool(stays) and needed <= stays


def find_completed(
    state: ClusterState, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Return the target of each reassignment of these partitions that is complete."""
    completed = {}
    for name, index in partitions:
        topic = state.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            continue
        reassignment = state.reassigning[name, index]
        # A removed broker deletes its replica, so the staying ones must have confirmed theirs.
        if is_complete(partition, reassignment, _healthy(state, (name, index))):
            completed[name, index] = target_of(partition, reassignment)
    return completed


def _check_target(target: tuple[int, ...], live: Collection[int]) -> None:
    problem = ""
    if not target:
        problem = "Empty replica list specified in partition reassignment."
    elif twice := [replica for replica in target if target.count(replica) > 1]:
        problem = f"The manual partition assignment includes the broker {twice[0]} more than once."
    elif unknown := [replica for replica in target if replica not in live]:
        problem = (
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is"
            " registered."
        )
    if problem:
        raise KafkaError(ErrorCode.invalid_replica_assignment, problem)
