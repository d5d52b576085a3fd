"""The KIP-848 groups of one partition: routes requests, checks epochs, removes silent members.

Classic members of a group are served in the same way (`classic_members.py`). A group that only they
are left in becomes a classic group, through `Downgrade`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.consumer import classic_members
from local_cluster.groups.consumer import heartbeat as protocol
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.model import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupState,
    ConsumerMember,
    MemberState,
)
from local_cluster.groups.consumer.records import GroupEpochKey, Key, Value
from local_cluster.groups.consumer.requests import (
    DescribedConsumerGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    LimitsOf,
)
from local_cluster.groups.consumer.step import CONSUMER_REBALANCE, CONSUMER_SESSION, ConsumerStep
from local_cluster.groups.consumer.topics import Topics
from local_cluster.groups.requests import HeartbeatRequest as ClassicHeartbeatRequest
from local_cluster.groups.requests import (
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    SyncRequest,
    SyncResponse,
)
from local_cluster.groups.timers import TimerKey, TimerQueue
from local_cluster.wire.errors import ErrorCode, KafkaError

Fill = Callable[[ConsumerStep], None]
"""Writes the members of a classic group into the empty group of a step. Raises KafkaError."""


class Downgrade(Protocol):
    """Turns a group into a classic one if only classic members are left in it."""

    def __call__(
        self, step: ConsumerStep, leaving: Collection[str], *, joining_id: str | None = None
    ) -> bool:
        """Return whether the group is a classic one from here on; see `migration.downgraded`."""
        ...


class ConsumerGroups:
    """All KIP-848 groups of a shard, by id."""

    def __init__(
        self, limits_of: LimitsOf, topics: Topics, timers: TimerQueue, downgrade: Downgrade
    ) -> None:
        self._limits_of = limits_of
        self._downgrade = downgrade
        self._topics = topics
        self._timers = timers
        self._groups: dict[str, ConsumerGroup] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        return len(self._groups)

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
                leaves = request.member_epoch < JOIN_EPOCH
                message = f"{'Group' if leaves else 'Consumer group'} {request.group_id} not found."
                return HeartbeatResponse(ErrorCode.group_id_not_found, message)
            group = ConsumerGroup(request.group_id)
        step = self._step(group, now, outcome)
        try:
            if request.member_epoch < JOIN_EPOCH:
                return self._leave(step, request)
            response = protocol.heartbeat(step, request)
        except KafkaError as error:
            return HeartbeatResponse(error.code, error.message)
        self._groups[request.group_id] = group
        return response

    def upgrade(
        self, fill: Fill, request: HeartbeatRequest, now: Now, outcome: Outcome
    ) -> HeartbeatResponse:
        """Let a consumer member join a group that `fill` makes of a classic one.

        After an error nothing has changed.
        """
        group = ConsumerGroup(request.group_id)
        step = self._step(group, now, outcome)
        try:
            fill(step)
            response = protocol.heartbeat(step, request)
        except KafkaError as error:
            outcome.records.clear()
            for member_id in group.members:
                for kind in CONSUMER_TIMER_KINDS:
                    self._timers.cancel(TimerKey(kind, request.group_id, member_id))
            return HeartbeatResponse(error.code, error.message)
        self._groups[request.group_id] = group
        return response

    # -- requests of classic members --------------------------------------------------------

    def classic_join(self, request: JoinRequest, now: Now, outcome: Outcome) -> JoinResponse:
        """Handle JoinGroup in a group that has members. Raises KafkaError."""
        step = self._step(self._groups[request.group_id], now, outcome)
        joined = classic_members.join(step, request)
        if joined.replaced_id is not None:
            member_id = joined.response.member_id
            self._try_downgrade(step, (), joining_id=member_id)
        return joined.response

    def classic_sync(self, request: SyncRequest, now: Now) -> SyncResponse:
        """Handle SyncGroup. Raises KafkaError."""
        step = self._step(self._groups[request.group_id], now, Outcome())
        return classic_members.sync(step, request)

    def classic_heartbeat(self, request: ClassicHeartbeatRequest, now: Now) -> ErrorCode:
        """Handle Heartbeat. Raises KafkaError."""
        step = self._step(self._groups[request.group_id], now, Outcome())
        return classic_members.heartbeat(step, request)

    def classic_leave(self, request: LeaveRequest, now: Now, outcome: Outcome) -> LeaveResponse:
        """Handle LeaveGroup: one new epoch, or a downgrade, for all of its members."""
        step = self._step(self._groups[request.group_id], now, outcome)
        gone, results = classic_members.find_leaving(step.group, request.members)
        if gone:
            self._fence(step, gone)
        return LeaveResponse(ErrorCode.none, tuple(results))

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

    def is_consumer_member(self, group_id: str, member_id: str) -> bool:
        """Return whether the id is a member that uses the consumer protocol."""
        member = self._groups[group_id].members.get(member_id)
        return member is not None and member.classic is None

    def validate_commit(
        self,
        group_id: str,
        member_id: str,
        member_epoch: int,
        partitions: Iterable[tuple[str, int]],
    ) -> ErrorCode:
        """Check whether a member may commit offsets with an epoch.

        With an older epoch a member may commit partitions that it has held since then (KIP-1251).
        The epoch of a classic member is its generation, and so is the error.
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
        is_classic = member.classic is not None
        stale = ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch
        if member_epoch > member.member_epoch:
            return stale
        for topic, partition in partitions:
            facts = self._topics.get(topic)
            held = {} if facts is None else member.held(facts.topic_id)
            if held.get(partition, member_epoch + 1) > member_epoch:
                return stale
        return ErrorCode.none

    def validate_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check whether a member may fetch offsets with an epoch; without member id it may."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.none
        member = self._groups[group_id].members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        if member_epoch == member.member_epoch:
            return ErrorCode.none
        is_classic = member.classic is not None
        return ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch

    def delete(self, group_id: str, now: Now, outcome: Outcome) -> ErrorCode:
        """Remove a group, which must have no members."""
        group = self._groups[group_id]
        if group.state is not ConsumerGroupState.EMPTY:
            return ErrorCode.non_empty_group
        self._step(group, now, outcome).delete_group()
        del self._groups[group_id]
        return ErrorCode.none

    def expire(self, kind: str, group_id: str, member_id: str, now: Now, outcome: Outcome) -> None:
        """Fence a member at its session timeout, or at its rebalance timeout if it must act."""
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if kind == CONSUMER_REBALANCE and member.classic is None and not is_revoking:
            return
        self._fence(self._step(group, now, outcome), [member])

    # -- inside -----------------------------------------------------------------------------

    def _leave(self, step: ConsumerStep, request: HeartbeatRequest) -> HeartbeatResponse:
        member = protocol.find_leaving(step.group, request)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            protocol.leave_for_a_while(step, member)
        else:
            self._fence(step, [member])
        return HeartbeatResponse(ErrorCode.none, None, member.member_id, request.member_epoch)

    def _fence(self, step: ConsumerStep, members: list[ConsumerMember]) -> None:
        if not self._try_downgrade(step, {member.member_id for member in members}):
            protocol.fence(step, members)

    def _try_downgrade(
        self, step: ConsumerStep, leaving: Collection[str], *, joining_id: str | None = None
    ) -> bool:
        is_done = self._downgrade(step, leaving, joining_id=joining_id)
        if is_done:
            del self._groups[step.group.group_id]
        return is_done

    def _step(self, group: ConsumerGroup, now: Now, outcome: Outcome) -> ConsumerStep:
        limits = self._limits_of(group.group_id)
        return ConsumerStep(group, limits, self._timers, self._topics, now, outcome)


CONSUMER_TIMER_KINDS = frozenset({CONSUMER_SESSION, CONSUMER_REBALANCE})
