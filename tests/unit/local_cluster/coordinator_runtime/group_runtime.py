"""A runtime with a group shard for tests: groups have responses that are easy to check."""

from __future__ import annotations

import asyncio
from typing import Any

from local_cluster.clock import SystemClock
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime, RuntimeState
from local_cluster.groups.requests import (
    CommitRequest,
    FetchedOffset,
    GroupLimits,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    OffsetToCommit,
)
from local_cluster.groups.shard import GroupShard
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
    request = commit_request(offset, group)
    return runtime.submit(lambda shard, ticket, now: shard.commit_offsets(ticket, request, now))


def commit_request(offset: int, group: str = "g") -> CommitRequest:
    return CommitRequest(group, "", None, -1, (OffsetToCommit("t", 0, offset, 0, None),))


async def replica_that_holds(offset: int) -> FakeReplica:
    """Return a replica with a committed offset that an earlier runtime wrote."""
    replica = FakeReplica()
    runtime = await loaded_runtime(replica)
    await commit(runtime, offset)
    runtime.close()
    return replica


def fetch(runtime: Runtime, group: str = "g") -> asyncio.Future[Any]:
    return runtime.submit(
        lambda shard, ticket, _: shard.fetch_offsets(ticket, group, [("t", 0)]), may_write=False
    )


def delete_topic(shard: GroupShard, _: Now) -> Outcome:
    """A step that deletes the topic of all committed offsets."""
    return shard.delete_topics(frozenset({"t"}))


def heartbeat(runtime: Runtime, member_id: str, generation_id: int) -> asyncio.Future[Any]:
    request = HeartbeatRequest("g", member_id, None, generation_id)
    return runtime.respond_now(lambda shard, ticket, now: shard.heartbeat(ticket, request, now))


def offset_of(fetched: tuple[FetchedOffset, ...]) -> int:
    return fetched[0].committed.offset


def join(runtime: Runtime, **changes: Any) -> asyncio.Future[JoinResponse]:
    request = JoinRequest(
        "g", "", "instance", "c", "/h", 30_000, 30_000, "consumer", (("range", b""),), "uuid"
    )._replace(**changes)
    return runtime.submit(lambda shard, ticket, now: shard.join(ticket, request, now))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
