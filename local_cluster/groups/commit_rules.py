"""Who may commit positions of a classic group, and when.

A member of an old generation, or of a group that is just handing out assignments, may not.
Source: Kafka's ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup
from local_cluster.groups.requests import UNKNOWN_MEMBER, CommitRequest, TransactionalCommitRequest
from local_cluster.wire.errors import ErrorCode


def validate_commit(group: ClassicGroup, request: CommitRequest) -> ErrorCode:
    """Whether this request may commit to this group in its present state."""
    if request.generation_id < 0 and group.state is GroupState.EMPTY:
        # A consumer that assigns itself its partitions, or an administrator.
        return ErrorCode.none
    if (
        request.generation_id < 0
        and request.member_id == UNKNOWN_MEMBER
        and request.group_instance_id is None
    ):
        # Members own the positions of a group that has members.
        return ErrorCode.unknown_member_id
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member does not know yet what it owns in this generation.
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def validate_transactional_commit(
    group: ClassicGroup, request: TransactionalCommitRequest
) -> ErrorCode:
    """Whether this transaction may commit to this group in its present state.

    Clients older than KIP-447 name no member, and are let in; a rebalance is no hindrance, as the
    generation is checked and the transaction fences its own zombies.
    """
    if request.generation_id < 0 and (
        group.state is GroupState.EMPTY
        or (request.member_id == UNKNOWN_MEMBER and request.group_instance_id is None)
    ):
        return ErrorCode.none
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    return ErrorCode.none
