"""Deletions include pending transactional offsets, and a commit does not bring them back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.consumer.requests import HeartbeatRequest
from local_cluster.groups.requests import (
    CommitRequest,
    GroupLimits,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode

NOW = Now(1_000, 1_000)
LATER = Now(10**15, 10**12)
PRODUCER_ID = 7


class Log:
    """A shard with its log, and the shard that a coordinator would load from it."""

    def __init__(self) -> None:
        self.shard = GroupShard(GroupLimits())
        self._replays: list[Callable[[GroupShard], None]] = []

    def do(self, outcome: Outcome, *, in_transaction: bool = False) -> Any:
        for key, value in outcome.records:
            if in_transaction:
                replay = partial(
                    GroupShard.replay_transactional, producer_id=PRODUCER_ID, key=key, value=value
                )
            else:
                replay = partial(GroupShard.replay, key=key, value=value)
            self._replays.append(replay)
        return outcome.responses[0][1]

    def commit(self, partition: int, offset: int) -> None:
        offsets = (OffsetToCommit("t", partition, offset, -1, None),)
        request = CommitRequest("g", "", None, -1, offsets, knows_group_not_found=True)
        assert self.do(self.shard.commit_offsets(0, request, NOW)) == (ErrorCode.none,)

    def commit_in_transaction(self, *partitions: int) -> None:
        offsets = tuple(OffsetToCommit("t", p, 42, -1, None) for p in partitions)
        request = TransactionalCommitRequest("g", "", None, -1, PRODUCER_ID, 0, offsets)
        outcome = self.shard.commit_transactional(0, request, NOW)
        assert not any(self.do(outcome, in_transaction=True))

    def end(self, *, is_commit: bool) -> None:
        def marker(shard: GroupShard) -> None:
            shard.end_transaction(PRODUCER_ID, is_commit=is_commit)

        marker(self.shard)
        self._replays.append(marker)

    def shards(self) -> tuple[GroupShard, GroupShard]:
        """The one that lived through it, and the one that reads it."""
        twin = GroupShard(GroupLimits())
        for replay in self._replays:
            replay(twin)
        twin.finish_load(NOW)
        return self.shard, twin


def test_a_commit_that_names_a_member_is_checked_in_a_consumer_group() -> None:
    shard = GroupShard(GroupLimits())
    joining = HeartbeatRequest(
        *("g", "m", 0, None, None, 60_000, ("t",), None, None, {}, "c", "/h"),
        may_describe=lambda name: True,
    )
    shard.consumer_heartbeat(0, joining, NOW)
    offsets = (OffsetToCommit("t", 0, 42, -1, None),)
    found = {}
    for member_id, instance_id in (("", None), ("x", None), ("", "x")):
        request = TransactionalCommitRequest(
            "g", member_id, instance_id, -1, PRODUCER_ID, 0, offsets
        )
        found[member_id, instance_id] = shard.commit_transactional(0, request, NOW).responses
    assert found == {
        ("", None): [(0, (ErrorCode.none,))],  # a producer of before KIP-447
        ("x", None): [(0, (ErrorCode.unknown_member_id,))],
        ("", "x"): [(0, (ErrorCode.unknown_member_id,))],
    }


def offsets_of(shard: GroupShard) -> dict[int, int]:
    (response,) = (response for _, response in shard.fetch_offsets(0, "g", None).responses)
    assert isinstance(response, tuple)
    return {found.partition: found.committed.offset for found in response}


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_deleted_group_stays_deleted_when_the_transaction_ends(is_commit: bool) -> None:
    log = Log()
    log.commit(1, 5)
    log.commit_in_transaction(0, 1)
    assert log.do(log.shard.delete_group(0, "g", NOW)) is ErrorCode.none
    for shard in log.shards():
        assert shard.state.classic_groups == {}
        assert not shard.state.offsets.has_any("g")
    log.end(is_commit=is_commit)
    for shard in log.shards():
        assert offsets_of(shard) == {}
        assert shard.state.classic_groups == {}
        assert not shard.expire_offsets(LATER).records


def test_a_group_with_only_pending_offsets_can_be_deleted() -> None:
    log = Log()
    log.commit_in_transaction(0)
    assert log.do(log.shard.delete_group(0, "g", NOW)) is ErrorCode.none
    log.end(is_commit=True)
    for shard in log.shards():
        assert offsets_of(shard) == {}
        assert log.do(shard.delete_group(0, "g", NOW)) is ErrorCode.group_id_not_found


def test_a_group_of_the_consumer_protocol() -> None:
    log = Log()
    for epoch in (0, -1):
        owned: dict[Any, frozenset[int]] | None = {} if epoch == 0 else None
        beat = HeartbeatRequest(
            *("g", "m", epoch, None, None, 60_000, ("t",), None, None, owned, "c", "/h"),
            lambda name: True,
        )
        assert not log.do(log.shard.consumer_heartbeat(0, beat, NOW)).error
    log.commit_in_transaction(0)
    assert log.do(log.shard.delete_group(0, "g", NOW)) is ErrorCode.none
    log.end(is_commit=True)
    for shard in log.shards():
        assert "g" not in shard.state.consumer_groups
        assert offsets_of(shard) == {}
        assert shard.state.classic_groups == {}


def test_a_deleted_offset_stays_deleted_when_the_transaction_commits() -> None:
    log = Log()
    log.commit(1, 5)
    log.commit_in_transaction(0, 1, 2)
    deleted = log.shard.delete_offsets(0, "g", [("t", 0), ("t", 1), ("t", 9)])
    assert len(deleted.records) == 2, "only existing offsets need a tombstone"
    assert not any(log.do(deleted))
    log.end(is_commit=True)
    for shard in log.shards():
        assert offsets_of(shard) == {2: 42}


def test_the_transaction_may_commit_again_after_the_deletion() -> None:
    log = Log()
    log.commit_in_transaction(0, 1)
    assert log.do(log.shard.delete_group(0, "g", NOW)) is ErrorCode.none
    log.commit_in_transaction(1)
    log.end(is_commit=True)
    for shard in log.shards():
        assert offsets_of(shard) == {1: 42}
        assert "g" in shard.state.classic_groups
