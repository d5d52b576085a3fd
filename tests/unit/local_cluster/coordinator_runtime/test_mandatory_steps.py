"""Mandatory steps run after a load, are repeated until committed, and are bounded."""

from __future__ import annotations

import asyncio
import functools

import pytest

from local_cluster.coordinator_runtime import batches, partition_runtime
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.coordinator_runtime.partition_runtime import RuntimeState
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.coordinator_runtime.group_runtime import (
    commit,
    delete_topic,
    fetch,
    loaded_runtime,
    new_runtime,
    offset_of,
    replica_that_holds,
    until_loaded,
)
from tests.unit.local_cluster.groups.doubles import FakeReplica


async def test_a_mandatory_step_during_a_load_runs_before_the_first_request() -> None:
    replica = await replica_that_holds(3)
    runtime = new_runtime(replica)
    runtime.start()
    runtime.run_mandatory_step(delete_topic)
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    await commit(runtime, 4)
    runtime.close()
    again = await loaded_runtime(replica)
    assert offset_of(await fetch(again)) == 4
    again.close()


async def test_a_mandatory_step_is_repeated_until_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "reload_wait_seconds", lambda failures: 0.0)
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await commit(runtime, 3)
    replica.append_error = OSError(28, "disk full")
    runtime.run_mandatory_step(delete_topic)
    assert runtime.state is RuntimeState.LOADING
    for _ in range(3):
        reads = replica.reads
        while replica.reads == reads:
            await asyncio.sleep(0.001)
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == -1
    # Once committed it is not repeated: later commits stay.
    await commit(runtime, 4)
    replica.append_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        await commit(runtime, 5)
    replica.append_error = None
    await until_loaded(runtime)
    assert offset_of(await fetch(runtime)) == 4
    runtime.close()


async def test_any_number_of_tombstones_fits_into_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step that never fits into the log would be repeated without end."""
    monkeypatch.setattr(batches, "BATCH_BYTES_TARGET", 1_000)
    segment_bytes_max = 4_000
    replica = FakeReplica(append_bytes_max=segment_bytes_max)
    runtime = await loaded_runtime(replica)
    for number in range(200):
        await commit(runtime, 3, f"group-{number}")
    written = len(replica.batches)
    runtime.run_mandatory_step(delete_topic)
    assert runtime.state is RuntimeState.ACTIVE
    assert sum(map(len, replica.batches[written:])) > segment_bytes_max
    assert offset_of(await fetch(runtime, "group-199")) == -1
    runtime.close()
    again = await loaded_runtime(replica)
    assert [offset_of(await fetch(again, f"group-{n}")) for n in range(200)] == [-1] * 200
    again.close()


async def test_mandatory_steps_are_bounded_and_dropped_if_they_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_runtime, "MANDATORY_STEPS_MAX", 2)
    monkeypatch.setattr(partition_runtime, "RELOAD_WAIT_SECONDS", 0.0)
    done: list[int] = []

    def record(number: int, _: GroupShard, __: Now) -> Outcome:
        done.append(number)
        return Outcome()

    runtime = new_runtime(FakeReplica())
    runtime.start()
    for number in range(4):
        runtime.run_mandatory_step(functools.partial(record, number))
    await until_loaded(runtime)
    assert done == [2, 3]

    def raises(shard: GroupShard, now: Now) -> Outcome:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        runtime.run_mandatory_step(raises)
    await until_loaded(runtime)
    assert await commit(runtime, 1) == (ErrorCode.none,)
    runtime.close()
    runtime.run_mandatory_step(functools.partial(record, 9))
    assert done == [2, 3]
