"""Appends, commits and steps that fail: undone, reported, and retried with a backoff."""

from __future__ import annotations

import pytest

from local_cluster.coordinator_runtime import partition_runtime
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.coordinator_runtime.partition_runtime import reload_wait_seconds
from local_cluster.groups.requests import CommitRequest, OffsetToCommit
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.coordinator_runtime.group_runtime import (
    commit,
    fetch,
    join,
    loaded_runtime,
    offset_of,
    settle,
    until_loaded,
)
from tests.unit.local_cluster.groups.doubles import FakeReplica


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


async def test_reloads_back_off_while_the_disk_stays_full(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[int] = []

    def no_wait(failures_in_a_row: int) -> float:
        failures.append(failures_in_a_row)
        return 0.0

    monkeypatch.setattr(partition_runtime, "reload_wait_seconds", no_wait)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)

    async def fail(error: Exception) -> None:
        replica.append_error = error
        with pytest.raises(KafkaError):
            await commit(runtime, 2)
        await until_loaded(runtime)
        await fetch(runtime)  # a read does not prove that the disk works
        replica.append_error = None

    full = KafkaError(ErrorCode.kafka_storage_error, "full")
    for _ in range(3):
        await fail(full)
    await fail(KafkaError(ErrorCode.record_list_too_large, "no sign of a failing disk"))
    await fail(full)
    await commit(runtime, 3)
    await fail(full)
    assert failures == [0, 1, 2, 3, 3, 0]
    runtime.close()


def test_the_reload_backoff_is_bounded() -> None:
    waits = [reload_wait_seconds(count) for count in range(100)]
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits == sorted(waits)
    assert waits[-1] == partition_runtime.RELOAD_WAIT_SECONDS_MAX


async def test_a_failed_commit_reloads_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    response = commit(runtime, 2)
    # The new leader has truncated the record.
    replica.batches.clear()
    replica.log_end_offset = 0
    replica.fail_commits()
    with pytest.raises(KafkaError) as refused:
        await response
    assert refused.value.code is ErrorCode.not_coordinator
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    runtime.close()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
async def test_a_failed_write_has_kafkas_error(error: ErrorCode, expected: ErrorCode) -> None:
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    replica.append_error = KafkaError(error)
    with pytest.raises(KafkaError) as refused:
        await commit(runtime, 2)
    assert refused.value.code is expected
    runtime.close()


async def test_a_failed_append_of_accumulated_records_fails_their_requests(
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


async def test_a_step_that_raises_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    runtime = await loaded_runtime(FakeReplica())
    await commit(runtime, 1)

    def raises(shard: GroupShard, ticket: int, now: Now) -> Outcome:
        request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 9, 0, None),))
        shard.commit_offsets(ticket, request, now)
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        runtime.submit(raises)
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 1
    runtime.close()
