"""AlterPartition v3 (KIP-497, KIP-903): the ISR that a leader proposes, and the answer.

decisions/isr_changes.py accepts or refuses a proposal.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from local_cluster.controller.model.cluster_image import NO_EPOCH, NO_LEADER, PartitionState
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.wire.responses.cluster import AlterPartitionResponse, PartitionData

VERSION: Final = 3
RECOVERED: Final = 0
"""LeaderRecoveryState: the leader does not recover from an unclean election."""


class IsrProposal(NamedTuple):
    """One partition of an AlterPartition request."""

    topic_id: uuid.UUID
    partition: int
    leader_epoch: int
    isr: tuple[tuple[int, int], ...]
    """(broker id, broker epoch); -1 where the leader does not know the epoch."""
    zk_version: int
    """The version of the state that the leader goes by (Kafka's partition epoch)."""


class IsrResult(NamedTuple):
    """The answer to a proposal: the new state, or an error."""

    proposal: IsrProposal
    state: PartitionState | None
    error: ErrorCode = ErrorCode.none


def request_fields(
    broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
) -> dict[str, Any]:
    """Return the fields of a request. Proposals of one topic must be adjacent."""
    return {
        "broker_id": broker_id,
        "broker_epoch": broker_epoch,
        "topics": [
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": each.partition,
                        "leader_epoch": each.leader_epoch,
                        "new_isr_with_epochs": [
                            {"broker_id": replica, "broker_epoch": epoch}
                            for replica, epoch in each.isr
                        ],
                        "leader_recovery_state": RECOVERED,
                        "partition_epoch": each.zk_version,
                    }
                    for each in group
                ],
            }
            for topic_id, group in itertools.groupby(proposals, lambda each: each.topic_id)
        ],
    }


def read_request(request: Any) -> list[IsrProposal]:
    """Return the proposals of a decoded request (kio)."""
    return [
        IsrProposal(
            topic.topic_id,
            int(entry.partition_index),
            int(entry.leader_epoch),
            tuple(
                (int(each.broker_id), int(each.broker_epoch)) for each in entry.new_isr_with_epochs
            ),
            int(entry.partition_epoch),
        )
        for topic in request.topics
        for entry in topic.partitions
    ]


def response_fields(results: Sequence[IsrResult]) -> AlterPartitionResponse:
    """Return the fields of a response. Results of one topic are adjacent, as its proposals."""
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "topic_id": topic_id,
                "partitions": [_partition_fields(each) for each in group],
            }
            for topic_id, group in itertools.groupby(results, lambda each: each.proposal.topic_id)
        ],
    }


def _partition_fields(result: IsrResult) -> PartitionData:
    # A refusal carries no state, but these fields have no defaults on the wire.
    state = result.state or PartitionState(
        result.proposal.partition, (), NO_LEADER, NO_EPOCH, (), NO_EPOCH
    )
    return {
        "partition_index": result.proposal.partition,
        "error_code": result.error,
        "leader_id": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "leader_recovery_state": RECOVERED,
        "partition_epoch": state.zk_version,
    }


def read_response(
    response: Any,
    proposals: Sequence[IsrProposal],
    replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
) -> list[IsrResult]:
    """Return one result per proposal. Raises KafkaError if the whole request was refused."""
    if response.error_code:
        raise KafkaError(response.error_code, "AlterPartition refused")
    found: dict[tuple[uuid.UUID, int], Any] = {
        (topic.topic_id, int(entry.partition_index)): entry
        for topic in response.topics
        for entry in topic.partitions
    }
    results = []
    for proposal in proposals:
        key = (proposal.topic_id, proposal.partition)
        entry = found.get(key)
        if entry is None:
            results.append(IsrResult(proposal, None, ErrorCode.unknown_server_error))
        elif entry.error_code:
            results.append(IsrResult(proposal, None, ErrorCode(entry.error_code)))
        else:
            state = PartitionState(
                proposal.partition,
                replicas[key],
                int(entry.leader_id),
                int(entry.leader_epoch),
                tuple(int(each) for each in entry.isr),
                int(entry.partition_epoch),
            )
            results.append(IsrResult(proposal, state))
    return results
