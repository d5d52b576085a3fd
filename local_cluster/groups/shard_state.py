"""The state of one partition of `__consumer_offsets`: groups, committed offsets, timers."""

from __future__ import annotations

from collections.abc import Collection

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.classic.classic_fsm import GroupEvent, GroupState
from local_cluster.groups.classic.group import ClassicGroup
from local_cluster.groups.classic.rebalance import JOIN, SESSION, SYNC, Step
from local_cluster.groups.consumer.requests import LimitsOf
from local_cluster.groups.consumer.shard_groups import ConsumerGroups
from local_cluster.groups.consumer.step import ConsumerStep
from local_cluster.groups.consumer.topics import NoTopics, Topics
from local_cluster.groups.migration import downgraded
from local_cluster.groups.offsets import CommittedOffsets
from local_cluster.groups.records import encode_group_key
from local_cluster.groups.requests import GroupLimits
from local_cluster.groups.timers import TimerKey, TimerQueue


class ShardState:
    """The state that the requests of one shard share.

    A group id belongs to a classic group or to a consumer group, never to both.
    """

    __slots__ = ("classic_groups", "consumer_groups", "limits", "offsets", "timers")

    def __init__(
        self,
        limits: GroupLimits,
        topics: Topics | None = None,
        limits_of: LimitsOf | None = None,
    ) -> None:
        self.limits = limits
        self.classic_groups: dict[str, ClassicGroup] = {}
        self.offsets = CommittedOffsets()
        self.timers = TimerQueue()
        self.consumer_groups = ConsumerGroups(
            limits_of or (lambda _: limits.consumer),
            topics or NoTopics(),
            self.timers,
            self._downgrade,
        )

    def step(self, now: Now) -> Step:
        """Start a step on a classic group."""
        return Step(self.limits, self.timers, now, Outcome())

    def is_full_for(self, group_id: str) -> bool:
        """Return whether the group is unknown and would be one too many."""
        if group_id in self.classic_groups or group_id in self.consumer_groups:
            return False
        count = len(self.classic_groups) + len(self.consumer_groups)
        return count >= self.limits.groups_max

    def remove_classic_group(self, group: ClassicGroup, records: list[StoredRecord]) -> None:
        """Remove a group with its timers; a stored group gets a tombstone."""
        group.move(GroupEvent.REMOVED, group.state_timestamp_ms)
        del self.classic_groups[group.group_id]
        for kind in (JOIN, SYNC):
            self.timers.cancel(TimerKey(kind, group.group_id))
        for member_id in group.pending_join:
            self.timers.cancel(TimerKey(SESSION, group.group_id, member_id))
        if group.stored is not None:
            records.append(StoredRecord(encode_group_key(group.group_id), None))

    def _downgrade(
        self, step: ConsumerStep, leaving: Collection[str], *, joining_id: str | None = None
    ) -> bool:
        classic_step = Step(self.limits, self.timers, step.now, step.outcome)
        group = downgraded(step, classic_step, leaving, joining_id=joining_id)
        if group is not None:
            self.classic_groups[group.group_id] = group
        return group is not None

    def drop_if_unused(self, group: ClassicGroup) -> None:
        """Drop a group without members, offsets and records, as after a refused first join."""
        if (
            group.state is GroupState.EMPTY
            and group.stored is None
            and not group.pending_join
            and not self.offsets.has_any(group.group_id)
        ):
            self.classic_groups.pop(group.group_id, None)
