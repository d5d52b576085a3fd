"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on one group: which request may do what.

Each function takes a step, the group and a request, and answers the request's ticket now or
leaves it with the group (`awaiting_join`, `awaiting_sync`). The rules follow Kafka's
GroupMetadataManager (classicGroupJoin and its neighbours), with one addition: a request that is
replaced by a retry of the same member is answered REBALANCE_IN_PROGRESS instead of never.
"""

from __future__ import annotations

from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup, Member
from local_cluster.groups.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    SESSION,
    Step,
    answer_join,
    answer_sync,
    assign,
    complete_join_if_ready,
    current_generation,
    extend_session,
    note_sync,
    rebalance_or_complete_join,
    remove_member,
)
from local_cluster.groups.records import STRING_BYTES_MAX
from local_cluster.groups.requests import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from local_cluster.wire.errors import ErrorCode


def validate_join(step: Step, request: JoinRequest) -> ErrorCode:
    """What can be said about a JoinGroup without looking at a group."""
    limits = step.limits
    if not request.group_id:
        return ErrorCode.invalid_group_id
    if not (
        limits.group_min_session_timeout_ms
        <= request.session_timeout_ms
        <= limits.group_max_session_timeout_ms
    ):
        return ErrorCode.invalid_session_timeout
    stored_names = [request.protocol_type, request.group_instance_id or "", request.client_id]
    stored_names += [name for name, _ in request.protocols]
    # A member id is a client or instance id and a uuid, and has to fit into a record as well.
    if any(len(name.encode()) > STRING_BYTES_MAX - 64 for name in stored_names):
        return ErrorCode.invalid_request
    return ErrorCode.none


def join(step: Step, group: ClassicGroup, ticket: int, request: JoinRequest) -> None:
    """JoinGroup: reserve an id, take a member in, or let a member join again."""
    if not _has_room(step, group, request.member_id):
        if request.member_id in group.members or request.member_id in group.pending_join:
            remove_member(step, group, request.member_id)
            complete_join_if_ready(step, group)
        step.answer(ticket, JoinAnswer(ErrorCode.group_max_size_reached, UNKNOWN_MEMBER))
    elif not group.supports(request.protocol_type, request.protocols):
        step.answer(ticket, JoinAnswer(ErrorCode.inconsistent_group_protocol, request.member_id))
    elif request.member_id == UNKNOWN_MEMBER:
        _join_new_member(step, group, ticket, request)
    else:
        _join_known_member(step, group, ticket, request)


def _has_room(step: Step, group: ClassicGroup, member_id: str) -> bool:
    limit = step.limits.group_max_size
    match group.state:
        case GroupState.EMPTY:
            return member_id in group.pending_join or len(group.pending_join) < limit
        case GroupState.PREPARING_REBALANCE:
            # Counting who waits, not who is a member, lets a group shrink to a lowered limit.
            return (
                member_id in group.awaiting_join
                or len(group.awaiting_join) + len(group.pending_join - {member_id}) < limit
            )
        case _:
            occupied = len(group.members) + len(group.pending_join - {member_id})
            return member_id in group.members or occupied < limit


def _join_new_member(step: Step, group: ClassicGroup, ticket: int, request: JoinRequest) -> None:
    instance_id = request.group_instance_id
    name = request.client_id if instance_id is None else instance_id
    new_member_id = f"{name}-{request.member_uuid}"
    if instance_id is not None:
        if instance_id in group.static_members:
            _return_static_member(step, group, ticket, request, new_member_id)
        else:
            _add_member(step, group, ticket, request, new_member_id)
    elif request.requires_known_member_id:
        # A client that never comes back costs a name, not a member that all others wait for.
        group.pending_join.add(new_member_id)
        step.schedule(SESSION, request.session_timeout_ms, group.group_id, new_member_id)
        step.answer(ticket, JoinAnswer(ErrorCode.member_id_required, new_member_id))
    else:
        _add_member(step, group, ticket, request, new_member_id)


def _join_known_member(step: Step, group: ClassicGroup, ticket: int, request: JoinRequest) -> None:
    member_id = request.member_id
    if member_id in group.pending_join:
        if request.group_instance_id is not None:
            # A reserved id belongs to a dynamic member.
            step.answer(ticket, JoinAnswer(ErrorCode.unknown_member_id, member_id))
        else:
            _add_member(step, group, ticket, request, member_id)
        return
    error = group.validate_member(member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        step.answer(ticket, JoinAnswer(error, member_id))
        return
    member = group.members[member_id]
    has_changed = member.protocols != request.protocols
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            needs_rebalance = True
        case GroupState.COMPLETING_REBALANCE:
            # With the same metadata it has missed the answer; it gets the same one again.
            needs_rebalance = has_changed
        case GroupState.STABLE:
            # The leader rejoins when something outside its metadata changed, like the topics.
            needs_rebalance = has_changed or member_id == group.leader
        case _:
            step.answer(ticket, JoinAnswer(ErrorCode.unknown_member_id, member_id))
            return
    if needs_rebalance:
        _update_member(step, group, ticket, member, request)
        rebalance_or_complete_join(step, group)
    else:
        step.answer(ticket, current_generation(group, member_id))


def _add_member(
    step: Step, group: ClassicGroup, ticket: int, request: JoinRequest, member_id: str
) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(
        Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            is_new=True,
        )
    )
    if request.group_instance_id is not None:
        # It may have been here before: expired or removed since the last generation was stored.
        step.store_instance(group, request.group_instance_id, member_id)
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    step.schedule(SESSION, NEW_MEMBER_JOIN_TIMEOUT_MS, group.group_id, member_id)
    group.awaiting_join[member_id] = ticket
    rebalance_or_complete_join(step, group)


def _update_member(
    step: Step, group: ClassicGroup, ticket: int, member: Member, request: JoinRequest
) -> None:
    group.update_protocols(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.client_id = request.client_id
    member.client_host = request.client_host
    answer_join(
        step,
        group,
        member.member_id,
        JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id),
    )
    group.awaiting_join[member.member_id] = ticket


def _return_static_member(
    step: Step, group: ClassicGroup, ticket: int, request: JoinRequest, new_member_id: str
) -> None:
    """A static member restarted: it takes over its place under a new id, its old self is fenced.

    In a stable group that keeps its protocol nothing else happens: no rebalance, same assignment.
    """
    instance_id = request.group_instance_id
    assert instance_id is not None
    old_leader = group.leader
    old_member_id = group.static_members[instance_id]
    fenced = ErrorCode.fenced_instance_id
    answer_join(step, group, old_member_id, JoinAnswer(fenced, old_member_id))
    answer_sync(step, group, old_member_id, SyncAnswer(fenced))
    step.cancel(SESSION, group.group_id, old_member_id)
    member = group.replace_static(instance_id, new_member_id)
    extend_session(step, group, member)
    _update_member(step, group, ticket, member, request)

    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        if step.store(group, assignments):
            answer = current_generation(group, new_member_id)
            if request.supports_skipping_assignment:
                answer = answer._replace(skip_assignment=new_member_id == group.leader)
            else:
                # Before v9 a returning leader is told of its old self as leader, so that it
                # does not compute an assignment of its own for a group that is stable.
                answer = answer._replace(leader=old_leader or "", members=())
            answer_join(step, group, new_member_id, answer)
            return
    step.store_instance(group, instance_id, new_member_id)
    # Where the leader assigns just now, it may be assigning to the old id.
    rebalance_or_complete_join(step, group)


def sync(step: Step, group: ClassicGroup, ticket: int, request: SyncRequest) -> None:
    """SyncGroup: the leader brings the assignment, the others wait for theirs."""
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.none:
        error = _validate_sync(group, request)
    if error is not ErrorCode.none:
        step.answer(ticket, SyncAnswer(error))
        return
    member = group.members[request.member_id]
    note_sync(step, group, request.member_id)
    if group.state is GroupState.STABLE:
        step.answer(
            ticket,
            SyncAnswer(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment),
        )
        return
    retried = SyncAnswer(ErrorCode.rebalance_in_progress)
    answer_sync(step, group, request.member_id, retried)
    group.awaiting_sync[request.member_id] = ticket
    if request.member_id == group.leader:
        assign(step, group, dict(request.assignments))


def _validate_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    for given, chosen in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if given is not None and chosen is not None and given != chosen:
            return ErrorCode.inconsistent_group_protocol
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def heartbeat(step: Step, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    """Heartbeat: extends the session, and tells the member when it has to rejoin."""
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    extend_session(step, group, group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def leave(step: Step, group: ClassicGroup, request: LeaveRequest) -> LeaveAnswer:
    """LeaveGroup: each named member is removed or told why not; one rebalance for all of them."""
    members_before = len(group.members)
    results = tuple((leaving, _leave_one(step, group, leaving)) for leaving in request.members)
    if len(group.members) < members_before:
        rebalance_or_complete_join(step, group)
    else:
        # A reserved id that is given back may be the last one that a join phase waits for.
        complete_join_if_ready(step, group)
    return LeaveAnswer(ErrorCode.none, results)


def _leave_one(step: Step, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    member_id, instance_id = leaving
    if member_id == UNKNOWN_MEMBER:
        # An administrator removes a static member without knowing its member id.
        existing = None if instance_id is None else group.static_members.get(instance_id)
        if existing is None:
            return ErrorCode.unknown_member_id
        remove_member(step, group, existing)
        return ErrorCode.none
    if member_id in group.pending_join:
        remove_member(step, group, member_id)
        return ErrorCode.none
    error = group.validate_member(member_id, instance_id)
    if error is ErrorCode.none:
        remove_member(step, group, member_id)
    return error
