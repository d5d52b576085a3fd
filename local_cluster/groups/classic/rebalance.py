"""The life of a rebalance: start it, finish the join phase, hand out assignments, lose members.

Each function moves one group within one `Step`: it changes the group, sets timers and adds
records and answers to the step's outcome. The decisions follow Kafka's GroupMetadataManager
(prepareRebalance, completeClassicGroupJoin, propagateAssignment and what they call).

Not here: reading requests (membership.py), committed offsets (offsets.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.classic.classic_fsm import GroupEvent, GroupState, can_rebalance
from local_cluster.groups.classic.group import ClassicGroup, Member
from local_cluster.groups.records import StoredGroup, encode_group_key, encode_group_value
from local_cluster.groups.requests import UNKNOWN_MEMBER, GroupLimits, JoinAnswer, SyncAnswer
from local_cluster.groups.timers import TimerKey, TimerQueue
from local_cluster.wire.errors import ErrorCode

SESSION: Final = "session"
JOIN: Final = "join"
SYNC: Final = "sync"

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""A member without an answer yet cannot send heartbeats; this long its JoinGroup may wait."""


@dataclass(slots=True)
class Step:
    """One step of a shard: what it may use, and where its results go."""

    limits: GroupLimits
    timers: TimerQueue
    now: Now
    outcome: Outcome

    def answer(self, ticket: int, answer: object) -> None:
        self.outcome.answers.append((ticket, answer))

    def schedule(self, kind: str, delay_ms: int, group_id: str, member_id: str = "") -> None:
        self.timers.schedule(TimerKey(kind, group_id, member_id), self.now.monotonic_ms + delay_ms)

    def cancel(self, kind: str, group_id: str, member_id: str = "") -> None:
        self.timers.cancel(TimerKey(kind, group_id, member_id))

    def store(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> bool:
        """Add the group's record, or return False where it would be too large for the log."""
        return self._store(group, group.to_stored(assignments))

    def store_instance(self, group: ClassicGroup, group_instance_id: str, member_id: str) -> None:
        """Make the log's generation name the member id that a static member has now.

        The generation that is being formed is stored when it is assigned. Until then a coordinator
        that reads the log goes by the last one, and would fence the new member id for the old
        one, which no client recovers from.
        """
        if group.stored is None:
            return
        stored = group.stored.with_instance(group_instance_id, member_id)
        if stored != group.stored:
            # Ids of an instance are equally long, so this fails only with a limit that was lowered.
            self._store(group, stored)

    def _store(self, group: ClassicGroup, stored: StoredGroup) -> bool:
        value = encode_group_value(stored)
        if len(value) > self.limits.group_record_bytes_max:
            return False
        self.outcome.records.append(StoredRecord(encode_group_key(group.group_id), value))
        group.stored = stored
        return True


def extend_session(step: Step, group: ClassicGroup, member: Member) -> None:
    """The member was heard of: its session ends a whole timeout from now."""
    step.schedule(SESSION, member.session_timeout_ms, group.group_id, member.member_id)


def answer_join(step: Step, group: ClassicGroup, member_id: str, answer: JoinAnswer) -> None:
    """Answer the member's waiting JoinGroup, if there is one."""
    ticket = group.awaiting_join.pop(member_id, None)
    if ticket is not None:
        step.answer(ticket, answer)


def answer_sync(step: Step, group: ClassicGroup, member_id: str, answer: SyncAnswer) -> bool:
    """Answer the member's waiting SyncGroup, if there is one."""
    ticket = group.awaiting_sync.pop(member_id, None)
    if ticket is None:
        return False
    step.answer(ticket, answer)
    return True


def current_generation(group: ClassicGroup, member_id: str) -> JoinAnswer:
    """The join answer of the generation as it is; only the leader is told who is in it."""
    return JoinAnswer(
        ErrorCode.none,
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader or "",
        skip_assignment=False,
        members=group.joined_members() if member_id == group.leader else (),
    )


def rebalance_or_complete_join(step: Step, group: ClassicGroup) -> None:
    """Start a rebalance where the state allows it, else see whether the running one is ready."""
    if can_rebalance(group.state):
        prepare_rebalance(step, group)
    else:
        complete_join_if_ready(step, group)


def prepare_rebalance(step: Step, group: ClassicGroup) -> None:
    """Ask everybody to join again: waiting SyncGroups are answered, the join phase begins."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        refuse_waiting_syncs(step, group, ErrorCode.rebalance_in_progress)
    group.pending_sync.clear()
    step.cancel(SYNC, group.group_id)

    is_initial = group.state is GroupState.EMPTY
    group.move(GroupEvent.REBALANCE, step.now.wall_ms)
    if is_initial:
        # The members of a starting application come within seconds of each other; waiting
        # for them saves one rebalance per member.
        delay_ms = step.limits.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms == 0:
            complete_join(step, group)
        else:
            step.schedule(JOIN, delay_ms, group.group_id)
    elif group.all_joined:
        complete_join(step, group)
    else:
        step.schedule(JOIN, group.rebalance_timeout_ms, group.group_id)


def refuse_waiting_syncs(step: Step, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every waiting SyncGroup with an error and give these members a new session."""
    for member in group.members.values():
        if answer_sync(step, group, member.member_id, SyncAnswer(error)):
            extend_session(step, group, member)


def complete_join_if_ready(step: Step, group: ClassicGroup) -> None:
    """End the join phase once nobody is missing; the first one lasts for its delay in any case."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.previous_state is GroupState.EMPTY and group.initial_delay_ms > 0:
        return
    if group.all_joined:
        complete_join(step, group)


def expire_join(step: Step, group: ClassicGroup) -> None:
    """The join timer fired: extend the initial delay for latecomers, or go on without them."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.new_member_added and group.initial_remaining_ms > 0:
        group.new_member_added = False
        delay_ms = min(step.limits.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        step.schedule(JOIN, delay_ms, group.group_id)
        return
    complete_join(step, group)


def complete_join(step: Step, group: ClassicGroup) -> None:
    """End the join phase: who has not rejoined is out, the rest form the next generation.

    Static members stay although they have not rejoined; their session decides about them.
    """
    step.cancel(JOIN, group.group_id)
    missing = [
        member
        for member in group.members.values()
        if member.member_id not in group.awaiting_join and member.group_instance_id is None
    ]
    for member in missing:
        group.remove(member.member_id)
        step.cancel(SESSION, group.group_id, member.member_id)

    if not group.members:
        _become_empty(step, group)
    elif group.elect_joined_leader():
        _start_generation(step, group)
    else:
        # Only silent static members are left; their sessions end one by one.
        step.schedule(JOIN, group.rebalance_timeout_ms, group.group_id)


def _become_empty(step: Step, group: ClassicGroup) -> None:
    group.generation_id += 1
    group.protocol_name = None
    group.end_initial_delay()
    group.move(GroupEvent.MEMBERS_GONE, step.now.wall_ms)
    stored = step.store(group, {})
    assert stored, "a record without members fits always"


def _start_generation(step: Step, group: ClassicGroup) -> None:
    group.generation_id += 1
    group.protocol_name = group.select_protocol()
    group.end_initial_delay()
    group.move(GroupEvent.GENERATION_STARTED, step.now.wall_ms)
    group.pending_sync = set(group.members)
    for member in group.members.values():
        answer_join(step, group, member.member_id, current_generation(group, member.member_id))
        extend_session(step, group, member)
        member.is_new = False
    step.schedule(SYNC, group.rebalance_timeout_ms, group.group_id)


def assign(step: Step, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    """The leader has decided: store the generation, answer every waiting SyncGroup."""
    if not step.store(group, assignments):
        for member in group.members.values():
            member.assignment = b""
        refuse_waiting_syncs(step, group, ErrorCode.unknown_server_error)
        prepare_rebalance(step, group)
        return
    group.move(GroupEvent.ASSIGNED, step.now.wall_ms)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        answer = SyncAnswer(
            ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment
        )
        if answer_sync(step, group, member.member_id, answer):
            extend_session(step, group, member)


def note_sync(step: Step, group: ClassicGroup, member_id: str) -> None:
    """The member has synced; with the last one the sync deadline falls away."""
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        step.cancel(SYNC, group.group_id)


def expire_sync(step: Step, group: ClassicGroup) -> None:
    """The sync deadline passed: members that never synced are out, the others rebalance."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    if not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        group.remove(member_id)
        step.cancel(SESSION, group.group_id, member_id)
    prepare_rebalance(step, group)


def expire_session(step: Step, group: ClassicGroup, member_id: str) -> None:
    """A member was silent for its session timeout, or a reserved id was not used in time."""
    if member_id in group.pending_join:
        group.remove(member_id)
        complete_join_if_ready(step, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member_id in group.awaiting_join or member_id in group.awaiting_sync
    if waits and not member.is_new:
        # It cannot send heartbeats while it waits for us; the answer starts a new session.
        return
    remove_member(step, group, member_id)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(step, group)
    else:
        complete_join_if_ready(step, group)


def remove_member(step: Step, group: ClassicGroup, member_id: str) -> None:
    """Take a member out; a JoinGroup or SyncGroup of its that waits is answered as unknown."""
    step.cancel(SESSION, group.group_id, member_id)
    refused = JoinAnswer(ErrorCode.unknown_member_id, UNKNOWN_MEMBER)
    answer_join(step, group, member_id, refused)
    answer_sync(step, group, member_id, SyncAnswer(ErrorCode.unknown_member_id))
    group.remove(member_id)
