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

from collections.abc import Callable, Iterable

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.wire.errors import ErrorCode

from . import membership
from .classic_fsm import GroupEvent, GroupState
from .group import ClassicGroup
from .offsets import (
    CommittedOffsets,
    TopicPartition,
    validate_commit,
    validate_transactional_commit,
)
from .rebalance import (
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
from .records import (
    STRING_BYTES_MAX,
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
)
from .requests import (
    UNKNOWN_MEMBER,
    CommitRequest,
    DescribedGroup,
    DescribedMember,
    GroupLimits,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    ListedGroup,
    SyncAnswer,
    SyncRequest,
    TransactionalCommitRequest,
)
from .subscription import CONSUMER_PROTOCOL, subscribed_topics
from .timers import TimerKey, TimerQueue

GROUP_TIMER_KINDS = (JOIN, SYNC)


class GroupShard:
    """The groups and committed offsets of one partition."""

    __slots__ = ("groups", "limits", "offsets", "timers")

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = CommittedOffsets()
        self.timers = TimerQueue()

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
            case _:
                # A newer kind of group, written by another broker: not ours to touch.
                pass

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
            self.groups.setdefault(group_id, ClassicGroup(group_id))
        step = self._step(now)
        for group in self.groups.values():
            for member in group.members.values():
                extend_session(step, group, member)
            if len(group.members) > self.limits.group_max_size:
                prepare_rebalance(step, group)
        return step.outcome

    # Membership

    def join(self, ticket: int, request: JoinRequest, now: Now) -> Outcome:
        """JoinGroup; the answer comes when the join phase is over."""
        step = self._step(now)
        error = membership.validate_join(step, request)
        if error is not ErrorCode.none:
            return step.outcome.answer(ticket, JoinAnswer(error, request.member_id))
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

    # Offsets

    def commit_offsets(self, ticket: int, request: CommitRequest, now: Now) -> Outcome:
        """OffsetCommit; the answer is one error code per position."""
        outcome = Outcome()
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                unknown = ErrorCode.illegal_generation
                if request.knows_group_not_found:
                    unknown = ErrorCode.group_id_not_found
                return outcome.answer(ticket, _each(request, unknown))
            if len(request.group_id.encode()) > STRING_BYTES_MAX:
                return outcome.answer(ticket, _each(request, ErrorCode.invalid_group_id))
            group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        error = validate_commit(group, request)
        if error is not ErrorCode.none:
            return outcome.answer(ticket, _each(request, error))
        member = group.members.get(request.member_id)
        if member is not None:
            extend_session(self._step(now), group, member)
        errors = self.offsets.commit(request, self.limits, now, outcome.records)
        self._forget_if_void(group)
        return outcome.answer(ticket, errors)

    def commit_transactional(
        self, ticket: int, request: TransactionalCommitRequest, now: Now
    ) -> Outcome:
        """TxnOffsetCommit; the answer is one error code per position."""
        outcome = Outcome(producer=(request.producer_id, request.producer_epoch))
        refused = len(request.offsets)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                return outcome.answer(ticket, (ErrorCode.illegal_generation,) * refused)
            if len(request.group_id.encode()) > STRING_BYTES_MAX:
                return outcome.answer(ticket, (ErrorCode.invalid_group_id,) * refused)
            group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        error = validate_transactional_commit(group, request)
        if error is not ErrorCode.none:
            return outcome.answer(ticket, (error,) * refused)
        errors = self.offsets.commit_pending(request, self.limits, now, outcome.records)
        self._forget_if_void(group)
        return outcome.answer(ticket, errors)

    def fetch_offsets(
        self,
        ticket: int,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool = False,
    ) -> Outcome:
        """OffsetFetch of one group; None asks for everything that was committed."""
        found = self.offsets.fetch(group_id, partitions, require_stable=require_stable)
        return Outcome().answer(ticket, found)

    # Administration

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
        ]

    def delete_group(self, ticket: int, group_id: str) -> Outcome:
        """DeleteGroups of one group: it must have no members; its positions go with it."""
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

    def delete_offsets(
        self, ticket: int, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Outcome:
        """OffsetDelete; one error code per position, or one for all of them.

        While a consumer group has members, topics that one of them subscribes to are refused;
        other groups must be empty.
        """
        group = self.groups.get(group_id)
        if group is None:
            return Outcome().answer(ticket, ErrorCode.group_id_not_found)
        subscribed: frozenset[str] | None = frozenset()
        if group.state is not GroupState.EMPTY:
            if group.protocol_type != CONSUMER_PROTOCOL:
                return Outcome().answer(ticket, ErrorCode.non_empty_group)
            subscribed = subscribed_topics(group)
        outcome = Outcome()
        errors = []
        for topic, partition in partitions:
            # Members whose subscription cannot be read may subscribe to anything.
            if subscribed is None or topic in subscribed:
                errors.append(ErrorCode.group_subscribed_to_topic)
                continue
            errors.append(ErrorCode.none)
            if self.offsets.has(group_id, topic, partition):
                outcome.records.extend(self.offsets.tombstones(group_id, [(topic, partition)]))
        self._forget_if_void(group)
        return outcome.answer(ticket, tuple(errors))

    def delete_topics(self, topics: frozenset[str]) -> Outcome:
        """Topics are gone, and with them every group's position in them."""
        outcome = Outcome()
        for group_id, partitions in self.offsets.groups_with_topics(topics):
            outcome.records.extend(self.offsets.tombstones(group_id, partitions))
        return outcome

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `expire_timers` has something to do, in monotonic milliseconds."""
        return self.timers.next_deadline_ms()

    def expire_timers(self, now: Now) -> Outcome:
        """Act on every timer whose deadline has come."""
        step = self._step(now)
        actions: dict[str, Callable[[Step, ClassicGroup], None]] = {
            JOIN: expire_join,
            SYNC: expire_sync,
        }
        while (key := self.timers.pop_due(now.monotonic_ms)) is not None:
            group = self.groups.get(key.group_id)
            if group is None:
                continue
            if key.kind == SESSION:
                expire_session(step, group, key.member_id)
            else:
                actions[key.kind](step, group)
            self._forget_if_void(group)
        return step.outcome

    def expire_offsets(self, now: Now) -> Outcome:
        """Remove positions past their retention, and empty groups that have none left."""
        outcome = Outcome()
        for group in list(self.groups.values()):
            expired = self.offsets.expired(group, self.limits, now)
            outcome.records.extend(self.offsets.tombstones(group.group_id, expired))
            if (
                group.state is GroupState.EMPTY
                and not group.pending_join
                and not self.offsets.has_any(group.group_id)
            ):
                self._remove_group(group, outcome.records)
        return outcome

    def _step(self, now: Now) -> Step:
        return Step(self.limits, self.timers, now, Outcome())

    def _remove_group(self, group: ClassicGroup, records: list[StoredRecord]) -> None:
        group.move(GroupEvent.REMOVED, group.state_timestamp_ms)
        del self.groups[group.group_id]
        for kind in GROUP_TIMER_KINDS:
            self.timers.cancel(TimerKey(kind, group.group_id))
        for member_id in group.pending_join:
            self.timers.cancel(TimerKey(SESSION, group.group_id, member_id))
        if group.is_stored:
            records.append(StoredRecord(encode_group_key(group.group_id), None))

    def _forget_if_void(self, group: ClassicGroup) -> None:
        """Drop a group of which nothing is known and nothing was written: a refused first join."""
        if (
            group.state is GroupState.EMPTY
            and not group.is_stored
            and not group.pending_join
            and not self.offsets.has_any(group.group_id)
        ):
            self.groups.pop(group.group_id, None)


def _each(request: CommitRequest, error: ErrorCode) -> tuple[ErrorCode, ...]:
    return (error,) * len(request.offsets)
