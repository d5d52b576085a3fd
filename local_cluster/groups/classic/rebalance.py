"""The steps of a rebalance: start it, end the join phase, distribute assignments, remove members.

Each function changes one group within one `Step`: it sets timers and adds records and responses to
the step's outcome. The decisions follow Kafka's GroupMetadataManager (prepareRebalance,
completeClassicGroupJoin, propagateAssignment and their callees).

Not here: requests (membership.py), committed offsets (offsets.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.classic.classic_fsm import GroupEvent, GroupState, can_rebalance
from local_cluster.groups.classic.group import ClassicGroup, Member
from local_cluster.groups.records import StoredGroup, encode_group_key, encode_group_value
from local_cluster.groups.requests import UNKNOWN_MEMBER, GroupLimits, JoinResponse, SyncResponse
from local_cluster.groups.timers import TimerKey, TimerQueue
from local_cluster.wire.errors import ErrorCode

SESSION: Final = "session"
JOIN: Final = "join"
SYNC: Final = "sync"

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""The first JoinGroup of a member waits at most this long; it sends no heartbeats meanwhile."""


@dataclass(slots=True)
class Step:
    """One step on a classic group: what it may use, and the outcome that it fills."""

    limits: GroupLimits
    timers: TimerQueue
    now: Now
    outcome: Outcome

    def respond(self, ticket: int, response: object) -> None:
        self.outcome.responses.append((ticket, response))

    def schedule(self, kind: str, delay_ms: int, group_id: str, member_id: str = "") -> None:
        self.timers.schedule(TimerKey(kind, group_id, member_id), self.now.monotonic_ms + delay_ms)

    def cancel(self, kind: str, group_id: str, member_id: str = "") -> None:
        self.timers.cancel(TimerKey(kind, group_id, member_id))

    def store(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> bool:
        """Add the group's record, or return False if it would be too large for the log."""
        return self._store(group, group.to_stored(assignments))

    def store_instance(self, group: ClassicGroup, group_instance_id: str, member_id: str) -> None:
        """Store the last stored generation again with the new member id of a static member.

        The generation that is being formed is stored only when it is assigned. Until then a
        coordinator that loads the log uses the last stored one. With the old member id in it, that
        coordinator would fence the new one, and no client recovers from that.
        """
        if group.stored is None:
            return
        stored = group.stored.with_instance(group_instance_id, member_id)
        if stored != group.stored:
            # Member ids of an instance have equal lengths: this fails only after a lowered limit.
            self._store(group, stored)

    def _store(self, group: ClassicGroup, stored: StoredGroup) -> bool:
        value = encode_group_value(stored)
        if len(value) > self.limits.group_record_bytes_max:
            return False
        self.outcome.records.append(StoredRecord(encode_group_key(group.group_id), value))
        group.stored = stored
        return True


def extend_session(step: Step, group: ClassicGroup, member: Member) -> None:
    """Restart the member's session timeout."""
    step.schedule(SESSION, member.session_timeout_ms, group.group_id, member.member_id)


def respond_to_join(
    step: Step, group: ClassicGroup, member_id: str, response: JoinResponse
) -> None:
    """Respond to the member's waiting JoinGroup, if there is one."""
    ticket = group.awaiting_join.pop(member_id, None)
    if ticket is not None:
        step.respond(ticket, response)


def respond_to_sync(
    step: Step, group: ClassicGroup, member_id: str, response: SyncResponse
) -> bool:
    """Respond to the member's waiting SyncGroup, if there is one."""
    ticket = group.awaiting_sync.pop(member_id, None)
    if ticket is None:
        return False
    step.respond(ticket, response)
    return True


def current_generation(group: ClassicGroup, member_id: str) -> JoinResponse:
    """Return the join response of the current generation; only the leader gets the members."""
    return JoinResponse(
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
    """Start a rebalance if the state allows it, else complete the join phase if it is ready."""
    if can_rebalance(group.state):
        prepare_rebalance(step, group)
    else:
        complete_join_if_ready(step, group)


def prepare_rebalance(step: Step, group: ClassicGroup) -> None:
    """Start a rebalance: respond to waiting SyncGroups, and begin the join phase."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        refuse_waiting_syncs(step, group, ErrorCode.rebalance_in_progress)
    group.pending_sync.clear()
    step.cancel(SYNC, group.group_id)

    is_initial = group.state is GroupState.EMPTY
    group.move(GroupEvent.REBALANCE, step.now.wall_ms)
    if is_initial:
        # The members of a starting application join within seconds of each other. Waiting for
        # them saves one rebalance per member.
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
    """Fail every waiting SyncGroup and restart the session timeouts of these members."""
    for member in group.members.values():
        if respond_to_sync(step, group, member.member_id, SyncResponse(error)):
            extend_session(step, group, member)


def complete_join_if_ready(step: Step, group: ClassicGroup) -> None:
    """End the join phase if all have joined; the first one always lasts for its initial delay."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.previous_state is GroupState.EMPTY and group.initial_delay_ms > 0:
        return
    if group.all_joined:
        complete_join(step, group)


def expire_join(step: Step, group: ClassicGroup) -> None:
    """At the join deadline extend the initial delay after a late join, or end the join phase."""
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
    """End the join phase: remove members that have not rejoined, and start the next generation.

    Static members that have not rejoined stay until their session times out.
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
        # Only static members are left that have not rejoined; their sessions time out one by one.
        step.schedule(JOIN, group.rebalance_timeout_ms, group.group_id)


def _become_empty(step: Step, group: ClassicGroup) -> None:
    group.generation_id += 1
    group.former_epochs.clear()
    group.protocol_name = None
    group.end_initial_delay()
    group.move(GroupEvent.MEMBERS_GONE, step.now.wall_ms)
    stored = step.store(group, {})
    assert stored, "a record without members always fits"


def _start_generation(step: Step, group: ClassicGroup) -> None:
    group.generation_id += 1
    group.former_epochs.clear()
    group.protocol_name = group.select_protocol()
    group.end_initial_delay()
    group.move(GroupEvent.GENERATION_STARTED, step.now.wall_ms)
    group.pending_sync = set(group.members)
    for member in group.members.values():
        respond_to_join(step, group, member.member_id, current_generation(group, member.member_id))
        extend_session(step, group, member)
        member.is_new = False
    step.schedule(SYNC, group.rebalance_timeout_ms, group.group_id)


def assign(step: Step, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    """Store the leader's assignments and respond to every waiting SyncGroup."""
    if not step.store(group, assignments):
        for member in group.members.values():
            member.assignment = b""
        refuse_waiting_syncs(step, group, ErrorCode.unknown_server_error)
        prepare_rebalance(step, group)
        return
    group.move(GroupEvent.ASSIGNED, step.now.wall_ms)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        response = SyncResponse(
            ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment
        )
        if respond_to_sync(step, group, member.member_id, response):
            extend_session(step, group, member)


def note_sync(step: Step, group: ClassicGroup, member_id: str) -> None:
    """Record that the member has synced; the last one cancels the sync deadline."""
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        step.cancel(SYNC, group.group_id)


def expire_sync(step: Step, group: ClassicGroup) -> None:
    """At the sync deadline remove members that never synced, and rebalance the others."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    if not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        group.remove(member_id)
        step.cancel(SESSION, group.group_id, member_id)
    prepare_rebalance(step, group)


def expire_session(step: Step, group: ClassicGroup, member_id: str) -> None:
    """Remove a member at its session timeout, or a reserved id that was not used in time."""
    if member_id in group.pending_join:
        group.remove(member_id)
        complete_join_if_ready(step, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member_id in group.awaiting_join or member_id in group.awaiting_sync
    if waits and not member.is_new:
        # It cannot send heartbeats while it waits; the response restarts its session timeout.
        return
    remove_member(step, group, member_id)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(step, group)
    else:
        complete_join_if_ready(step, group)


def remove_member(step: Step, group: ClassicGroup, member_id: str) -> None:
    """Remove a member; its waiting JoinGroup or SyncGroup gets UNKNOWN_MEMBER_ID."""
    step.cancel(SESSION, group.group_id, member_id)
    refused = JoinResponse(ErrorCode.unknown_member_id, UNKNOWN_MEMBER)
    respond_to_join(step, group, member_id, refused)
    respond_to_sync(step, group, member_id, SyncResponse(ErrorCode.unknown_member_id))
    group.remove(member_id)
