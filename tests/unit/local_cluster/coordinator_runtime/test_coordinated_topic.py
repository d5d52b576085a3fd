"""Changes of leadership: a term's runtime loads what the log holds at its start."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.requests import CommitRequest, OffsetToCommit
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.groups.doubles import FakeBroker


async def commit(broker: FakeBroker, offset: int) -> None:
    to_commit = OffsetToCommit("t", 0, offset, 0, None)
    request = CommitRequest("g", "", None, -1, (to_commit,))
    assert await broker.groups.commit_offsets(request) == (ErrorCode.none,)


async def committed_offset(broker: FakeBroker) -> int:
    (fetched,) = await broker.positions("g", (("t", 0),))
    return fetched.committed.offset


async def test_a_new_term_loads_other_leaders_writes_and_nothing_truncated() -> None:
    here, there = FakeBroker(partitions=1), FakeBroker(partitions=1)
    await here.lead()
    await commit(here, 1)
    replica = here.partitions[0]
    replica.commits_at_once = False
    uncommitted = asyncio.ensure_future(commit(here, 2))
    await asyncio.sleep(0)
    assert len(replica.batches) == 2

    here.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    with pytest.raises(KafkaError) as failed:
        await uncommitted
    assert failed.value.code is ErrorCode.not_coordinator
    with pytest.raises(KafkaError) as refused:
        await committed_offset(here)
    assert refused.value.code is ErrorCode.not_coordinator

    # The new leader never got the second batch, and accepts another commit.
    there.partitions[0].batches = replica.batches[:1]
    there.partitions[0].log_end_offset = there.partitions[0].high_watermark = 1
    await there.lead()
    assert await committed_offset(there) == 1
    await commit(there, 9)

    # The first broker truncates its log to the leader's, fetches from it, and leads again.
    replica.batches = list(there.partitions[0].batches)
    replica.high_watermark = replica.log_end_offset = 2
    replica.commits_at_once = True
    here.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    await here.loaded()
    assert await committed_offset(here) == 9
    await here.groups.stop()
    await there.groups.stop()


async def test_a_term_that_ends_during_its_load_leaves_no_task() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    await commit(broker, 4)
    for leads in (False, True, False, True):
        broker.groups.on_leadership(OFFSETS_TOPIC, 0, leads)
    await broker.loaded()
    assert await committed_offset(broker) == 4
    await broker.groups.stop()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_leadership_granted_twice_starts_a_new_term() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    await commit(broker, 4)
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    await broker.loaded()
    assert await committed_offset(broker) == 4
    await broker.groups.stop()


async def test_a_failed_periodic_step_is_repeated() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    calls = 0

    def step(shard: GroupShard, now: Now) -> Outcome:
        nonlocal calls
        calls += 1
        assert calls > 1, "a defect"
        return Outcome()

    broker.groups._topic.run_periodically(1, step, "steps")
    async with asyncio.timeout(5):
        while calls < 2:
            await asyncio.sleep(0.001)
    await broker.groups.stop()
