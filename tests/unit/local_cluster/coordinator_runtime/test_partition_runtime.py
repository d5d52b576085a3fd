"""Parking, loading, failing: the runtime of one partition over a replica in memory.

The shard is that of groups, whose answers are easy to read.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from local_cluster.clock import SystemClock
from local_cluster.coordinator_runtime import batches, commit_queue, partition_runtime
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.coordinator_runtime.partition_runtime import (
    PartitionRuntime,
    RuntimeState,
    reload_wait_seconds,
)
from local_cluster.groups.requests import (
    CommitRequest,
    FetchedOffset,
    GroupLimits,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    OffsetToCommit,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.records.control import EndMarker
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.groups.doubles import FakeReplica

Runtime = PartitionRuntime[GroupShard]
LIMITS = GroupLimits(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1)


def new_runtime(replica: FakeReplica, limits: GroupLimits = LIMITS) -> Runtime:
    return PartitionRuntime("offsets-0", replica, lambda: GroupShard(limits), SystemClock())


async def loaded_runtime(replica: FakeReplica, limits: GroupLimits = LIMITS) -> Runtime:
    runtime = new_runtime(replica, limits)
    runtime.start()
    await until_loaded(runtime)
    return runtime


async def until_loaded(runtime: Runtime) -> None:
    while runtime.state is RuntimeState.LOADING:
        await asyncio.sleep(0.001)


def commit(runtime: Runtime, offset: int, group: str = "g") -> asyncio.Future[Any]:
    to_commit = OffsetToCommit("t", 0, offset, 0, None)
    request = CommitRequest(group, "", None, -1, (to_commit,))
    return runtime.ask(lambda shard, ticket, now: shard.commit_offsets(ticket, request, now))


async def replica_that_holds(offset: int) -> FakeReplica:
    """A replica to which a runtime that is closed committed the offset."""
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await commit(runtime, offset)
    runtime.close()
    return replica


def fetch(runtime: Runtime, group: str = "g") -> asyncio.Future[Any]:
    return runtime.ask(lambda shard, ticket, _: shard.fetch_offsets(ticket, group, [("t", 0)]))


def offset_of(fetched: tuple[FetchedOffset, ...]) -> int:
    return fetched[0].committed.offset


def join(runtime: Runtime, **changes: Any) -> asyncio.Future[JoinAnswer]:
    request = JoinRequest(
        "g", "", "instance", "c", "/h", 30_000, 30_000, "consumer", (("range", b""),), "uuid"
    )._replace(**changes)
    return runtime.ask(lambda shard, ticket, now: shard.join(ticket, request, now))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_waits_for_its_records_to_be_committed() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    answer = commit(runtime, 5)
    await settle()
    assert not answer.done()
    replica.commit()
    assert await answer == (ErrorCode.none,)
    runtime.close()


async def test_what_is_read_waits_for_the_commits_before_it() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    commit(runtime, 5)
    fetched = fetch(runtime)
    request = HeartbeatRequest("other", "m", None, 1)
    beat = runtime.ask(lambda shard, ticket, now: shard.heartbeat(ticket, request, now))
    await settle()
    assert not fetched.done()
    assert not beat.done()
    replica.commit()
    assert offset_of(await fetched) == 5
    assert await beat is ErrorCode.unknown_member_id
    runtime.close()


async def test_without_pending_records_the_answer_is_there_at_once() -> None:
    runtime = await loaded_runtime(FakeReplica())
    assert commit(runtime, 5).done()
    assert fetch(runtime).done()
    runtime.close()


async def test_while_it_loads_requests_are_refused() -> None:
    replica = FakeReplica()
    first = await loaded_runtime(replica)
    for offset in range(5):
        commit(first, offset)
    first.close()
    runtime = new_runtime(replica)
    runtime.start()
    with pytest.raises(KafkaError) as refused:
        fetch(runtime)
    assert refused.value.code is ErrorCode.coordinator_load_in_progress
    await until_loaded(runtime)
    assert replica.reads == 5
    assert offset_of(await fetch(runtime)) == 4
    runtime.close()


async def test_what_was_written_but_not_committed_before_a_restart_is_told_once_committed() -> None:
    replica = FakeReplica(commits_at_once=False)
    first = await loaded_runtime(replica)
    commit(first, 7)
    first.close()
    runtime = await loaded_runtime(replica)
    fetched = fetch(runtime)
    await settle()
    assert not fetched.done()
    replica.commit()
    assert offset_of(await fetched) == 7
    runtime.close()


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.kafka_storage_error), OSError(28, "disk full")]
)
async def test_a_failed_append_is_undone(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await commit(runtime, 1)
    waiting = join(runtime, member_id="", group_instance_id=None, requires_known_member_id=True)
    await waiting
    replica.append_error = error
    with pytest.raises(KafkaError) as refused:
        await commit(runtime, 2)
    assert refused.value.code is ErrorCode.not_coordinator
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 1
    runtime.close()


async def test_a_disk_that_stays_full_is_not_hammered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def no_wait(failures_in_a_row: int) -> float:
        asked.append(failures_in_a_row)
        return 0.0

    monkeypatch.setattr(partition_runtime, "reload_wait_seconds", no_wait)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)

    async def fail(error: Exception) -> None:
        replica.append_error = error
        with pytest.raises(KafkaError):
            await commit(runtime, 2)
        await until_loaded(runtime)
        await fetch(runtime)  # reading proves nothing about the disk
        replica.append_error = None

    full = KafkaError(ErrorCode.kafka_storage_error, "full")
    for _ in range(3):
        await fail(full)
    await fail(KafkaError(ErrorCode.record_list_too_large, "not the disk's fault"))
    await fail(full)
    await commit(runtime, 3)
    await fail(full)
    assert asked == [0, 1, 2, 3, 3, 0]
    runtime.close()


def test_reloads_wait_longer_and_longer_up_to_a_bound() -> None:
    waits = [reload_wait_seconds(count) for count in range(100)]
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits == sorted(waits)
    assert waits[-1] == partition_runtime.RELOAD_WAIT_SECONDS_MAX


async def test_when_the_commit_fails_the_state_is_read_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    answer = commit(runtime, 2)
    # The new leader has cut the record away.
    replica.batches.clear()
    replica.log_end_offset = 0
    replica.fail_commits()
    with pytest.raises(KafkaError) as refused:
        await answer
    assert refused.value.code is ErrorCode.not_coordinator
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    runtime.close()


async def test_closing_fails_everyone_who_waits() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    answer = commit(runtime, 2)
    runtime.close()
    with pytest.raises(KafkaError) as refused:
        await answer
    assert refused.value.code is ErrorCode.not_coordinator
    with pytest.raises(KafkaError) as after:
        fetch(runtime)
    assert after.value.code is ErrorCode.not_coordinator
    await runtime.wait_closed()


async def test_a_log_that_cannot_be_read_is_not_served_as_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "LOAD_ATTEMPTS_MAX", 1)
    replica = await replica_that_holds(3)
    broken = bytearray(replica.batches[0])
    broken[-1] ^= 1
    replica.batches[0] = bytes(broken)
    runtime = await loaded_runtime(replica)
    assert runtime.state is RuntimeState.FAILED
    with pytest.raises(KafkaError) as refused:
        fetch(runtime)
    assert refused.value.code is ErrorCode.coordinator_not_available
    runtime.close()


class DefectiveShard(GroupShard):
    """Its replay meets something that nobody foresaw."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        raise KeyError("a defect")


async def test_a_load_that_meets_a_defect_ends_refused_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "LOAD_ATTEMPTS_MAX", 1)
    replica = await replica_that_holds(3)
    runtime = PartitionRuntime("offsets-0", replica, lambda: DefectiveShard(LIMITS), SystemClock())
    runtime.start()
    async with asyncio.timeout(5):
        while runtime.state is RuntimeState.LOADING:
            await asyncio.sleep(0.001)
    assert runtime.state is RuntimeState.FAILED
    runtime.close()


async def test_loading_is_tried_again() -> None:
    replica = await replica_that_holds(3)
    whole = replica.batches[0]
    replica.batches[0] = whole[:-1] + b"\1"
    runtime = new_runtime(replica)
    runtime.start()
    while replica.reads < 2:
        await asyncio.sleep(0.001)
    replica.batches[0] = whole
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 3
    runtime.close()


async def test_a_large_commit_is_cut_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES_TARGET", 1000)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    offsets = tuple(OffsetToCommit("t", index, index, 0, "m" * 50) for index in range(200))
    request = CommitRequest("g", "", None, -1, offsets)
    await runtime.ask(lambda shard, ticket, now: shard.commit_offsets(ticket, request, now))
    assert len(replica.batches) > 10
    assert all(len(batch) < 2500 for batch in replica.batches)
    assert sum(read_header(batch).records_count for batch in replica.batches) == 200
    runtime.close()
    again = await loaded_runtime(replica)
    fetched = await again.ask(lambda shard, ticket, _: shard.fetch_offsets(ticket, "g", None))
    assert [entry.committed.offset for entry in fetched] == list(range(200))
    again.close()


async def test_timers_fire_by_themselves() -> None:
    limits = GroupLimits(group_initial_rebalance_delay_ms=20, group_min_session_timeout_ms=1)
    runtime = await loaded_runtime(FakeReplica(), limits)
    # Nothing else happens: the initial delay ends, then the silent member's session.
    answer = await join(runtime, session_timeout_ms=30)
    assert answer.generation_id == 1
    while runtime.shard.groups["g"].members:
        await asyncio.sleep(0.005)
    runtime.close()


async def test_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_runtime, "WAITING_REQUESTS_MAX", 2)
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    commit(runtime, 1)
    commit(runtime, 2)
    with pytest.raises(KafkaError) as refused:
        commit(runtime, 3)
    assert refused.value.code is ErrorCode.coordinator_not_available
    replica.commit()
    await settle()
    assert commit(runtime, 4)
    runtime.close()


async def test_a_peer_that_is_gone_does_not_matter() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    commit(runtime, 1).cancel()
    replica.commit()
    await settle()
    assert offset_of(await fetch(runtime)) == 1
    runtime.close()


async def test_what_comes_during_a_commit_goes_out_as_one_batch() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    first = commit(runtime, 1, "a")
    later = [commit(runtime, offset, "b") for offset in range(2, 12)]
    fetched = fetch(runtime, "b")
    assert len(replica.batches) == 1
    replica.commit()
    await settle()
    assert first.done()
    assert not any(answer.done() for answer in [*later, fetched])
    assert len(replica.batches) == 2
    assert read_header(replica.batches[1]).records_count == 10
    replica.commit()
    await settle()
    assert all(answer.done() for answer in later)
    assert offset_of(await fetched) == 11
    runtime.close()


async def test_gathered_records_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "BATCH_BYTES_TARGET", 100)
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    answers = [commit(runtime, offset) for offset in range(20)]
    assert len(replica.batches) > 5
    replica.commit()
    await settle()
    replica.commit()
    await settle()
    assert [answer.done() for answer in answers] == [True] * 20
    runtime.close()


async def test_a_marker_comes_after_what_was_gathered() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    commit(runtime, 1)
    commit(runtime, 2)
    ended = runtime.end_transaction(7, 0, EndMarker(True, 1))
    assert [read_header(batch).is_control for batch in replica.batches] == [False, False, True]
    assert not ended.done()
    replica.commit()
    await ended
    runtime.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
async def test_a_failed_write_is_told_as_kafka_tells_it(error: ErrorCode, told: ErrorCode) -> None:
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    replica.append_error = KafkaError(error)
    with pytest.raises(KafkaError) as refused:
        await commit(runtime, 2)
    assert refused.value.code is told
    runtime.close()


async def test_when_gathered_records_cannot_be_appended_everyone_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    first, second = commit(runtime, 1), commit(runtime, 2)
    replica.append_error = OSError(28, "disk full")
    replica.commit()
    await settle()
    assert await first == (ErrorCode.none,)
    with pytest.raises(KafkaError):
        await second
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 1
    runtime.close()


async def test_a_step_that_breaks_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    runtime = await loaded_runtime(FakeReplica())
    await commit(runtime, 1)

    def breaks(shard: GroupShard, ticket: int, now: Now) -> Outcome:
        request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 9, 0, None),))
        shard.commit_offsets(ticket, request, now)
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        runtime.ask(breaks)
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 1
    runtime.close()


def forget(shard: GroupShard, _: Now) -> Outcome:
    return shard.delete_topics(frozenset({"t"}))


async def test_what_is_insisted_on_while_it_loads_is_done_before_the_first_request() -> None:
    replica = await replica_that_holds(3)
    runtime = new_runtime(replica)
    runtime.start()
    runtime.insist(forget)
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    await commit(runtime, 4)
    runtime.close()
    again = await loaded_runtime(replica)
    assert offset_of(await fetch(again)) == 4
    again.close()


async def test_what_is_insisted_on_is_done_again_until_it_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "reload_wait_seconds", lambda failures: 0.0)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await commit(runtime, 3)
    replica.append_error = OSError(28, "disk full")
    runtime.insist(forget)
    assert runtime.state is RuntimeState.LOADING
    for _ in range(3):
        reads = replica.reads
        while replica.reads == reads:
            await asyncio.sleep(0.001)
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    # Then no more: what comes later stays.
    await commit(runtime, 4)
    replica.append_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        await commit(runtime, 5)
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 4
    runtime.close()


async def test_what_is_insisted_on_is_bounded_and_given_up_where_it_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "INSISTED_STEPS_MAX", 2)
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    done: list[int] = []

    def note(number: int, _: GroupShard, __: Now) -> Outcome:
        done.append(number)
        return Outcome()

    runtime = new_runtime(FakeReplica())
    runtime.start()
    for number in range(4):
        runtime.insist(functools.partial(note, number))
    await until_loaded(runtime)
    assert done == [2, 3]

    def breaks(shard: GroupShard, now: Now) -> Outcome:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        runtime.insist(breaks)
    await until_loaded(runtime)
    assert await commit(runtime, 1) == (ErrorCode.none,)
    runtime.close()
    runtime.insist(functools.partial(note, 9))
    assert done == [2, 3]
