"""Limits of groups and of what a member brings, which Kafka does not have."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.consumer.requests import HeartbeatRequest
from local_cluster.groups.requests import (
    CommitRequest,
    GroupLimits,
    JoinRequest,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode

NOW = Now(1_700_000_000_000, 1_000)
TICKET = 1
DEFAULTS = GroupLimits()


def response_of(outcome: Outcome) -> Any:
    ((ticket, response),) = outcome.responses
    assert ticket == TICKET
    return response


def join(shard: GroupShard, group_id: str, *sizes: int) -> ErrorCode:
    protocols = tuple((f"protocol {number}", bytes(size)) for number, size in enumerate(sizes))
    request = JoinRequest(
        group_id, "", None, "client", "host", 10_000, 10_000, "consumer", protocols, "uuid"
    )
    error: ErrorCode = response_of(shard.join(TICKET, request, NOW)).error
    return error


def commit(shard: GroupShard, group_id: str) -> ErrorCode:
    request = CommitRequest(group_id, "", None, -1, (OffsetToCommit("t", 0, 5, 0, None),))
    (error,) = response_of(shard.commit_offsets(TICKET, request, NOW))
    return ErrorCode(error)


def commit_in_transaction(shard: GroupShard, group_id: str) -> ErrorCode:
    request = TransactionalCommitRequest(
        group_id, "", None, -1, 7, 0, (OffsetToCommit("t", 0, 5, 0, None),)
    )
    (error,) = response_of(shard.commit_transactional(TICKET, request, NOW))
    return ErrorCode(error)


def heartbeat(shard: GroupShard, group_id: str) -> ErrorCode:
    request = HeartbeatRequest(
        group_id, "m", 0, None, None, 10_000, ("t",), None, None, {}, "c", "h", lambda _: True
    )
    error: ErrorCode = response_of(shard.consumer_heartbeat(TICKET, request, NOW)).error
    return error


def test_a_group_too_many_is_refused_and_the_others_are_served() -> None:
    shard = GroupShard(GroupLimits(groups_max=3))
    assert join(shard, "classic", 10) is ErrorCode.member_id_required
    assert commit(shard, "offsets") is ErrorCode.none
    assert heartbeat(shard, "consumer") is ErrorCode.none
    for refused in (
        join(shard, "another", 10),
        commit(shard, "another"),
        commit_in_transaction(shard, "another"),
        heartbeat(shard, "another"),
    ):
        assert refused is ErrorCode.policy_violation
    assert join(shard, "classic", 10) is ErrorCode.member_id_required
    assert commit(shard, "offsets") is ErrorCode.none
    assert commit_in_transaction(shard, "offsets") is ErrorCode.none
    assert heartbeat(shard, "consumer") is ErrorCode.none
    assert heartbeat(shard, "offsets") is ErrorCode.none, "it takes the place of the classic one"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((DEFAULTS.member_metadata_bytes_max,), ErrorCode.member_id_required),
        ((DEFAULTS.member_metadata_bytes_max + 1,), ErrorCode.invalid_request),
        ((1, DEFAULTS.member_metadata_bytes_max), ErrorCode.invalid_request),
    ],
)
def test_a_member_brings_no_more_than_a_record_holds(
    sizes: tuple[int, ...], expected: ErrorCode
) -> None:
    shard = GroupShard(DEFAULTS)
    assert join(shard, "g", *sizes) is expected
    assert ("g" in shard.state.classic_groups) == (expected is ErrorCode.member_id_required)
