"""One partition of `__consumer_offsets` as a state machine: requests in, records and responses out.

A request changes the shard at once and returns the records of the change. The runtime appends them
and releases the responses when they are committed. Loading a partition replays the same records
into a new shard. If an append fails, the runtime drops the shard and replays the log: what was not
written never happened, and no client was told otherwise.

Guarantees: replaying all records of a shard gives a shard with the same committed offsets, the
same stable generations and the same assignments. No I/O, no clock, no randomness.

Not here: partition ownership, waiting, the timers of the event loop (coordinator_runtime/).
"""

from __future__ import annotations

from collections.abc import Iterable

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.classic import membership
from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup
from local_cluster.groups.classic.rebalance import (
    JOIN,
    SESSION,
    Step,
    expire_join,
    expire_session,
    expire_sync,
    extend_session,
    prepare_rebalance,
)
from local_cluster.groups.classic.subscription import CONSUMER_PROTOCOL
from local_cluster.groups.consumer import records as consumer_records
from local_cluster.groups.consumer.model import JOIN_EPOCH
from local_cluster.groups.consumer.requests import HeartbeatRequest as ConsumerHeartbeatRequest
from local_cluster.groups.consumer.requests import HeartbeatResponse, LimitsOf
from local_cluster.groups.consumer.shard_groups import CONSUMER_TIMER_KINDS
from local_cluster.groups.consumer.topics import Topics
from local_cluster.groups.migration import check_upgrade, fill_from_classic, release_waiting
from local_cluster.groups.offset_requests import OffsetRequests
from local_cluster.groups.offsets import TopicPartition
from local_cluster.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from local_cluster.groups.requests import (
    UNKNOWN_MEMBER,
    CommitRequest,
    DescribedGroup,
    GroupLimits,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    ListedGroup,
    SyncRequest,
    SyncResponse,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard_state import ShardState
from local_cluster.groups.timers import TimerKey
from local_cluster.wire.errors import ErrorCode, KafkaError


class GroupShard:
    """The groups and committed offsets of one partition."""

    __slots__ = ("_offset_requests", "state")

    def __init__(
        self,
        limits: GroupLimits,
        topics: Topics | None = None,
        limits_of: LimitsOf | None = None,
    ) -> None:
        """`limits_of`: the settings of single groups; those of `limits` without it."""
        self.state = ShardState(limits, topics, limits_of)
        self._offset_requests = OffsetRequests(self.state)

    # -- loading ----------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises UnreadableRecordError."""
        state = self.state
        match decode_key(key):
            case OffsetKey(group_id, topic, partition):
                if value is None:
                    state.offsets.discard(group_id, topic, partition)
                else:
                    state.offsets.put(group_id, topic, partition, decode_offset_value(value))
            case GroupKey(group_id):
                if value is None:
                    state.classic_groups.pop(group_id, None)
                else:
                    stored = decode_group_value(value)
                    state.classic_groups[group_id] = ClassicGroup.from_stored(group_id, stored)
            case None:
                # A kind of group that this broker does not serve; its records stay in the log.
                pass
            case decoded:
                changed = None if value is None else consumer_records.decode_value(decoded, value)
                state.consumer_groups.replay(decoded, changed)

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of a transaction without its marker. Raises UnreadableRecordError."""
        match decode_key(key):
            case OffsetKey(group_id, topic, partition) if value is not None:
                self.state.offsets.put_pending(
                    producer_id, group_id, topic, partition, decode_offset_value(value)
                )
            case _:
                self.replay(key, value)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the marker of a producer's transaction."""
        self.state.offsets.end_transaction(producer_id, is_commit=is_commit)

    def finish_load(self, now: Now) -> Outcome:
        """After the last replayed record, give every member a full session timeout."""
        state = self.state
        for group_id in state.offsets.group_ids():
            # A group that never had members has offsets, but no record of its own.
            if group_id not in state.consumer_groups:
                state.classic_groups.setdefault(group_id, ClassicGroup(group_id))
        step = state.step(now)
        for group in state.classic_groups.values():
            for member in group.members.values():
                extend_session(step, group, member)
            if len(group.members) > state.limits.group_max_size:
                prepare_rebalance(step, group)
        state.consumer_groups.finish_load(now, step.outcome)
        return step.outcome

    # -- membership -------------------------------------------------------------------------

    def join(self, ticket: int, request: JoinRequest, now: Now) -> Outcome:
        """Handle JoinGroup; the response comes when the join phase ends."""
        state = self.state
        step = state.step(now)
        error = membership.validate_join(step, request)
        if error is ErrorCode.none and state.is_full_for(request.group_id):
            error = ErrorCode.policy_violation
        if error is not ErrorCode.none:
            return step.outcome.respond(ticket, JoinResponse(error, request.member_id))
        if request.group_id in state.consumer_groups and not self._make_classic(step, request):
            try:
                response = state.consumer_groups.classic_join(request, now, step.outcome)
            except KafkaError as refused_as:
                response = JoinResponse(refused_as.code, request.member_id)
            return step.outcome.respond(ticket, response)
        group = state.classic_groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                refused = JoinResponse(ErrorCode.unknown_member_id, request.member_id)
                return step.outcome.respond(ticket, refused)
            group = state.classic_groups[request.group_id] = ClassicGroup(request.group_id)
        membership.join(step, group, ticket, request)
        state.drop_if_unused(group)
        return step.outcome

    def sync(self, ticket: int, request: SyncRequest, now: Now) -> Outcome:
        """Handle SyncGroup; the response comes when the leader has sent the assignment."""
        step = self.state.step(now)
        if request.group_id in self.state.consumer_groups:
            try:
                response = self.state.consumer_groups.classic_sync(request, now)
            except KafkaError as error:
                response = SyncResponse(error.code)
            return step.outcome.respond(ticket, response)
        group = self.state.classic_groups.get(request.group_id)
        if group is None:
            return step.outcome.respond(ticket, SyncResponse(ErrorCode.unknown_member_id))
        membership.sync(step, group, ticket, request)
        return step.outcome

    def heartbeat(self, ticket: int, request: HeartbeatRequest, now: Now) -> Outcome:
        """Handle Heartbeat."""
        step = self.state.step(now)
        if request.group_id in self.state.consumer_groups:
            try:
                code = self.state.consumer_groups.classic_heartbeat(request, now)
            except KafkaError as error:
                code = error.code
            return step.outcome.respond(ticket, code)
        group = self.state.classic_groups.get(request.group_id)
        if group is None:
            return step.outcome.respond(ticket, ErrorCode.unknown_member_id)
        return step.outcome.respond(ticket, membership.heartbeat(step, group, request))

    def leave(self, ticket: int, request: LeaveRequest, now: Now) -> Outcome:
        """Handle LeaveGroup."""
        step = self.state.step(now)
        if request.group_id in self.state.consumer_groups:
            left = self.state.consumer_groups.classic_leave(request, now, step.outcome)
            return step.outcome.respond(ticket, left)
        group = self.state.classic_groups.get(request.group_id)
        if group is None:
            unknown = tuple((member, ErrorCode.unknown_member_id) for member in request.members)
            return step.outcome.respond(ticket, LeaveResponse(ErrorCode.none, unknown))
        response = membership.leave(step, group, request)
        self.state.drop_if_unused(group)
        return step.outcome.respond(ticket, response)

    def consumer_heartbeat(
        self, ticket: int, request: ConsumerHeartbeatRequest, now: Now
    ) -> Outcome:
        """Handle a valid ConsumerGroupHeartbeat."""
        state, outcome = self.state, Outcome()
        group = state.classic_groups.get(request.group_id)
        if group is not None:
            if request.member_epoch != JOIN_EPOCH:
                message = f"Group {request.group_id} is not a consumer group."
                response = HeartbeatResponse(ErrorCode.group_id_not_found, message)
                return outcome.respond(ticket, response)
            if group.state is not GroupState.EMPTY:
                return outcome.respond(ticket, self._upgrade(group, request, now, outcome))
            state.remove_classic_group(group, outcome.records)
        elif request.member_epoch == JOIN_EPOCH and state.is_full_for(request.group_id):
            message = f"The coordinator has {state.limits.groups_max} groups in this partition."
            response = HeartbeatResponse(ErrorCode.policy_violation, message)
            return outcome.respond(ticket, response)
        response = state.consumer_groups.heartbeat(request, now, outcome)
        if group is not None and request.group_id not in state.consumer_groups:
            # The join was refused: restore the classic group.
            outcome.records.clear()
            state.classic_groups[request.group_id] = group
            group.state = GroupState.EMPTY
        return outcome.respond(ticket, response)

    def _upgrade(
        self, group: ClassicGroup, request: ConsumerHeartbeatRequest, now: Now, outcome: Outcome
    ) -> HeartbeatResponse:
        """Let a consumer member join a classic group that has members, or refuse it."""
        state = self.state
        try:
            check_upgrade(group, state.limits.consumer)
        except KafkaError as error:
            return HeartbeatResponse(error.code, error.message)
        joined = Outcome()
        response = state.consumer_groups.upgrade(
            lambda step: fill_from_classic(step, group), request, now, joined
        )
        if response.error is ErrorCode.none:
            release_waiting(Step(state.limits, state.timers, now, outcome), group)
            state.remove_classic_group(group, outcome.records)
            outcome.records.extend(joined.records)
        return response

    def _make_classic(self, step: Step, request: JoinRequest) -> bool:
        """Replace a consumer group without members by a classic group. Return False if it has
        members."""
        error = self.state.consumer_groups.delete(request.group_id, step.now, step.outcome)
        if error is ErrorCode.none:
            self.state.classic_groups[request.group_id] = ClassicGroup(request.group_id)
        return error is ErrorCode.none

    # -- committed offsets ------------------------------------------------------------------

    def commit_offsets(self, ticket: int, request: CommitRequest, now: Now) -> Outcome:
        """Handle OffsetCommit; the response is one error code per offset."""
        return self._offset_requests.commit(ticket, request, now)

    def commit_transactional(
        self, ticket: int, request: TransactionalCommitRequest, now: Now
    ) -> Outcome:
        """Handle TxnOffsetCommit; the response is one error code per offset."""
        return self._offset_requests.commit_transactional(ticket, request, now)

    def fetch_offsets(
        self,
        ticket: int,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Outcome:
        """Handle OffsetFetch of one group; None as partitions means all committed offsets."""
        return self._offset_requests.fetch(
            ticket,
            group_id,
            partitions,
            require_stable=require_stable,
            member_id=member_id,
            member_epoch=member_epoch,
        )

    def delete_offsets(
        self, ticket: int, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Outcome:
        """Handle OffsetDelete; one error code per offset, or one for all of them."""
        return self._offset_requests.delete(ticket, group_id, partitions)

    def delete_topics(self, topics: frozenset[str]) -> Outcome:
        """Delete every group's committed and pending offsets in deleted topics."""
        return self._offset_requests.delete_topics(topics)

    def expire_offsets(self, now: Now) -> Outcome:
        """Delete offsets past their retention, and empty groups that have none left."""
        return self._offset_requests.expire(now)

    # -- administration ---------------------------------------------------------------------

    def describe_consumer_group(self, ticket: int, group_id: str) -> Outcome:
        """Handle ConsumerGroupDescribe of one group."""
        described = self.state.consumer_groups.describe(group_id)
        if group_id in self.state.classic_groups:
            described = described._replace(message=f"Group {group_id} is not a consumer group.")
        return Outcome().respond(ticket, described)

    def describe(self, ticket: int, group_id: str) -> Outcome:
        """Handle DescribeGroups of one group; an unknown group is Dead."""
        group = self.state.classic_groups.get(group_id)
        if group is None:
            message = f"Group {group_id} not found."
            if group_id in self.state.consumer_groups:
                message = f"Group {group_id} is not a classic group."
            dead = DescribedGroup(group_id, GroupState.DEAD.value, "", "", message=message)
            return Outcome().respond(ticket, dead)
        return Outcome().respond(ticket, group.describe())

    def list_groups(self) -> list[ListedGroup]:
        """Return every group in its present state."""
        return [
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value)
            for group in self.state.classic_groups.values()
        ] + [
            ListedGroup(group.group_id, CONSUMER_PROTOCOL, group.state.value, "consumer")
            for group in self.state.consumer_groups
        ]

    def delete_group(self, ticket: int, group_id: str, now: Now) -> Outcome:
        """Handle DeleteGroups of one group without members; its committed offsets go with it."""
        state, outcome = self.state, Outcome()
        if group_id in state.consumer_groups:
            error = state.consumer_groups.delete(group_id, now, outcome)
            if error is ErrorCode.none:
                outcome.records.extend(self._offset_tombstones(group_id))
            return outcome.respond(ticket, error)
        group = state.classic_groups.get(group_id)
        if group is None:
            return outcome.respond(ticket, ErrorCode.group_id_not_found)
        if group.state is not GroupState.EMPTY:
            return outcome.respond(ticket, ErrorCode.non_empty_group)
        outcome.records.extend(self._offset_tombstones(group_id))
        state.remove_classic_group(group, outcome.records)
        return outcome.respond(ticket, ErrorCode.none)

    def _offset_tombstones(self, group_id: str) -> Iterable[StoredRecord]:
        offsets = self.state.offsets
        return offsets.tombstones(group_id, offsets.partitions(group_id))

    # -- timers -----------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when `expire_timers` is due, in monotonic milliseconds."""
        return self.state.timers.next_deadline_ms()

    def defer_timers(self, until_ms: int) -> None:
        """Move earlier deadlines to `until_ms`, in monotonic milliseconds.

        A group whose members have all joined waits for nobody: it is not to wait longer.
        """
        self.state.timers.defer(until_ms, stays=self._ends_complete_join)

    def _ends_complete_join(self, key: TimerKey) -> bool:
        group = self.state.classic_groups.get(key.group_id) if key.kind == JOIN else None
        return group is not None and group.all_joined

    def expire_timers(self, now: Now) -> Outcome:
        """Act on every timer whose deadline has passed."""
        state = self.state
        step = state.step(now)
        while (key := state.timers.pop_due(now.monotonic_ms)) is not None:
            if key.kind in CONSUMER_TIMER_KINDS:
                state.consumer_groups.expire(
                    key.kind, key.group_id, key.member_id, now, step.outcome
                )
                continue
            group = state.classic_groups.get(key.group_id)
            if group is None:
                continue
            if key.kind == SESSION:
                expire_session(step, group, key.member_id)
            elif key.kind == JOIN:
                expire_join(step, group)
            else:
                expire_sync(step, group)
            state.drop_if_unused(group)
        return step.outcome
