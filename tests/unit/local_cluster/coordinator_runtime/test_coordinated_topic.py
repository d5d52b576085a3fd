"""Leadership comes and goes: a term's runtime knows what the log holds when it begins."""

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


async def test_a_new_term_knows_what_another_leader_wrote_and_nothing_that_was_cut() -> None:
    here, there = FakeBroker(partitions=1), FakeBroker(partitions=1)
    await here.lead()
    await commit(here, 1)
    replica = here.partitions[0]
    replica.commits_at_once = False
    uncommitted = asyncio.ensure_future(commit(here, 2))
    await asyncio.sleep(0)
    assert len(replica.batches) == 2

    here.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    with pytest.raises(KafkaError) as told:
        await uncommitted
    assert told.value.code is ErrorCode.not_coordinator
    with pytest.raises(KafkaError) as refused:
        await committed_offset(here)
    assert refused.value.code is ErrorCode.not_coordinator

    # The new leader never got the second batch, and takes a commit of its own.
    there.partitions[0].batches = replica.batches[:1]
    there.partitions[0].log_end_offset = there.partitions[0].high_watermark = 1
    await there.lead()
    assert await committed_offset(there) == 1
    await commit(there, 9)

    # Back here the log is cut to the leader's, and fetched from it.
    replica.batches = list(there.partitions[0].batches)
    replica.high_watermark = replica.log_end_offset = 2
    replica.commits_at_once = True
    here.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    await here.loaded()
    assert await committed_offset(here) == 9
    await here.groups.stop()
    await there.groups.stop()


async def test_a_term_that_ends_while_it_loads_leaves_nothing_behind() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    await commit(broker, 4)
    for leads in (False, True, False, True):
        broker.groups.on_leadership(OFFSETS_TOPIC, 0, leads)
    await broker.loaded()
    assert await committed_offset(broker) == 4
    await broker.groups.stop()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_the_same_leader_twice_begins_a_new_term() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    await commit(broker, 4)
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    await broker.loaded()
    assert await committed_offset(broker) == 4
    await broker.groups.stop()


async def test_a_step_that_failed_once_is_made_again() -> None:
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
