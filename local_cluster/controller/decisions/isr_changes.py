"""ISR changes that a leader proposes (AlterPartition, KIP-497), accepted or refused. Pure.

Only the controller writes partition states. A leader proposes; the controller checks the proposal
and writes it under its fence, on the version that the leader named. So a leader that was deposed,
or knows an older state, changes nothing. A replica whose broker died or restarted since it fetched
never joins (KIP-903). The order of the checks follows Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from local_cluster.controller.model.cluster_image import NO_EPOCH, PartitionState
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.controller.model.isr_proposals import IsrProposal
from local_cluster.wire.errors import ErrorCode, KafkaError


def check_broker_epoch(state: ClusterState, broker_id: int, broker_epoch: int) -> None:
    """Raise KafkaError(stale_broker_epoch) unless the broker is registered with this epoch."""
    broker = state.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {broker_id} is not registered with epoch {broker_epoch}",
        )


def decide_isr(
    state: ClusterState, partition: PartitionState, broker_id: int, proposal: IsrProposal
) -> PartitionState:
    """Return the state to write, on the version of `partition`. Raises KafkaError."""
    if partition.leader_epoch != proposal.leader_epoch:
        # A leader with a higher epoch was elected by a newer controller.
        raise KafkaError(
            ErrorCode.fenced_leader_epoch
            if proposal.leader_epoch < partition.leader_epoch
            else ErrorCode.not_controller
        )
    if partition.leader != broker_id:
        raise KafkaError(ErrorCode.invalid_request, f"the leader is broker {partition.leader}")
    if partition.zk_version != proposal.zk_version:
        raise KafkaError(
            ErrorCode.invalid_update_version
            if proposal.zk_version < partition.zk_version
            else ErrorCode.not_controller
        )
    ids = tuple(replica for replica, _ in proposal.isr)
    if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas):
        raise KafkaError(
            ErrorCode.invalid_request, f"{ids} are not distinct replicas of {partition.replicas}"
        )
    if broker_id not in ids:
        raise KafkaError(ErrorCode.invalid_request, "the leader must stay in the ISR")
    for replica, broker_epoch in proposal.isr:
        if not is_eligible(state, partition, replica, broker_epoch):
            raise KafkaError(
                ErrorCode.ineligible_replica,
                f"broker {replica} is gone, restarted or shutting down",
            )
    return partition._replace(isr=ids)


def is_eligible(
    state: ClusterState, partition: PartitionState, replica: int, broker_epoch: int
) -> bool:
    """Return whether a replica may be in the ISR.

    Its broker lives, has not restarted since it fetched, and does not shut down.
    """
    broker = state.brokers.get(replica)
    if broker is None or replica in state.shutting_down:
        # A member stays in the ISR until the controller itself takes it out.
        return replica in partition.isr
    return broker_epoch == NO_EPOCH or broker_epoch == broker.broker_epoch
