"""The KIP-848 groups of one partition: routes requests, checks epochs, removes silent members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.consumer import heartbeat as protocol
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.model import JOIN_EPOCH, ConsumerGroupState, MemberState
from local_cluster.groups.consumer.records import GroupEpochKey, Key, Value
from local_cluster.groups.consumer.requests import (
    DescribedConsumerGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    LimitsOf,
)
from local_cluster.groups.consumer.step import CONSUMER_REBALANCE, CONSUMER_SESSION, ConsumerStep
from local_cluster.groups.consumer.topics import Topics
from local_cluster.groups.timers import TimerQueue
from local_cluster.wire.errors import ErrorCode, KafkaError


class ConsumerGroups:
    """All KIP-848 groups of a shard, by id."""

    def __init__(self, limits_of: LimitsOf, topics: Topics, timers: TimerQueue) -> None:
        self._limits_of = limits_of
        self._topics = topics
        self._timers = timers
        self._groups: dict[str, ConsumerGroup] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(tuple(self._groups.values()))

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

    # -- loading ----------------------------------------------------------------------------

    def replay(self, key: Key, value: Value | None) -> None:
        """Apply one record of the log."""
        group = self._groups.get(key.group)
        if value is None:
            if group is not None:
                group.apply(key, None)
                if isinstance(key, GroupEpochKey):
                    del self._groups[key.group]
            return
        if group is None:
            group = self._groups[key.group] = ConsumerGroup(key.group)
        group.apply(key, value)

    def finish_load(self, now: Now, outcome: Outcome) -> None:
        """Restart the session timeout of every member, and the timeout of pending revocations."""
        for group in self._groups.values():
            step = self._step(group, now, outcome)
            for member in group.members.values():
                step.extend_session(member.member_id)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    step.extend_rebalance(member)

    # -- requests ---------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Now, outcome: Outcome) -> HeartbeatResponse:
        """Handle a valid ConsumerGroupHeartbeat. A join creates the group."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                message = f"Group {request.group_id} not found."
                return HeartbeatResponse(ErrorCode.group_id_not_found, message)
            group = ConsumerGroup(request.group_id)
        step = self._step(group, now, outcome)
        try:
            if request.member_epoch < JOIN_EPOCH:
                return protocol.leave(step, request)
            response = protocol.heartbeat(step, request)
        except KafkaError as error:
            return HeartbeatResponse(error.code, error.message)
        self._groups[request.group_id] = group
        return response

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """Handle ConsumerGroupDescribe of one group."""
        group = self._groups.get(group_id)
        if group is None:
            message = f"Group {group_id} not found."
            return DescribedConsumerGroup(ErrorCode.group_id_not_found, group_id, message)
        return DescribedConsumerGroup(
            ErrorCode.none,
            group_id,
            None,
            group.state.value,
            group.epoch,
            group.target_epoch,
            group.preferred_assignor(self._limits_of(group_id).group_consumer_assignors[0]),
            tuple(group.members.values()),
            dict(group.targets),
        )

    def validate_commit(
        self,
        group_id: str,
        member_id: str,
        member_epoch: int,
        partitions: Iterable[tuple[str, int]],
    ) -> ErrorCode:
        """Check whether a member may commit offsets with an epoch.

        With an older epoch a member may commit partitions that it has held since then (KIP-1251).
        An administrator, who has neither member id nor epoch, may commit while the group is empty.
        """
        group = self._groups[group_id]
        if member_epoch < 0 and not group.members:
            return ErrorCode.none
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if member_epoch == member.member_epoch:
            return ErrorCode.none
        if member_epoch > member.member_epoch:
            return ErrorCode.stale_member_epoch
        for topic, partition in partitions:
            facts = self._topics.get(topic)
            held = {} if facts is None else member.assigned.get(facts.topic_id, {})
            if held.get(partition, member_epoch + 1) > member_epoch:
                return ErrorCode.stale_member_epoch
        return ErrorCode.none

    def validate_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check whether a member may fetch offsets with an epoch; without member id it may."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.none
        member = self._groups[group_id].members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        if member_epoch != member.member_epoch:
            return ErrorCode.stale_member_epoch
        return ErrorCode.none

    def delete(self, group_id: str, now: Now, outcome: Outcome) -> ErrorCode:
        """Remove a group, which must have no members."""
        group = self._groups[group_id]
        if group.state is not ConsumerGroupState.EMPTY:
            return ErrorCode.non_empty_group
        self._step(group, now, outcome).delete_group()
        del self._groups[group_id]
        return ErrorCode.none

    def expire(self, kind: str, group_id: str, member_id: str, now: Now, outcome: Outcome) -> None:
        """Fence a member at its session timeout, or at its rebalance timeout if it must revoke."""
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return
        if kind == CONSUMER_REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return
        protocol.fence(self._step(group, now, outcome), member)

    # -- inside -----------------------------------------------------------------------------

    def _step(self, group: ConsumerGroup, now: Now, outcome: Outcome) -> ConsumerStep:
        limits = self._limits_of(group.group_id)
        return ConsumerStep(group, limits, self._timers, self._topics, now, outcome)


CONSUMER_TIMER_KINDS = frozenset({CONSUMER_SESSION, CONSUMER_REBALANCE})
