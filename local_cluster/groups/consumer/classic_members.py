"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a KIP-848 group.

The coordinator assigns. When a classic member has a step to take, its Heartbeat gets
REBALANCE_IN_PROGRESS. Its JoinGroup reports what it holds, and SyncGroup returns what it may hold.
The generation of the classic protocol is the member's epoch. Rules and errors are those of Kafka's
GroupMetadataManager (classicGroupJoinToConsumerGroup and its neighbours), with one deviation: a
member that was expelled, and says with its former id what it had, gets UNKNOWN_MEMBER_ID as in a
classic group. In Kafka it joins, and may commit what others have by then.

    JoinGroup   member changed? -> group epoch; target; one step to the target -> generation
    SyncGroup   the target is newer than the member? REBALANCE_IN_PROGRESS, else the assignment
    Heartbeat   the target is newer, partitions to revoke or free ones wait? REBALANCE_IN_PROGRESS
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.groups.classic.subscription import CONSUMER_PROTOCOL
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.embedded_protocol import (
    NO_GENERATION,
    Partitions,
    Subscription,
    encode_assignment,
    read_subscription,
)
from local_cluster.groups.consumer.model import (
    JOIN_EPOCH,
    Assignment,
    ClassicMetadata,
    ConsumerMember,
    EpochedAssignment,
    MemberState,
)
from local_cluster.groups.consumer.step import ConsumerStep
from local_cluster.groups.consumer.topics import Topics
from local_cluster.groups.requests import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from local_cluster.wire.errors import ErrorCode, KafkaError


class Joined(NamedTuple):
    """A JoinGroup that was accepted."""

    response: JoinResponse
    replaced_id: str | None = None
    """The former id of a static member that came back."""


def join(step: ConsumerStep, request: JoinRequest) -> Joined:
    """Handle JoinGroup. Raises KafkaError; then nothing has changed."""
    group = step.group
    is_unknown = request.member_id == UNKNOWN_MEMBER
    member_id = request.member_uuid if is_unknown else request.member_id
    instance_id = request.group_instance_id
    if step.limits.is_migration_disabled:
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    step.require_room(member_id, instance_id)
    subscription = _read_subscription(group, request)
    if is_unknown and instance_id is None and request.requires_known_member_id:
        group.invite(member_id)
        return Joined(JoinResponse(ErrorCode.member_id_required, member_id))
    if not is_unknown and instance_id is None and _was_expelled(group, member_id, subscription):
        raise KafkaError(ErrorCode.unknown_member_id)
    member, replaced = _find_member(group, member_id, instance_id, is_unknown=is_unknown)
    updated = member._replace(
        instance_id=instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )
    if replaced is not None:
        step.replace_member(replaced, member)
    if updated != member or member_id not in group.members:
        step.describe_member(updated)
    if member.topic_regex:
        step.remove_unused_regex(member.topic_regex)
    is_changed = updated.topic_names != member.topic_names or bool(member.topic_regex)
    if is_changed or group.epoch == 0:
        step.bump_epoch()
    else:
        step.check_topics()
    step.assign()
    owned = with_topic_ids(subscription.owned, step.topics)
    step.reconcile(member_id, owned, subscription_changed=is_changed)
    step.extend_session(member_id)
    step.extend_rebalance(group.members[member_id])  # until SyncGroup
    response = JoinResponse(
        ErrorCode.none,
        member_id,
        group.members[member_id].member_epoch,
        CONSUMER_PROTOCOL,
        request.protocols[0][0],
    )
    return Joined(response, None if replaced is None else replaced.member_id)


def sync(step: ConsumerStep, request: SyncRequest) -> SyncResponse:
    """Handle SyncGroup. Raises KafkaError."""
    group = step.group
    member, classic = _find_classic(group, request.member_id, request.group_instance_id)
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.illegal_generation)
    name, metadata = classic.protocols[0]
    given = (request.protocol_type or CONSUMER_PROTOCOL, request.protocol_name or name)
    if given != (CONSUMER_PROTOCOL, name):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    # A member that revokes has rejoined already. It rejoins again when it has revoked.
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    if _is_behind(group, member) and not is_revoking:
        step.require_join(member)
        raise KafkaError(ErrorCode.rebalance_in_progress)
    step.cancel_rebalance(member.member_id)
    step.extend_session(member.member_id)
    partitions = with_topic_names(member.assigned, step.topics)
    payload = encode_assignment(read_subscription(metadata).version, partitions)
    return SyncResponse(ErrorCode.none, CONSUMER_PROTOCOL, name, payload)


def heartbeat(step: ConsumerStep, request: HeartbeatRequest) -> ErrorCode:
    """Handle Heartbeat: restart the session timeout, and report a rebalance. Raises KafkaError."""
    group = step.group
    member, _ = _find_classic(group, request.member_id, request.group_instance_id)
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.illegal_generation)
    step.extend_session(member.member_id)
    has_step = (
        _is_behind(group, member)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        )
    )
    if not has_step:
        return ErrorCode.none
    step.require_join(member)
    return ErrorCode.rebalance_in_progress


def find_leaving(
    group: ConsumerGroup, leaving: Sequence[LeavingMember]
) -> tuple[list[ConsumerMember], list[tuple[LeavingMember, ErrorCode]]]:
    """Return the members that LeaveGroup removes, of any protocol, and the result of each entry."""
    gone: dict[str, ConsumerMember] = {}
    results = []
    for each in leaving:
        code = ErrorCode.none
        try:
            member = _find_leaving(group, each)
            gone[member.member_id] = member
        except KafkaError as error:
            code = error.code
        results.append((each, code))
    return list(gone.values()), results


def with_topic_ids(partitions: Partitions, topics: Topics) -> Assignment:
    """Return partitions by topic id; topics that do not exist are left out."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for name, indexes in partitions.items():
        facts = topics.get(name)
        if facts is not None:
            found[facts.topic_id] = frozenset(indexes)
    return found


def with_topic_names(
    assignment: Assignment | EpochedAssignment, topics: Topics
) -> dict[str, tuple[int, ...]]:
    """Return partitions by topic name; topics that do not exist are left out."""
    found = {}
    for topic_id, indexes in assignment.items():
        facts = topics.by_id(topic_id)
        if facts is not None:
            found[facts.name] = tuple(indexes)
    return found


def _is_behind(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a newer target waits for the member's JoinGroup.

    The next heartbeat of a consumer member computes a target that is due. Without such a member,
    as under the policy `upgrade`, the JoinGroup does.
    """
    if member.member_epoch < group.target_epoch:
        return True
    return member.member_epoch < group.epoch and group.uses_only_classic(())


def _was_expelled(group: ConsumerGroup, member_id: str, subscription: Subscription) -> bool:
    """Return whether this is no member any more, and does not know it.

    It says what it got in a generation, so it would go on to read and commit that until SyncGroup.
    Who was given an id to join with gets in anyway: some clients never forget what they had.
    """
    return (
        member_id not in group.members
        and bool(subscription.owned)
        and subscription.generation != NO_GENERATION
        and not group.is_invited(member_id)
    )


def _read_subscription(group: ConsumerGroup, request: JoinRequest) -> Subscription:
    names = [name for name, _ in request.protocols]
    if request.protocol_type != CONSUMER_PROTOCOL or not group.supports_classic(names):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    try:
        return read_subscription(request.protocols[0][1])
    except UnreadableRecordError as error:
        raise KafkaError(ErrorCode.inconsistent_group_protocol, str(error)) from error


def _find_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, *, is_unknown: bool
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the joining member, and the static member that it replaces, if any."""
    if instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id)), None
    static = group.static_member(instance_id)
    if is_unknown:
        if static is None:
            return ConsumerMember(member_id), None
        held = {topic: dict.fromkeys(indexes, 0) for topic, indexes in static.assigned.items()}
        returned = static._replace(
            member_id=member_id,
            member_epoch=JOIN_EPOCH,
            previous_member_epoch=JOIN_EPOCH,
            # It may commit the partitions that it holds from its first epoch on.
            assigned=held,
        )
        return returned, static
    if static is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    if static.member_id != member_id:
        raise KafkaError(ErrorCode.fenced_instance_id)
    return static, None


def _find_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMetadata]:
    """Return a member that uses the classic protocol. Raises KafkaError."""
    member = _find_known(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    return member, member.classic


def _find_known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return a member of any protocol. Raises KafkaError."""
    member = group.members.get(member_id)
    if instance_id is not None:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            raise KafkaError(ErrorCode.fenced_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    return member


def _find_leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """An administrator removes a static member by its instance id alone. Raises KafkaError."""
    if leaving.member_id == UNKNOWN_MEMBER and leaving.group_instance_id is not None:
        member = group.static_member(leaving.group_instance_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id)
        return member
    return _find_known(group, leaving.member_id, leaving.group_instance_id)
