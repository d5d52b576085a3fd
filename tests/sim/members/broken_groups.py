"""Deliberately broken group coordinators, for tests/sim/cluster/broken_variants.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from local_cluster.groups import migration, shard
from local_cluster.groups.consumer import classic_members
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.shard_groups import ConsumerGroups
from local_cluster.groups.consumer.step import ConsumerStep
from local_cluster.wire.errors import ErrorCode

Broken = AbstractContextManager[Any]


def give_partitions_that_are_held() -> Broken:
    """A member gets its partitions before their owners have given them up."""
    return mock.patch.object(ConsumerGroup, "is_held", lambda self, topic, partition: False)


def forget_what_classic_members_hold() -> Broken:
    """An upgraded group begins as if nobody held anything."""

    def nothing(classic: Any, *_: Any) -> dict[str, dict[Any, Any]]:
        return {member_id: {} for member_id in classic.members}

    return mock.patch.object(migration, "_held_partitions", nothing)


def give_away_what_classic_members_revoke() -> Broken:
    """An upgraded group takes for free what members have in no assignment, and not given up."""

    def nothing(subscriptions: Any, *_: Any) -> dict[str, dict[Any, Any]]:
        return {member_id: {} for member_id in subscriptions}

    return mock.patch.object(migration, "_unrevoked_partitions", nothing)


def let_expelled_classic_members_in() -> Broken:
    """A classic member that was expelled joins with its former id, and what it had."""
    return mock.patch.object(classic_members, "_was_expelled", lambda *_: False)


def never_ask_classic_members_to_rejoin() -> Broken:
    """The heartbeat of a classic member in a consumer group reports no rebalance."""

    def beat(step: ConsumerStep, request: Any) -> ErrorCode:
        classic_members._find_classic(step.group, request.member_id, request.group_instance_id)
        step.extend_session(request.member_id)
        return ErrorCode.none

    return mock.patch.object(classic_members, "heartbeat", beat)


def leave_waiting_members_without_a_response() -> Broken:
    """Members that wait for their JoinGroup when the group is upgraded wait for ever."""
    return mock.patch.object(shard, "release_waiting", lambda step, group: None)


def assign_nothing_beside_classic_members() -> Broken:
    """A group that has classic members gets no target: a newcomer gets nothing, and no error."""
    assign: Callable[[ConsumerStep], None] = ConsumerStep.assign

    def assign_without_classic(self: ConsumerStep) -> None:
        if not any(member.classic is not None for member in self.group.members.values()):
            assign(self)

    return mock.patch.object(ConsumerStep, "assign", assign_without_classic)


def take_commits_of_any_epoch() -> Broken:
    """Members of a consumer group may commit what they no longer own."""

    def check(self: ConsumerGroups, group_id: str, *_: Any) -> ErrorCode:
        return ErrorCode.none

    return mock.patch.object(ConsumerGroups, "validate_commit", check)


def never_end_the_sessions_of_consumer_groups() -> Broken:
    """A member that has crashed keeps its partitions."""
    return mock.patch.object(ConsumerStep, "extend_session", lambda self, member_id: None)


def forget_targets_of_replaced_static_members() -> Broken:
    """A static member that returns gives up its partitions for others at once."""

    def replace(self: ConsumerStep, old: Any, new: Any) -> None:
        self.remove_member(old)

    return mock.patch.object(ConsumerStep, "replace_member", replace)
