"""What a leader may change about its in-sync replicas, and the code of each refusal. Pure.

The controller is the only writer of partition states: a leader proposes (AlterPartition, KIP-497),
the controller checks and writes, under its fence and on the version that the leader named. So a
leader that was deposed, or knows of an older state, changes nothing, and a replica whose broker
died or was started again since it fetched never joins (KIP-903). The order of the checks follows
Kafka's ReplicationControlManager.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from local_cluster.controller.model.cluster_image import NO_EPOCH, PartitionState
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.wire.errors import ErrorCode, KafkaError


class IsrProposal(NamedTuple):
    """One partition of an AlterPartition request."""

    topic_id: uuid.UUID
    partition: int
    leader_epoch: int
    isr: tuple[tuple[int, int], ...]
    """(broker id, broker epoch); -1 where the leader does not know the epoch."""
    zk_version: int
    """The state's version that the leader goes by (Kafka's partition epoch)."""


class IsrResult(NamedTuple):
    """What became of a proposal: the state as it is now, or why not."""

    proposal: IsrProposal
    state: PartitionState | None
    error: ErrorCode = ErrorCode.none


def check_proposer(state: ClusterState, broker_id: int, broker_epoch: int) -> None:
    """Raises KafkaError(stale_broker_epoch) for a broker, or a run of it, that is not there."""
    broker = state.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {broker_id} is not registered with epoch {broker_epoch}",
        )


def decide_isr(
    state: ClusterState, partition: PartitionState, broker_id: int, proposal: IsrProposal
) -> PartitionState:
    """The state to write, on the version of `partition`. Raises KafkaError."""
    if partition.leader_epoch != proposal.leader_epoch:
        # A leader that is ahead of this controller was elected by a newer one.
        raise KafkaError(
            ErrorCode.fenced_leader_epoch
            if proposal.leader_epoch < partition.leader_epoch
            else ErrorCode.not_controller
        )
    if partition.leader != broker_id:
        raise KafkaError(ErrorCode.invalid_request, f"broker {partition.leader} leads")
    if partition.zk_version != proposal.zk_version:
        raise KafkaError(
            ErrorCode.invalid_update_version
            if proposal.zk_version < partition.zk_version
            else ErrorCode.not_controller
        )
    ids = tuple(replica for replica, _ in proposal.isr)
    if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas):
        raise KafkaError(ErrorCode.invalid_request, f"{ids} are no replicas of the partition")
    if broker_id not in ids:
        raise KafkaError(ErrorCode.invalid_request, "the leader must stay in sync")
    for replica, broker_epoch in proposal.isr:
        if not is_eligible(state, partition, replica, broker_epoch):
            raise KafkaError(ErrorCode.ineligible_replica, f"broker {replica}")
    return partition._replace(isr=ids)


def is_eligible(
    state: ClusterState, partition: PartitionState, replica: int, broker_epoch: int
) -> bool:
    """Whether a replica may be in sync: its broker lives, in the run that fetched, and stays."""
    broker = state.brokers.get(replica)
    if broker is None or replica in state.leaving:
        # Who is in sync already stays so until the controller itself takes it out.
        return replica in partition.isr
    return broker_epoch == NO_EPOCH or broker_epoch == broker.broker_epoch
