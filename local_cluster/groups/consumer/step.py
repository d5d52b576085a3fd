"""One step on one KIP-848 group: every change is a record, applied as in replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.consumer import records
from local_cluster.groups.consumer.assignors import ASSIGNORS, MemberSpec
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.model import Assignment, ConsumerMember, MemberState
from local_cluster.groups.consumer.reconcile import Target, reconcile
from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.groups.consumer.topics import Topics, metadata_hash
from local_cluster.groups.timers import TimerKey, TimerQueue
from local_cluster.wire.errors import ErrorCode, KafkaError

CONSUMER_SESSION: Final = "consumer session"
CONSUMER_REBALANCE: Final = "consumer rebalance"


@dataclass(frozen=True, slots=True)
class ConsumerStep:
    """What a step may use, and the outcome that it fills."""

    group: ConsumerGroup
    limits: ConsumerGroupLimits
    timers: TimerQueue
    topics: Topics
    now: Now
    outcome: Outcome

    def write(self, key: records.Key, value: records.Value | None) -> None:
        """Apply one record to the group and add it to the outcome."""
        self.group.apply(key, value)
        self.outcome.records.append(records.encode(key, value))

    # -- members ----------------------------------------------------------------------------

    def require_room(self, member_id: str, instance_id: str | None) -> None:
        """Raise KafkaError(group_max_size_reached) for a newcomer in a full group.

        A static member that comes back takes the place of its former id.
        """
        group = self.group
        if member_id in group.members or instance_id in group.static_members:
            return
        size_max = self.limits.group_consumer_max_size
        if len(group.members) >= size_max:
            raise KafkaError(
                ErrorCode.group_max_size_reached,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )

    def describe_member(self, member: ConsumerMember) -> None:
        """Write the member's metadata."""
        self.write(
            records.MemberKey(self.group.group_id, member.member_id),
            records.MemberMetadata(
                member.instance_id,
                member.rack_id,
                member.client_id,
                member.client_host,
                member.topic_names,
                member.topic_regex,
                member.rebalance_timeout_ms,
                member.server_assignor,
                member.classic,
            ),
        )

    def set_current(self, member: ConsumerMember) -> None:
        """Write the member's current assignment; a revocation starts its rebalance timeout.

        A classic member has timeouts for JoinGroup and SyncGroup instead.
        """
        self.write(
            records.CurrentKey(self.group.group_id, member.member_id),
            records.Current(
                member.member_epoch,
                member.previous_member_epoch,
                member.state,
                member.assigned,
                member.pending_revocation,
            ),
        )
        if member.classic is not None:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.extend_rebalance(member)
        else:
            self.cancel_rebalance(member.member_id)

    def remove_member(self, member: ConsumerMember) -> None:
        """Write the tombstones of a member; the caller raises the epoch."""
        group_id, member_id = self.group.group_id, member.member_id
        self.write(records.CurrentKey(group_id, member_id), None)
        self.write(records.TargetKey(group_id, member_id), None)
        self.write(records.MemberKey(group_id, member_id), None)
        for kind in (CONSUMER_SESSION, CONSUMER_REBALANCE):
            self.timers.cancel(TimerKey(kind, group_id, member_id))
        self.remove_unused_regex(member.topic_regex)

    def replace_member(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Give the target and partitions of a static member to its new member id."""
        group_id = self.group.group_id
        target = self.group.target(old.member_id)
        self.write(records.CurrentKey(group_id, old.member_id), None)
        self.write(records.TargetKey(group_id, old.member_id), None)
        self.write(records.MemberKey(group_id, old.member_id), None)
        for kind in (CONSUMER_SESSION, CONSUMER_REBALANCE):
            self.timers.cancel(TimerKey(kind, group_id, old.member_id))
        self.describe_member(new)
        self.write(records.TargetKey(group_id, new.member_id), dict(target))
        self.set_current(new)

    def extend_session(self, member_id: str) -> None:
        """Restart the member's session timeout."""
        classic = self.group.members[member_id].classic
        timeout_ms = (
            self.limits.group_consumer_session_timeout_ms
            if classic is None
            else classic.session_timeout_ms
        )
        key = TimerKey(CONSUMER_SESSION, self.group.group_id, member_id)
        self.timers.schedule(key, self.now.monotonic_ms + timeout_ms)

    def extend_rebalance(self, member: ConsumerMember) -> None:
        """Restart the member's rebalance timeout.

        Within it a member must revoke partitions, and a classic one send JoinGroup or SyncGroup.
        """
        key = TimerKey(CONSUMER_REBALANCE, self.group.group_id, member.member_id)
        self.timers.schedule(key, self.now.monotonic_ms + member.rebalance_timeout_ms)

    def require_join(self, member: ConsumerMember) -> None:
        """Start the rebalance timeout of a classic member that has to rejoin, unless it runs."""
        key = TimerKey(CONSUMER_REBALANCE, self.group.group_id, member.member_id)
        if self.timers.deadline_ms(key) is None:
            self.extend_rebalance(member)

    def cancel_rebalance(self, member_id: str) -> None:
        """Stop the member's rebalance timeout."""
        self.timers.cancel(TimerKey(CONSUMER_REBALANCE, self.group.group_id, member_id))

    def remove_unused_regex(self, regex: str) -> None:
        """Write the tombstone of a pattern that no member subscribes with."""
        is_used = any(member.topic_regex == regex for member in self.group.members.values())
        if regex in self.group.regexes and not is_used:
            self.write(records.RegexKey(self.group.group_id, regex), None)

    # -- epochs -----------------------------------------------------------------------------

    def bump_epoch(self) -> None:
        """Raise the group epoch for a new target with the present topics."""
        found = metadata_hash(self.topics, self.group.all_subscribed_names())
        self.write(
            records.GroupEpochKey(self.group.group_id),
            records.GroupEpoch(self.group.epoch + 1, found),
        )
        self.group.checked_version = self.topics.version

    def check_topics(self) -> None:
        """Raise the group epoch if the topics that members subscribe to have changed."""
        if self.group.checked_version == self.topics.version:
            return
        if metadata_hash(self.topics, self.group.all_subscribed_names()) != (
            self.group.metadata_hash
        ):
            self.bump_epoch()
        self.group.checked_version = self.topics.version

    def assign(self) -> None:
        """Compute a new target assignment if one is due."""
        group, now_ms = self.group, self.now.wall_ms
        if group.epoch <= group.target_epoch:
            return
        interval_ms = self.limits.group_consumer_assignment_interval_ms
        since_ms = now_ms - group.target_timestamp_ms
        # A clock that was set back must not delay targets.
        if group.target_epoch and 0 <= since_ms < interval_ms:
            return
        partitions = {}
        specs = []
        for member in group.members.values():
            ids = group.subscribed_ids(member, self.topics)
            for topic_id in ids:
                facts = self.topics.by_id(topic_id)
                if facts is not None:
                    partitions[topic_id] = facts.partitions
            target = group.target(member.member_id)
            specs.append(MemberSpec(member.member_id, member.instance_id, ids, target))
        default = self.limits.group_consumer_assignors[0]
        assignor = ASSIGNORS.get(group.preferred_assignor(default), ASSIGNORS[default])
        for member_id, assignment in assignor(specs, partitions).items():
            if assignment != group.target(member_id):
                self.write(records.TargetKey(group.group_id, member_id), dict(assignment))
        self.write(records.TargetEpochKey(group.group_id), records.TargetEpoch(group.epoch, now_ms))

    def reconcile(
        self, member_id: str, owned: Assignment | None, *, subscription_changed: bool
    ) -> None:
        """Bring one member one step closer to its target."""
        group = self.group
        member = group.members[member_id]
        if member.is_reconciled_to(group.target_epoch) and not subscription_changed:
            return
        moved = reconcile(
            member,
            Target(group.target_epoch, group.target(member_id)),
            owned,
            group.subscribed_ids(member, self.topics),
            group.is_held,
            subscription_changed=subscription_changed,
        )
        if moved != member:
            self.set_current(moved)

    def delete_group(self) -> None:
        """Write the tombstones of the group and everything in it."""
        group_id = self.group.group_id
        for member in tuple(self.group.members.values()):
            self.remove_member(member)
        for regex in tuple(self.group.regexes):
            self.write(records.RegexKey(group_id, regex), None)
        self.write(records.TargetEpochKey(group_id), None)
        self.write(records.GroupEpochKey(group_id), None)
