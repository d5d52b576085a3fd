"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on one classic group.

Each function responds to the request's ticket at once, or parks it in the group (`awaiting_join`,
`awaiting_sync`). The rules follow Kafka's GroupMetadataManager (classicGroupJoin and its
neighbours), with one addition: when a member retries a waiting request, the old one gets
REBALANCE_IN_PROGRESS. Kafka never responds to it.
"""

from __future__ import annotations

from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup, Member
from local_cluster.groups.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    SESSION,
    Step,
    assign,
    complete_join_if_ready,
    current_generation,
    extend_session,
    note_sync,
    rebalance_or_complete_join,
    remove_member,
    respond_to_join,
    respond_to_sync,
)
from local_cluster.groups.records import STRING_BYTES_MAX
from local_cluster.groups.requests import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from local_cluster.wire.errors import ErrorCode


def validate_join(step: Step, request: JoinRequest) -> ErrorCode:
    """Check a JoinGroup without a group."""
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
    # A member id, a client or instance id with a uuid, must also fit into a record.
    if any(len(name.encode()) > STRING_BYTES_MAX - 64 for name in stored_names):
        return ErrorCode.invalid_request
    if sum([len(data) for _, data in request.protocols]) > limits.member_metadata_bytes_max:
        return ErrorCode.invalid_request
    return ErrorCode.none


def join(step: Step, group: ClassicGroup, ticket: int, request: JoinRequest) -> None:
    """Handle JoinGroup: reserve an id, add a member, or let a member rejoin."""
    if not _has_room(step, group, request.member_id):
        if request.member_id in group.members or request.member_id in group.pending_join:
            remove_member(step, group, request.member_id)
            complete_join_if_ready(step, group)
        step.respond(ticket, JoinResponse(ErrorCode.group_max_size_reached, UNKNOWN_MEMBER))
    elif not group.supports(request.protocol_type, request.protocols):
        step.respond(ticket, JoinResponse(ErrorCode.inconsistent_group_protocol, request.member_id))
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
            # Counting the waiting members, not all, lets a group shrink to a lowered limit.
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
        # A client that never returns leaves only a name, not a member that all others wait for.
        group.pending_join.add(new_member_id)
        step.schedule(SESSION, request.session_timeout_ms, group.group_id, new_member_id)
        step.respond(ticket, JoinResponse(ErrorCode.member_id_required, new_member_id))
    else:
        _add_member(step, group, ticket, request, new_member_id)


def _join_known_member(step: Step, group: ClassicGroup, ticket: int, request: JoinRequest) -> None:
    member_id = request.member_id
    if member_id in group.pending_join:
        if request.group_instance_id is not None:
            # A reserved id belongs to a dynamic member.
            step.respond(ticket, JoinResponse(ErrorCode.unknown_member_id, member_id))
        else:
            _add_member(step, group, ticket, request, member_id)
        return
    error = group.validate_member(member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        step.respond(ticket, JoinResponse(error, member_id))
        return
    member = group.members[member_id]
    has_changed = member.protocols != request.protocols
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            needs_rebalance = True
        case GroupState.COMPLETING_REBALANCE:
            # With unchanged metadata it has missed the response, and gets it again.
            needs_rebalance = has_changed
        case GroupState.STABLE:
            # The leader rejoins when something outside its metadata changed, such as the topics.
            needs_rebalance = has_changed or member_id == group.leader
        case _:
            step.respond(ticket, JoinResponse(ErrorCode.unknown_member_id, member_id))
            return
    if needs_rebalance:
        _update_member(step, group, ticket, member, request)
        rebalance_or_complete_join(step, group)
    else:
        step.respond(ticket, current_generation(group, member_id))


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
        # The stored generation may hold this instance: it expired or was removed since.
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
    respond_to_join(
        step,
        group,
        member.member_id,
        JoinResponse(ErrorCode.rebalance_in_progress, member.member_id),
    )
    group.awaiting_join[member.member_id] = ticket


def _return_static_member(
    step: Step, group: ClassicGroup, ticket: int, request: JoinRequest, new_member_id: str
) -> None:
    """Give a restarted static member its place under a new member id, and fence the old id.

    A stable group that keeps its protocol does not rebalance, and the assignment stays.
    """
    instance_id = request.group_instance_id
    assert instance_id is not None
    old_leader = group.leader
    old_member_id = group.static_members[instance_id]
    fenced = ErrorCode.fenced_instance_id
    respond_to_join(step, group, old_member_id, JoinResponse(fenced, old_member_id))
    respond_to_sync(step, group, old_member_id, SyncResponse(fenced))
    step.cancel(SESSION, group.group_id, old_member_id)
    member = group.replace_static(instance_id, new_member_id)
    extend_session(step, group, member)
    _update_member(step, group, ticket, member, request)

    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        if step.store(group, assignments):
            response = current_generation(group, new_member_id)
            if request.supports_skipping_assignment:
                response = response._replace(skip_assignment=new_member_id == group.leader)
            else:
                # Before v9 a returning leader sees its old id as leader, so that it computes no
                # assignment for a stable group.
                response = response._replace(leader=old_leader or "", members=())
            respond_to_join(step, group, new_member_id, response)
            return
    step.store_instance(group, instance_id, new_member_id)
    # If the leader is computing the assignment, it may assign to the old id.
    rebalance_or_complete_join(step, group)


def sync(step: Step, group: ClassicGroup, ticket: int, request: SyncRequest) -> None:
    """Handle SyncGroup: the leader sends the assignments, the others wait for theirs."""
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.none:
        error = _validate_sync(group, request)
    if error is not ErrorCode.none:
        step.respond(ticket, SyncResponse(error))
        return
    member = group.members[request.member_id]
    note_sync(step, group, request.member_id)
    if group.state is GroupState.STABLE:
        step.respond(
            ticket,
            SyncResponse(
                ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment
            ),
        )
        return
    retried = SyncResponse(ErrorCode.rebalance_in_progress)
    respond_to_sync(step, group, request.member_id, retried)
    group.awaiting_sync[request.member_id] = ticket
    if request.member_id == group.leader:
        assign(step, group, dict(request.assignments))


def _validate_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    if not group.is_current(request.member_id, request.generation_id):
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
    """Handle Heartbeat: restart the session timeout, and report a rebalance."""
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return error
    if not group.is_current(request.member_id, request.generation_id):
        return ErrorCode.illegal_generation
    extend_session(step, group, group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def leave(step: Step, group: ClassicGroup, request: LeaveRequest) -> LeaveResponse:
    """Handle LeaveGroup: remove each named member or refuse; one rebalance for all of them."""
    members_before = len(group.members)
    results = tuple((leaving, _leave_one(step, group, leaving)) for leaving in request.members)
    if len(group.members) < members_before:
        rebalance_or_complete_join(step, group)
    else:
        # A reserved id that leaves may be the last one that the join phase waits for.
        complete_join_if_ready(step, group)
    return LeaveResponse(ErrorCode.none, results)


def _leave_one(step: Step, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    member_id, instance_id = leaving
    if member_id == UNKNOWN_MEMBER:
        # An administrator removes a static member by its instance id alone.
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
