"""Groups that change protocol: members that died, and coordinators that are replaced meanwhile."""

from __future__ import annotations

import pytest

from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.migrating_shard import SESSION_MS, TOPIC, MigratingShard

ALL = {TOPIC.topic_id: frozenset(range(4))}


@pytest.fixture
def shard() -> MigratingShard:
    """A classic group, of generation 1, whose only member has all partitions."""
    shard = MigratingShard()
    shard.join()
    (member,) = shard.members
    shard.sync(member, 1, member)
    return shard


def test_a_member_that_died_does_not_outlive_its_session(shard: MigratingShard) -> None:
    """Members of the other protocol join and leave within its session: the group is converted."""
    (dead,) = shard.members
    for number in range(6):
        shard.pass_time(4_000 * number + 2_000)
        assert shard.beat(f"m{number}", 0).error is ErrorCode.none
        shard.pass_time(4_000 * number + 4_000)
        shard.beat(f"m{number}", -1)
        assert (dead in shard.members) is (shard.now_ms < SESSION_MS), shard.now_ms


def test_its_partitions_are_free_when_its_session_ends(shard: MigratingShard) -> None:
    """The upgrade at half of the session gives it no other half."""
    shard.now_ms = SESSION_MS // 2
    newcomer = shard.beat("m", 0)
    assert not newcomer.assignment
    shard.pass_time(SESSION_MS)
    shard.now_ms += 1_000
    assert shard.beat("m", newcomer.member_epoch).assignment == ALL


def test_a_member_that_waits_has_a_whole_session_from_its_response_on(
    shard: MigratingShard,
) -> None:
    """While it waits in SyncGroup, here for the leader, it can send no heartbeats."""
    (leader,) = shard.members
    shard.join(member_uuid="other")
    (waiting,) = shard.members - {leader}
    shard.join(leader)
    shard.sync(waiting, 2)
    converted_ms = SESSION_MS - 1_000
    shard.now_ms = converted_ms
    assert shard.beat("m", 0).error is ErrorCode.none
    shard.pass_time(SESSION_MS)
    assert shard.members == {waiting, "m"}
    shard.pass_time(converted_ms + SESSION_MS - 1)
    assert shard.members == {waiting, "m"}
    shard.pass_time(converted_ms + SESSION_MS)
    assert shard.members == {"m"}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_downgraded_group_rebalances_with_any_coordinator(
    shard: MigratingShard, is_replaced: bool
) -> None:
    """What the last consumer member held goes to the others, which have their targets already."""
    (classic,) = shard.members
    newcomer = shard.beat("m", 0)
    joined = shard.join(classic, owned=range(4))
    assert joined is not None
    again = shard.join(classic, owned=range(2))
    assert again is not None
    assert again.generation_id == newcomer.member_epoch == 2
    assert shard.heartbeat(classic, 2) is ErrorCode.none, "it has its target"
    shard.beat("m", -1)
    if is_replaced:
        shard.load_again()
    # The new coordinator knows no former epoch: the member drops what it has, and joins.
    told = ErrorCode.illegal_generation if is_replaced else ErrorCode.rebalance_in_progress
    assert shard.heartbeat(classic, 2) is told
    joined = shard.join(classic)
    assert joined is not None
    assert (joined.error, joined.leader) == (ErrorCode.none, classic)
    assert joined.generation_id > 2
