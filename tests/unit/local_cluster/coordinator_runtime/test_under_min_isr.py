"""The ISR is smaller than min.insync.replicas: no append, and no request waits without limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from local_cluster.clock import SystemClock
from local_cluster.coordinator_runtime import partition_runtime
from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime, RuntimeState
from local_cluster.groups.requests import (
    GroupLimits,
    HeartbeatRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from local_cluster.records.batch import iter_records
from local_cluster.records.control import EndMarker
from local_cluster.records.header import read_header
from local_cluster.transactions.requests import TransactionLimits, TransactionOutcome
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction import Transaction
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.coordinator_runtime.group_runtime import (
    Runtime,
    commit,
    commit_request,
    delete_topic,
    fetch,
    heartbeat,
    join,
    loaded_runtime,
    new_runtime,
    offset_of,
    replica_that_holds,
    settle,
    until_loaded,
)
from tests.unit.local_cluster.groups.doubles import FakeBroker, FakeReplica

DELAYED = GroupLimits(group_initial_rebalance_delay_ms=1)


@pytest.fixture(autouse=True)
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_runtime, "WRITABLE_POLL_SECONDS", 0.001)
    monkeypatch.setattr(partition_runtime, "GRACE_MS", 0)


def assert_refused(request: Callable[[], object]) -> None:
    with pytest.raises(KafkaError) as refused:
        request()
    assert refused.value.code is ErrorCode.coordinator_not_available


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.001)


async def test_writes_are_refused_and_change_nothing() -> None:
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    member = await join(runtime)
    await commit(runtime, 5, "other")
    written = list(replica.batches)
    replica.is_under_min_isr = True
    for _ in range(3):
        assert_refused(lambda: commit(runtime, 6, "other"))
        assert_refused(lambda: join(runtime, group_instance_id="another"))
    assert replica.batches == written
    # The state was not dropped, which would have reverted the rebalance under way.
    assert runtime.state is RuntimeState.ACTIVE
    assert heartbeat(runtime, member.member_id, 1).result() is ErrorCode.none
    assert offset_of(await fetch(runtime, "other")) == 5
    replica.is_under_min_isr = False
    assert await commit(runtime, 6, "other") == (ErrorCode.none,)
    runtime.close()


async def test_reads_are_served() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    broker.partitions[0].is_under_min_isr = True
    groups = broker.groups
    assert (
        await groups.heartbeat(HeartbeatRequest("g", "m", None, 1)) is ErrorCode.unknown_member_id
    )
    assert await broker.positions("g") == ()
    assert (await groups.describe("g")).state == "Dead"
    assert (await groups.describe_consumer_group("g")).error is ErrorCode.group_id_not_found
    leaving = LeaveRequest("g", (LeavingMember("m", None),))
    for request in (
        lambda: groups.leave(leaving),
        lambda: groups.sync(SyncRequest("g", "m", None, 1, "consumer", "range", ())),
        lambda: groups.delete_group("g"),
        lambda: groups.delete_offsets("g", (("t", 0),)),
    ):
        assert_refused(request)
    await groups.stop()


async def test_parked_requests_fail_when_replicas_fall_out_of_sync() -> None:
    """Their records stay, and are committed when the replicas are back, as in Kafka."""
    replica = FakeReplica(commits_at_once=False)
    runtime = await loaded_runtime(replica)
    responses = [commit(runtime, 5), commit(runtime, 6), fetch(runtime)]
    replica.is_under_min_isr = True
    assert heartbeat(runtime, "m", 1).done()
    assert_refused(lambda: fetch(runtime))  # it would wait for a commit
    for response in responses:
        with pytest.raises(KafkaError) as refused:
            await asyncio.wait_for(response, 60)
        assert refused.value.code is ErrorCode.coordinator_not_available
    replica.is_under_min_isr = False
    replica.commits_at_once = True
    replica.commit()
    await settle()
    assert offset_of(await fetch(runtime)) == 6
    assert len(replica.batches) == 2
    runtime.close()


async def test_timers_are_deferred() -> None:
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    member = await join(runtime, session_timeout_ms=1)
    polls = watch_polls(runtime)
    replica.is_under_min_isr = True
    await until(lambda: len(polls) > 3)
    # Removing the last member would write a record.
    assert runtime.shard.state.classic_groups["g"].members.keys() == {member.member_id}
    assert not replica.batches
    replica.is_under_min_isr = False
    await until(lambda: not runtime.shard.state.classic_groups["g"].members)
    assert len(replica.batches) == 1
    runtime.close()


async def test_members_with_refused_heartbeats_get_a_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "GRACE_MS", 600_000)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await join(runtime, session_timeout_ms=1)
    polls = watch_polls(runtime)
    replica.is_under_min_isr = True
    await until(lambda: len(polls) > 3)
    replica.is_under_min_isr = False
    before_ms = SystemClock().monotonic_ms()
    await until(lambda: (runtime.shard.next_deadline_ms() or 0) > before_ms + 300_000)
    assert runtime.shard.state.classic_groups["g"].members
    runtime.close()


async def test_deadlines_that_are_set_after_the_replicas_are_back_are_not_deferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first request comes before the poll notices the replicas."""
    monkeypatch.setattr(partition_runtime, "WRITABLE_POLL_SECONDS", 600.0)
    monkeypatch.setattr(partition_runtime, "GRACE_MS", 600_000)
    replica = FakeReplica()
    replica.is_under_min_isr = True
    runtime = await loaded_runtime(replica, DELAYED)
    assert_refused(lambda: join(runtime))
    replica.is_under_min_isr = False
    assert (await join(runtime)).error is ErrorCode.none
    runtime.close()


async def test_a_group_that_all_members_have_joined_is_not_deferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "GRACE_MS", 600_000)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica, DELAYED)
    joining = join(runtime)
    polls = watch_polls(runtime)
    replica.is_under_min_isr = True
    await until(lambda: len(polls) > 3)
    assert not joining.done()
    replica.is_under_min_isr = False
    assert (await joining).error is ErrorCode.none
    runtime.close()


async def test_a_mandatory_step_waits_until_it_can_be_committed() -> None:
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await commit(runtime, 5)
    replica.is_under_min_isr = True
    runtime.run_mandatory_step(delete_topic)
    runtime.run_step(delete_topic)
    await settle()
    assert len(replica.batches) == 1
    assert offset_of(await fetch(runtime)) == 5
    replica.is_under_min_isr = False
    await until(lambda: len(replica.batches) == 2)
    assert offset_of(await fetch(runtime)) == -1
    runtime.close()


@pytest.mark.parametrize("is_loading", [False, True])
async def test_a_deferred_step_deletes_no_later_commit(
    is_loading: bool,
) -> None:
    """The offsets of the deleted topic go, those of the re-created topic stay."""
    replica = await replica_that_holds(5)
    runtime = new_runtime(replica)
    runtime.start()
    replica.is_under_min_isr = True
    if is_loading:
        runtime.run_mandatory_step(delete_topic)
    await until_loaded(runtime)
    if not is_loading:
        runtime.run_mandatory_step(delete_topic)
    assert len(replica.batches) == 1
    replica.is_under_min_isr = False
    # Before the next poll notices that the replicas are back.
    assert await commit(runtime, 7) == (ErrorCode.none,)
    await until(lambda: runtime._writable_poll is None)
    assert offset_of(await fetch(runtime)) == 7
    runtime.close()
    again = await loaded_runtime(replica)
    assert offset_of(await fetch(again)) == 7
    again.close()


async def test_a_mandatory_step_runs_once_per_state() -> None:
    replica = await replica_that_holds(5)
    replica.commits_at_once = False
    runtime = await loaded_runtime(replica)
    runtime.run_mandatory_step(delete_topic)
    response = commit(runtime, 7)
    replica.is_under_min_isr = True
    assert_refused(lambda: commit(runtime, 8))
    replica.is_under_min_isr = False
    await until(lambda: runtime._writable_poll is None)
    replica.commits_at_once = True
    replica.commit()
    assert await response == (ErrorCode.none,)
    assert offset_of(await fetch(runtime)) == 7
    runtime.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda runtime: commit(runtime, 7),
        lambda runtime: fetch(runtime),
        lambda runtime: runtime.run_step(
            lambda shard, now: shard.commit_offsets(0, commit_request(7), now)
        ),
        lambda runtime: runtime.end_transaction(9, 0, EndMarker(True, 0)),
    ],
    ids=["request", "read", "step", "marker"],
)
async def test_a_deferred_step_runs_before_the_next_write(
    write: Callable[[Runtime], object],
) -> None:
    replica = await replica_that_holds(5)
    runtime = await loaded_runtime(replica)
    replica.is_under_min_isr = True
    runtime.run_mandatory_step(delete_topic)
    replica.is_under_min_isr = False
    write(runtime)
    tombstones = replica.batches[1]
    assert not read_header(tombstones).is_control
    assert [record.value for record in iter_records(tombstones)] == [None]
    runtime.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda runtime: commit(runtime, 7),
        lambda runtime: runtime.end_transaction(9, 0, EndMarker(True, 0)),
    ],
    ids=["request", "marker"],
)
async def test_a_deferred_step_that_fails_refuses_the_next_request(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[Runtime], object]
) -> None:
    monkeypatch.setattr(partition_runtime, "reload_wait_seconds", lambda failures: 0.0)
    replica = await replica_that_holds(5)
    runtime = await loaded_runtime(replica)
    replica.is_under_min_isr = True
    runtime.run_mandatory_step(delete_topic)
    replica.is_under_min_isr = False
    replica.append_error = OSError(28, "disk full")
    with pytest.raises(KafkaError) as refused:
        write(runtime)
    assert refused.value.code is ErrorCode.coordinator_load_in_progress
    assert len(replica.batches) == 1
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    runtime.close()


async def test_the_completion_of_a_transaction_waits_until_it_can_be_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not repeated: without it the next transaction of the id could never begin."""
    completed: list[Transaction] = []

    def complete(shard: Any, decided: Transaction, now_ms: int) -> TransactionOutcome:
        completed.append(decided)
        return TransactionOutcome()

    monkeypatch.setattr(TransactionShard, "complete", complete)
    broker = FakeBroker()
    replica = FakeReplica()
    runtime = PartitionRuntime(
        "transactions-0", replica, lambda: TransactionShard(TransactionLimits()), SystemClock()
    )
    runtime.start()
    await until_loaded(cast(Runtime, runtime))
    coordinator = broker.transactions

    async def written(*_: object) -> bool:
        return True

    monkeypatch.setattr(coordinator._markers, "send", written)
    decided = Transaction(transactional_id="x", producer_id=1, producer_epoch=0, timeout_ms=1)
    replica.is_under_min_isr = True
    marking = asyncio.create_task(coordinator._complete_transaction(runtime, decided))
    await settle()
    assert not completed and not marking.done()
    replica.is_under_min_isr = False
    await asyncio.wait_for(marking, 60)
    assert completed == [decided]
    runtime.close()


def watch_polls(runtime: Runtime) -> list[None]:
    """Return a list that grows with each check for enough in-sync replicas."""
    polls: list[None] = []
    poll = runtime._poll_until_writable

    def noted() -> None:
        polls.append(None)
        poll()

    runtime._poll_until_writable = noted  # type: ignore[method-assign]
    return polls
