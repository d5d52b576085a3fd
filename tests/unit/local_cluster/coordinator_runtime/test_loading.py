"""A runtime loads what its log holds: refused meanwhile, tried again, and never served by half."""

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
