"""A runtime loads its log: requests are refused meanwhile, and errors are retried."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.clock import SystemClock
from local_cluster.coordinator_runtime import partition_runtime
from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime, RuntimeState
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.coordinator_runtime.group_runtime import (
    LIMITS,
    commit,
    fetch,
    loaded_runtime,
    new_runtime,
    offset_of,
    replica_that_holds,
    settle,
    until_loaded,
)
from tests.unit.local_cluster.groups.doubles import FakeReplica


async def test_requests_are_refused_while_loading() -> None:
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


async def test_a_read_after_a_restart_waits_for_uncommitted_records() -> None:
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


async def test_an_unreadable_log_is_not_served_as_empty(
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
    """A shard with a defect in its replay."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        raise KeyError("a defect")


async def test_a_defect_in_replay_ends_the_load(
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


async def test_loading_is_retried() -> None:
    replica = await replica_that_holds(3)
    intact = replica.batches[0]
    replica.batches[0] = intact[:-1] + b"\1"
    runtime = new_runtime(replica)
    runtime.start()
    while replica.reads < 2:
        await asyncio.sleep(0.001)
    replica.batches[0] = intact
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 3
    runtime.close()
