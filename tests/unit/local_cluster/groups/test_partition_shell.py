"""Parking, loading, failing: the shell of one partition over a replica in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local_cluster.clock import SystemClock
from local_cluster.groups import partition_shell
from local_cluster.groups.partition_shell import PartitionShell, ShellState
from local_cluster.groups.requests import (
    CommitRequest,
    FetchedOffset,
    GroupLimits,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    OffsetToCommit,
)
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.groups.doubles import FakeReplica

LIMITS = GroupLimits(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1)


async def loaded_shell(replica: FakeReplica, limits: GroupLimits = LIMITS) -> PartitionShell:
    shell = PartitionShell(0, replica, limits, SystemClock())
    shell.start()
    await until_loaded(shell)
    return shell


async def until_loaded(shell: PartitionShell) -> None:
    while shell.state is ShellState.LOADING:
        await asyncio.sleep(0.001)


def commit(shell: PartitionShell, offset: int, group: str = "g") -> asyncio.Future[Any]:
    to_commit = OffsetToCommit("t", 0, offset, 0, None)
    request = CommitRequest(group, "", None, -1, (to_commit,))
    return shell.ask(lambda shard, ticket, now: shard.commit_offsets(ticket, request, now))


def fetch(shell: PartitionShell, group: str = "g") -> asyncio.Future[Any]:
    return shell.ask(lambda shard, ticket, _: shard.fetch_offsets(ticket, group, [("t", 0)]))


def offset_of(fetched: tuple[FetchedOffset, ...]) -> int:
    return fetched[0].committed.offset


def join(shell: PartitionShell, **changes: Any) -> asyncio.Future[JoinAnswer]:
    request = JoinRequest(
        "g", "", "instance", "c", "/h", 30_000, 30_000, "consumer", (("range", b""),), "uuid"
    )._replace(**changes)
    return shell.ask(lambda shard, ticket, now: shard.join(ticket, request, now))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_waits_for_its_records_to_be_committed() -> None:
    replica = FakeReplica(commits_at_once=False)
    shell = await loaded_shell(replica)
    answer = commit(shell, 5)
    await settle()
    assert not answer.done()
    replica.commit()
    assert await answer == (ErrorCode.none,)
    shell.close()


async def test_what_is_read_waits_for_the_commits_before_it() -> None:
    replica = FakeReplica(commits_at_once=False)
    shell = await loaded_shell(replica)
    commit(shell, 5)
    fetched = fetch(shell)
    request = HeartbeatRequest("other", "m", None, 1)
    beat = shell.ask(lambda shard, ticket, now: shard.heartbeat(ticket, request, now))
    await settle()
    assert not fetched.done()
    assert not beat.done()
    replica.commit()
    assert offset_of(await fetched) == 5
    assert await beat is ErrorCode.unknown_member_id
    shell.close()


async def test_without_pending_records_the_answer_is_there_at_once() -> None:
    shell = await loaded_shell(FakeReplica())
    assert commit(shell, 5).done()
    assert fetch(shell).done()
    shell.close()


async def test_while_it_loads_requests_are_refused() -> None:
    replica = FakeReplica()
    first = await loaded_shell(replica)
    for offset in range(5):
        commit(first, offset)
    first.close()
    shell = PartitionShell(0, replica, LIMITS, SystemClock())
    shell.start()
    with pytest.raises(KafkaError) as refused:
        fetch(shell)
    assert refused.value.code is ErrorCode.coordinator_load_in_progress
    await until_loaded(shell)
    assert replica.reads == 5
    assert offset_of(await fetch(shell)) == 4
    shell.close()


async def test_what_was_written_but_not_committed_before_a_restart_is_told_once_committed() -> None:
    replica = FakeReplica(commits_at_once=False)
    first = await loaded_shell(replica)
    commit(first, 7)
    first.close()
    shell = await loaded_shell(replica)
    fetched = fetch(shell)
    await settle()
    assert not fetched.done()
    replica.commit()
    assert offset_of(await fetched) == 7
    shell.close()


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.kafka_storage_error), OSError(28, "disk full")]
)
async def test_a_failed_append_is_undone(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_shell, "RELOAD_WAIT_SECONDS", 0.0)
    replica = FakeReplica()
    shell = await loaded_shell(replica)
    await commit(shell, 1)
    waiting = join(shell, member_id="", group_instance_id=None, requires_known_member_id=True)
    await waiting
    replica.append_error = error
    with pytest.raises(KafkaError) as refused:
        await commit(shell, 2)
    assert refused.value.code is ErrorCode.not_coordinator
    replica.append_error = None
    await until_loaded(shell)
    assert offset_of(await fetch(shell)) == 1
    shell.close()


async def test_when_the_commit_fails_the_state_is_read_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_shell, "RELOAD_WAIT_SECONDS", 0.0)
    replica = FakeReplica(commits_at_once=False)
    shell = await loaded_shell(replica)
    answer = commit(shell, 2)
    # The new leader has cut the record away.
    replica.batches.clear()
    replica.log_end_offset = 0
    replica.fail_commits()
    with pytest.raises(KafkaError) as refused:
        await answer
    assert refused.value.code is ErrorCode.not_coordinator
    await until_loaded(shell)
    assert offset_of(await fetch(shell)) == -1
    shell.close()


async def test_closing_fails_everyone_who_waits() -> None:
    replica = FakeReplica(commits_at_once=False)
    shell = await loaded_shell(replica)
    answer = commit(shell, 2)
    shell.close()
    with pytest.raises(KafkaError) as refused:
        await answer
    assert refused.value.code is ErrorCode.not_coordinator
    with pytest.raises(KafkaError) as after:
        fetch(shell)
    assert after.value.code is ErrorCode.not_coordinator
    await shell.wait_closed()


async def test_a_log_that_cannot_be_read_is_not_served_as_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_shell, "LOAD_ATTEMPTS_MAX", 1)
    replica = FakeReplica()
    first = await loaded_shell(replica)
    await commit(first, 3)
    first.close()
    broken = bytearray(replica.batches[0])
    broken[-1] ^= 1
    replica.batches[0] = bytes(broken)
    shell = await loaded_shell(replica)
    assert shell.state is ShellState.FAILED
    with pytest.raises(KafkaError) as refused:
        fetch(shell)
    assert refused.value.code is ErrorCode.coordinator_not_available
    shell.close()


async def test_loading_is_tried_again() -> None:
    replica = FakeReplica()
    first = await loaded_shell(replica)
    await commit(first, 3)
    first.close()
    whole = replica.batches[0]
    replica.batches[0] = whole[:-1] + b"\1"
    shell = PartitionShell(0, replica, LIMITS, SystemClock())
    shell.start()
    while replica.reads < 2:
        await asyncio.sleep(0.001)
    replica.batches[0] = whole
    await until_loaded(shell)
    assert offset_of(await fetch(shell)) == 3
    shell.close()


async def test_a_large_commit_is_cut_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_shell, "BATCH_BYTES_TARGET", 1000)
    replica = FakeReplica()
    shell = await loaded_shell(replica)
    offsets = tuple(OffsetToCommit("t", index, index, 0, "m" * 50) for index in range(200))
    request = CommitRequest("g", "", None, -1, offsets)
    await shell.ask(lambda shard, ticket, now: shard.commit_offsets(ticket, request, now))
    assert len(replica.batches) > 10
    assert all(len(batch) < 2500 for batch in replica.batches)
    assert sum(read_header(batch).records_count for batch in replica.batches) == 200
    shell.close()
    again = await loaded_shell(replica)
    fetched = await again.ask(lambda shard, ticket, _: shard.fetch_offsets(ticket, "g", None))
    assert [entry.committed.offset for entry in fetched] == list(range(200))
    again.close()


async def test_timers_fire_by_themselves() -> None:
    limits = GroupLimits(group_initial_rebalance_delay_ms=20, group_min_session_timeout_ms=1)
    shell = await loaded_shell(FakeReplica(), limits)
    # Nothing else happens: the initial delay ends, then the silent member's session.
    answer = await join(shell, session_timeout_ms=30)
    assert answer.generation_id == 1
    while shell.shard.groups["g"].members:
        await asyncio.sleep(0.005)
    shell.close()


async def test_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_shell, "WAITING_REQUESTS_MAX", 2)
    replica = FakeReplica(commits_at_once=False)
    shell = await loaded_shell(replica)
    commit(shell, 1)
    commit(shell, 2)
    with pytest.raises(KafkaError) as refused:
        commit(shell, 3)
    assert refused.value.code is ErrorCode.coordinator_not_available
    replica.commit()
    await settle()
    assert commit(shell, 4)
    shell.close()


async def test_a_peer_that_is_gone_does_not_matter() -> None:
    replica = FakeReplica(commits_at_once=False)
    shell = await loaded_shell(replica)
    commit(shell, 1).cancel()
    replica.commit()
    await settle()
    assert offset_of(await fetch(shell)) == 1
    shell.close()
