"""Sessions of members that died, in groups that change protocol again and again."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest

from local_cluster.coordinator_runtime.outcome import Now
from local_cluster.groups.consumer.embedded_protocol import encode_assignment
from local_cluster.groups.consumer.requests import HeartbeatRequest, HeartbeatResponse
from local_cluster.groups.consumer.topics import TopicFacts
from local_cluster.groups.requests import GroupLimits, JoinRequest, SyncRequest
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode
from tests.support.classic_consumers import Claim, encode_subscription

GROUP = "boards"
SESSION_MS = 10_000
TOPIC = TopicFacts("a", uuid.UUID(int=1), 4)
METADATA = encode_subscription(["a"], Claim(frozenset(), -1))


class OneTopic:
    """A cluster with one topic that does not change."""

    version = 1

    def get(self, name: str) -> TopicFacts | None:
        return TOPIC if name == TOPIC.name else None

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return TOPIC if topic_id == TOPIC.topic_id else None

    def names(self) -> Iterable[str]:
        return (TOPIC.name,)


def now(ms: int) -> Now:
    return Now(ms, ms)


def join(shard: GroupShard, at_ms: int, member_id: str, member_uuid: str = "") -> None:
    request = JoinRequest(
        group_id=GROUP,
        member_id=member_id,
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", METADATA),),
        member_uuid=member_uuid,
        requires_known_member_id=False,
    )
    shard.join(1, request, now(at_ms))


def sync(shard: GroupShard, at_ms: int, member_id: str, generation: int, *held: str) -> None:
    """The leader sends the assignment: all partitions for each of these members."""
    payload = encode_assignment(2, {"a": range(4)})
    assignments = tuple((each, payload) for each in held)
    request = SyncRequest(GROUP, member_id, None, generation, "consumer", "range", assignments)
    shard.sync(1, request, now(at_ms))


def beat(shard: GroupShard, at_ms: int, member_id: str, epoch: int) -> HeartbeatResponse:
    request = HeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        rebalance_timeout_ms=60_000,
        topic_names=("a",),
        topic_regex=None,
        server_assignor=None,
        owned={},
        client_id="c",
        client_host="/h",
        may_describe=lambda name: True,
    )
    *_, (_, response) = shard.consumer_heartbeat(2, request, now(at_ms)).responses
    assert isinstance(response, HeartbeatResponse)
    return response


def members(shard: GroupShard) -> set[str]:
    classic = shard.state.classic_groups.get(GROUP)
    consumer = shard.state.consumer_groups.get(GROUP)
    return set(classic.members if classic else consumer.members if consumer else ())


@pytest.fixture
def shard() -> GroupShard:
    """A classic group whose only member has all partitions, and then dies."""
    shard = GroupShard(GroupLimits(group_initial_rebalance_delay_ms=0), OneTopic())
    join(shard, 0, "")
    (dead,) = members(shard)
    sync(shard, 0, dead, 1, dead)
    return shard


def test_a_member_that_died_does_not_outlive_its_session(shard: GroupShard) -> None:
    """Members of the other protocol join and leave within its session: the group is converted."""
    (dead,) = members(shard)
    for number in range(6):
        came_ms = 4_000 * number + 2_000
        shard.expire_timers(now(came_ms))
        came = beat(shard, came_ms, f"m{number}", 0)
        assert came.error is ErrorCode.none
        left_ms = came_ms + 2_000
        shard.expire_timers(now(left_ms))
        beat(shard, left_ms, f"m{number}", -1)
        assert (dead in members(shard)) is (left_ms < SESSION_MS), left_ms


def test_its_partitions_are_free_when_its_session_ends(shard: GroupShard) -> None:
    """The upgrade at half of the session gives it no other half."""
    newcomer = beat(shard, SESSION_MS // 2, "m", 0)
    assert not newcomer.assignment
    shard.expire_timers(now(SESSION_MS))
    given = beat(shard, SESSION_MS + 1_000, "m", newcomer.member_epoch)
    assert given.assignment == {TOPIC.topic_id: frozenset(range(4))}


def test_a_member_that_waits_has_a_whole_session_from_its_response_on(shard: GroupShard) -> None:
    """While it waits in SyncGroup, here for the leader, it can send no heartbeats."""
    (leader,) = members(shard)
    join(shard, 0, "", "other")
    (waiting,) = members(shard) - {leader}
    join(shard, 0, leader)
    sync(shard, 0, waiting, 2)
    converted_ms = SESSION_MS - 1_000
    assert beat(shard, converted_ms, "m", 0).error is ErrorCode.none
    shard.expire_timers(now(SESSION_MS))
    assert members(shard) == {waiting, "m"}
    shard.expire_timers(now(converted_ms + SESSION_MS - 1))
    assert members(shard) == {waiting, "m"}
    shard.expire_timers(now(converted_ms + SESSION_MS))
    assert members(shard) == {"m"}
