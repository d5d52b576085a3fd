"""Groups of both protocols: no partition is given away while a classic member may still have it."""

from __future__ import annotations

from functools import partial

import pytest

from local_cluster.groups.consumer.consumer_group import INVITED_MAX, ConsumerGroup
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.migrating_shard import SESSION_MS, TOPIC, MigratingShard

ALL = {TOPIC.topic_id: frozenset(range(4))}
OLD, NEW = "c-old", "c-new"
"""Ids that the coordinator gives."""


@pytest.fixture
def shard() -> MigratingShard:
    """A classic group, of generation 1, whose only member has all partitions."""
    shard = MigratingShard()
    shard.join(member_uuid="old")
    shard.sync(OLD, 1, OLD)
    return shard


@pytest.mark.parametrize("is_replaced", [False, True])
def test_what_a_member_is_giving_up_is_not_free_at_an_upgrade(
    shard: MigratingShard, is_replaced: bool
) -> None:
    """Its new assignment lacks partitions, and it has not rejoined without them."""
    shard.join(member_uuid="new")
    joined = shard.join(OLD, owned=range(4), generation=1)
    assert joined is not None
    assert joined.error is ErrorCode.none
    shard.sync(OLD, joined.generation_id, OLD, partitions=range(2))
    newcomer = shard.beat("m", 0)
    assert newcomer.error is ErrorCode.none
    assert not newcomer.assignment
    if is_replaced:
        shard.load_again()
    assert shard.heartbeat(OLD, joined.generation_id) is ErrorCode.rebalance_in_progress
    assert not shard.beat("m", newcomer.member_epoch).assignment

    shard.join(OLD, owned=range(2), generation=joined.generation_id)
    given = shard.beat("m", newcomer.member_epoch).assignment
    assert given
    assert given[TOPIC.topic_id] <= {2, 3}


def test_of_two_that_say_they_have_a_partition_the_newer_one_has_it(shard: MigratingShard) -> None:
    shard.join(member_uuid="new", owned=[3], generation=1)
    joined = shard.join(OLD, owned=range(4), generation=0)
    assert joined is not None
    assert joined.error is ErrorCode.none
    shard.sync(OLD, joined.generation_id, OLD, partitions=range(2))
    newcomer = shard.beat("m", 0)
    shard.join(OLD, owned=range(2), generation=joined.generation_id)
    assert not shard.beat("m", newcomer.member_epoch).assignment, "the other one still has it"
    shard.join(NEW, generation=joined.generation_id)
    assert shard.beat("m", newcomer.member_epoch).assignment == {TOPIC.topic_id: frozenset([3])}


def test_an_expelled_member_does_not_get_in_with_what_it_had(shard: MigratingShard) -> None:
    newcomer = shard.beat("m", 0)
    shard.pass_time(SESSION_MS)
    shard.now_ms += 1_000
    assert shard.beat("m", newcomer.member_epoch).assignment == ALL
    refused = shard.join(OLD, owned=range(4), generation=1)
    assert refused is not None
    assert refused.error is ErrorCode.unknown_member_id
    assert shard.members == {"m"}

    forgot = shard.join(OLD, owned=range(4))
    assert forgot is not None
    assert forgot.error is ErrorCode.none, "without a generation it says nothing"


def test_a_client_that_never_forgets_what_it_had_gets_in_with_a_new_id(
    shard: MigratingShard,
) -> None:
    shard.beat("m", 0)
    join = partial(shard.join, owned=range(4), generation=1, requires_known_member_id=True)
    asked = join(member_uuid="again")
    assert asked is not None
    assert asked.error is ErrorCode.member_id_required
    joined = join(asked.member_id)
    assert joined is not None
    assert joined.error is ErrorCode.none


def test_ids_of_members_to_come_are_bounded() -> None:
    group = ConsumerGroup("g")
    for number in range(INVITED_MAX + 1):
        group.invite(f"m{number}")
    assert not group.is_invited("m0")
    assert group.is_invited("m1")
    assert group.is_invited(f"m{INVITED_MAX}")
