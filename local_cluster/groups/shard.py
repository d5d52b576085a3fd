"""One partition of `__consumer_offsets` as a state machine: requests in, records and answers out.

A request changes the shard at once and yields the records that tell of the change; the runtime
appends them and lets the answers go when they are committed. Loading a partition replays the same
records into a new shard. Where an append fails the runtime throws the shard away and replays: what
was not written never happened, and nobody was told otherwise.

Guarantees: `replay` of all records of a shard gives a shard with the same committed offsets, the
same stable generations and the same assignments; no I/O, no clock, no randomness.

Not here: which broker owns the partition, waiting, timers that really fire (coordinator_runtime/).
"""

from __future__ import annotations

from collections.abc import Callable

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.classic import membership
from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup
from local_cluster.groups.classic.rebalance import (
    JOIN,
    SESSION,
    SYNC,
    Step,
    expire_join,
    expire_session,
    expire_sync,
    extend_session,
    prepare_rebalance,
)
from local_cluster.groups.classic.subscription import CONSUMER_PROTOCOL
from local_cluster.groups.consumer import records as consumer_records
from local_cluster.groups.consumer.heartbeat import validate
from local_cluster.groups.consumer.model import JOIN_EPOCH
from local_cluster.groups.consumer.requests import HeartbeatAnswer
from local_cluster.groups.consumer.requests import HeartbeatRequest as ConsumerHeartbeatRequest
from local_cluster.groups.consumer.shard_groups import CONSUMER_TIMER_KINDS
from local_cluster.groups.offset_requests import ShardOffsets
from local_cluster.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from local_cluster.groups.requests import (
    UNKNOWN_MEMBER,
    DescribedGroup,
    DescribedMember,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    ListedGroup,
    SyncAnswer,
    SyncRequest,
)
from local_cluster.wire.errors import ErrorCode, KafkaError


class GroupShard(ShardOffsets):
    """The groups and committed offsets of one partition."""

    __slots__ = ()

    # Loading

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises UnreadableRecordError."""
        match decode_key(key):
            case OffsetKey(group_id, topic, partition):
                if value is None:
                    self.offsets.discard(group_id, topic, partition)
                else:
                    self.offsets.put(group_id, topic, partition, decode_offset_value(value))
            case GroupKey(group_id):
                if value is None:
                    self.groups.pop(group_id, None)
                else:
                    stored = decode_group_value(value)
                    self.groups[group_id] = ClassicGroup.from_stored(group_id, stored)
            case None:
                # A newer kind of group, written by another broker: not ours to touch.
                pass
            case decoded:
                changed = None if value is None else consumer_records.decode_value(decoded, value)
                self.consumer_groups.replay(decoded, changed)

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of a transaction that is open so far. Raises UnreadableRecordError."""
        match decode_key(key):
            case OffsetKey(group_id, topic, partition) if value is not None:
                self.offsets.put_pending(
                    producer_id, group_id, topic, partition, decode_offset_value(value)
                )
            case _:
                self.replay(key, value)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction is in the log."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def finish_load(self, now: Now) -> Outcome:
        """After the last replayed record: every member gets a whole session to be heard of."""
        for group_id in self.offsets.group_ids():
            # A group without members keeps its positions without a record of its own.
            if group_id not in self.consumer_groups:
                self.groups.setdefault(group_id, ClassicGroup(group_id))
        step = self._step(now)
        for group in self.groups.values():
            for member in group.members.values():
                extend_session(step, group, member)
            if len(group.members) > self.limits.group_max_size:
                prepare_rebalance(step, group)
        self.consumer_groups.finish_load(now, step.outcome)
        return step.outcome

    # Membership

    def join(self, ticket: int, request: JoinRequest, now: Now) -> Outcome:
        """JoinGroup; the answer comes when the join phase is over."""
        step = self._step(now)
        error = membership.validate_join(step, request)
        if error is not ErrorCode.none:
            return step.outcome.answer(ticket, JoinAnswer(error, request.member_id))
        if request.group_id in self.consumer_groups and not self._make_classic(step, request):
            refused = JoinAnswer(ErrorCode.inconsistent_group_protocol, request.member_id)
            return step.outcome.answer(ticket, refused)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                refused = JoinAnswer(ErrorCode.unknown_member_id, request.member_id)
                return step.outcome.answer(ticket, refused)
            group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        membership.join(step, group, ticket, request)
        self._forget_if_void(group)
        return step.outcome

    def sync(self, ticket: int, request: SyncRequest, now: Now) -> Outcome:
        """SyncGroup; the answer comes when the leader has brought the assignment."""
        step = self._step(now)
        group = self.groups.get(request.group_id)
        if group is None:
            return step.outcome.answer(ticket, SyncAnswer(ErrorCode.unknown_member_id))
        membership.sync(step, group, ticket, request)
        return step.outcome

    def heartbeat(self, ticket: int, request: HeartbeatRequest, now: Now) -> Outcome:
        """Heartbeat."""
        step = self._step(now)
        group = self.groups.get(request.group_id)
        if group is None:
            return step.outcome.answer(ticket, ErrorCode.unknown_member_id)
        return step.outcome.answer(ticket, membership.heartbeat(step, group, request))

    def leave(self, ticket: int, request: LeaveRequest, now: Now) -> Outcome:
        """LeaveGroup."""
        step = self._step(now)
        group = self.groups.get(request.group_id)
        if group is None:
            unknown = tuple((member, ErrorCode.unknown_member_id) for member in request.members)
            return step.outcome.answer(ticket, LeaveAnswer(ErrorCode.none, unknown))
        answer = membership.leave(step, group, request)
        self._forget_if_void(group)
        return step.outcome.answer(ticket, answer)

    def consumer_heartbeat(
        self, ticket: int, request: ConsumerHeartbeatRequest, now: Now
    ) -> Outcome:
        """ConsumerGroupHeartbeat."""
        outcome = Outcome()
        try:
            validate(request, self.limits.consumer)
        except KafkaError as error:
            return outcome.answer(ticket, HeartbeatAnswer(error.code, error.message))
        group = self.groups.get(request.group_id)
        if group is not None:
            if request.member_epoch != JOIN_EPOCH or group.state is not GroupState.EMPTY:
                message = f"Group {request.group_id} is not a consumer group."
                answer = HeartbeatAnswer(ErrorCode.group_id_not_found, message)
                return outcome.answer(ticket, answer)
            self._remove_group(group, outcome.records)
        answer = self.consumer_groups.heartbeat(request, now, outcome)
        if group is not None and request.group_id not in self.consumer_groups:
            # It was refused: nothing has changed.
            outcome.records.clear()
            self.groups[request.group_id] = group
            group.state = GroupState.EMPTY
        return outcome.answer(ticket, answer)

    def _make_classic(self, step: Step, request: JoinRequest) -> bool:
        """Give the id of a consumer group without members to a classic group."""
        error = self.consumer_groups.delete(request.group_id, step.now, step.outcome)
        if error is ErrorCode.none:
            self.groups[request.group_id] = ClassicGroup(request.group_id)
        return error is ErrorCode.none

    # Administration

    def describe_consumer_group(self, ticket: int, group_id: str) -> Outcome:
        """ConsumerGroupDescribe of one group."""
        return Outcome().answer(ticket, self.consumer_groups.describe(group_id))

    def describe(self, ticket: int, group_id: str) -> Outcome:
        """DescribeGroups of one group."""
        group = self.groups.get(group_id)
        if group is None:
            return Outcome().answer(ticket, DescribedGroup(group_id, GroupState.DEAD.value, "", ""))
        is_stable = group.state is GroupState.STABLE
        return Outcome().answer(
            ticket,
            DescribedGroup(
                group_id,
                group.state.value,
                group.protocol_type or "",
                (group.protocol_name or "") if is_stable else "",
                tuple(
                    DescribedMember(
                        m.member_id,
                        m.group_instance_id,
                        m.client_id,
                        m.client_host,
                        m.metadata(group.protocol_name) if is_stable else b"",
                        m.assignment if is_stable else b"",
                    )
                    for m in group.members.values()
                ),
            ),
        )

    def list_groups(self) -> list[ListedGroup]:
        """Every group, as it is right now."""
        return [
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value)
            for group in self.groups.values()
        ] + [
            ListedGroup(group.group_id, CONSUMER_PROTOCOL, group.state.value, "consumer")
            for group in self.consumer_groups
        ]

    def delete_group(self, ticket: int, group_id: str, now: Now) -> Outcome:
        """DeleteGroups of one group: it must have no members; its positions go with it."""
        if group_id in self.consumer_groups:
            return self._delete_consumer_group(ticket, group_id, now)
        group = self.groups.get(group_id)
        if group is None:
            return Outcome().answer(ticket, ErrorCode.group_id_not_found)
        if group.state is not GroupState.EMPTY:
            return Outcome().answer(ticket, ErrorCode.non_empty_group)
        outcome = Outcome()
        partitions = self.offsets.partitions(group_id)
        outcome.records.extend(self.offsets.tombstones(group_id, partitions))
        self._remove_group(group, outcome.records)
        return outcome.answer(ticket, ErrorCode.none)

    def _delete_consumer_group(self, ticket: int, group_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        error = self.consumer_groups.delete(group_id, now, outcome)
        if error is ErrorCode.none:
            partitions = self.offsets.partitions(group_id)
            outcome.records.extend(self.offsets.tombstones(group_id, partitions))
        return outcome.answer(ticket, error)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `expire_timers` has something to do, in monotonic milliseconds."""
        return self.timers.next_deadline_ms()

    def put_off_timers(self, until_ms: int) -> None:
        """No timer's deadline is before this, in monotonic milliseconds."""
        self.timers.put_off(until_ms)

    def expire_timers(self, now: Now) -> Outcome:
        """Act on every timer whose deadline has come."""
        step = self._step(now)
        actions: dict[str, Callable[[Step, ClassicGroup], None]] = {
            JOIN: expire_join,
            SYNC: expire_sync,
        }
        while (key := self.timers.pop_due(now.monotonic_ms)) is not None:
            if key.kind in CONSUMER_TIMER_KINDS:
                self.consumer_groups.expire(
                    key.kind, key.group_id, key.member_id, now, step.outcome
                )
                continue
            group = self.groups.get(key.group_id)
            if group is None:
                continue
            if key.kind == SESSION:
                expire_session(step, group, key.member_id)
            else:
                actions[key.kind](step, group)
            self._forget_if_void(group)
        return step.outcome
