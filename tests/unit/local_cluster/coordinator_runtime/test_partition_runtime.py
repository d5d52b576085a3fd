"""Responses that wait for a commit, accumulated batches, timers and the end of a term."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.coordinator_runtime import batches, commit_queue, partition_runtime
from local_cluster.groups.requests import CommitRequest, GroupLimits, OffsetToCommit
from local_cluster.records.control import EndMarker
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.coordinator_runtime.group_runtime import (
    commit,
    fetch,
    heartbeat,
    join,
    loaded_runtime,
    offset_of,
    settle,
)
from tests.unit.local_cluster.groups.doubles import FakeReplica


async def test_a_response_waits_for_its_commit() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    response = commit(runtime, 5)
    await settle()
    assert not response.done()
    replica.commit()
    assert await response == (ErrorCode.none,)
    runtime.close()


async def test_a_read_waits_for_earlier_commits() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    commit(runtime, 5)
    fetched = fetch(runtime)
    await settle()
    assert not fetched.done()
    replica.commit()
    assert offset_of(await fetched) == 5
    runtime.close()


async def test_a_heartbeat_waits_for_no_commit() -> None:
    runtime = await loaded_runtime(FakeReplica(commits_at_once=False))
    commit(runtime, 5)
    assert heartbeat(runtime, "m", 1).result() is ErrorCode.unknown_member_id
    runtime.close()


async def test_without_pending_records_the_response_is_immediate() -> None:
    runtime = await loaded_runtime(FakeReplica())
    assert commit(runtime, 5).done()
    assert fetch(runtime).done()
    runtime.close()


async def test_closing_fails_parked_requests() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    response = commit(runtime, 2)
    runtime.close()
    with pytest.raises(KafkaError) as refused:
        await response
    assert refused.value.code is ErrorCode.not_coordinator
    with pytest.raises(KafkaError) as after:
        fetch(runtime)
    assert after.value.code is ErrorCode.not_coordinator
    await runtime.wait_closed()


async def test_a_large_commit_is_split_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES_TARGET", 1000)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    offsets = tuple(OffsetToCommit("t", index, index, 0, "m" * 50) for index in range(200))
    request = CommitRequest("g", "", None, -1, offsets)
    await runtime.submit(lambda shard, ticket, now: shard.commit_offsets(ticket, request, now))
    assert len(replica.batches) > 10
    assert all(len(batch) < 2500 for batch in replica.batches)
    assert sum(read_header(batch).records_count for batch in replica.batches) == 200
    runtime.close()
    again = await loaded_runtime(replica)
    fetched = await again.submit(lambda shard, ticket, _: shard.fetch_offsets(ticket, "g", None))
    assert [entry.committed.offset for entry in fetched] == list(range(200))
    again.close()


async def test_timers_fire_by_themselves() -> None:
    limits = GroupLimits(group_initial_rebalance_delay_ms=20, group_min_session_timeout_ms=1)
    runtime = await loaded_runtime(FakeReplica(), limits)
    # No request arrives: the initial delay ends, then the silent member's session times out.
    response = await join(runtime, session_timeout_ms=30)
    assert response.generation_id == 1
    while runtime.shard.state.classic_groups["g"].members:
        await asyncio.sleep(0.005)
    runtime.close()


async def test_parked_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_runtime, "PARKED_REQUESTS_MAX", 2)
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


async def test_a_cancelled_request_does_not_disturb_others() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    commit(runtime, 1).cancel()
    replica.commit()
    await settle()
    assert offset_of(await fetch(runtime)) == 1
    runtime.close()


async def test_records_during_a_commit_form_one_batch() -> None:
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    first = commit(runtime, 1, "a")
    later = [commit(runtime, offset, "b") for offset in range(2, 12)]
    fetched = fetch(runtime, "b")
    assert len(replica.batches) == 1
    replica.commit()
    await settle()
    assert first.done()
    assert not any(response.done() for response in [*later, fetched])
    assert len(replica.batches) == 2
    assert read_header(replica.batches[1]).records_count == 10
    replica.commit()
    await settle()
    assert all(response.done() for response in later)
    assert offset_of(await fetched) == 11
    runtime.close()


async def test_accumulated_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "BATCH_BYTES_TARGET", 100)
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    responses = [commit(runtime, offset) for offset in range(20)]
    assert len(replica.batches) > 5
    replica.commit()
    await settle()
    replica.commit()
    await settle()
    assert [response.done() for response in responses] == [True] * 20
    runtime.close()


async def test_a_marker_follows_accumulated_records() -> None:
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
