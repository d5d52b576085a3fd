"""ConsumerGroupHeartbeat on one group: join, stay, leave (Kafka's GroupMetadataManager).

    epoch  0  join, or rejoin after fencing
          >0  stay, with changes of subscription and owned partitions, if any
          -1  leave
          -2  leave as a static member that will return

Each heartbeat may take three steps, in this order: raise the group epoch, compute a target for it
(target epoch), bring its member one step closer to the target (member epoch).

Deviations from Kafka:

- A regular expression is resolved in the heartbeat that brings it, not asynchronously.
- A member that has to revoke partitions gets its assignment with every response until it confirms.
  Kafka sends it once.
- A member that waits for partitions is asked to send its next heartbeat sooner. In Kafka partitions
  that their owner gave up have no reader for up to a heartbeat interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from local_cluster.groups.consumer import records
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.model import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    NOTHING_EPOCHED,
    Assignment,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    contains,
    plain,
)
from local_cluster.groups.consumer.requests import (
    ConsumerGroupLimits,
    HeartbeatRequest,
    HeartbeatResponse,
)
from local_cluster.groups.consumer.step import ConsumerStep
from local_cluster.groups.consumer.topics import Topics
from local_cluster.groups.topic_regex import InvalidRegexError, TopicRegex
from local_cluster.wire.errors import ErrorCode, KafkaError

REGEX_REFRESH_MS_MIN: Final = 10_000
"""Between two resolutions of a group's patterns, however often topics change."""
WAITING_INTERVAL_MS_MIN: Final = 500
"""Between two heartbeats of a member that waits for partitions."""
WAITING_BEATS_PER_SECOND_MAX: Final = 200
"""All waiting members of one group together."""


def validate(request: HeartbeatRequest, limits: ConsumerGroupLimits) -> None:
    """Check a heartbeat without a group. Raises KafkaError."""
    epoch = request.member_epoch
    _require(bool(request.group_id), "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    _require(epoch >= LEAVE_STATIC_EPOCH, "MemberEpoch is invalid.")
    _require(bool(request.member_id) or epoch == JOIN_EPOCH, "MemberId can't be empty.")
    if epoch == JOIN_EPOCH:
        _require(
            request.rebalance_timeout_ms != -1,
            "RebalanceTimeoutMs must be provided in first request.",
        )
        _require(
            request.owned is not None and not request.owned,
            "TopicPartitions must be empty when (re-)joining.",
        )
        _require(
            request.topic_names is not None or request.topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        )
    if epoch == LEAVE_STATIC_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in limits.group_consumer_assignors:
        supported = ", ".join(limits.group_consumer_assignors)
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {supported}.",
        )
    if request.topic_regex:
        try:
            TopicRegex(request.topic_regex)
        except InvalidRegexError as error:
            raise KafkaError(
                ErrorCode.invalid_regular_expression,
                f"SubscribedTopicRegex `{request.topic_regex}` is not a valid regular "
                f"expression: {error}.",
            ) from error


def heartbeat(step: ConsumerStep, request: HeartbeatRequest) -> HeartbeatResponse:
    """Let a member join or stay. Raises KafkaError; then nothing has changed."""
    group = step.group
    is_joining = request.member_epoch == JOIN_EPOCH
    step.require_room(request.member_id, request.instance_id)
    member, replaced = _find_member(group, request, is_joining=is_joining)
    updated = _updated(member, request)
    regex = updated.topic_regex
    resolved = _resolve(step, request) if regex and regex not in group.regexes else None
    default_assignor = step.limits.group_consumer_assignors[0]
    # Counting all votes costs as much as the group has members: only if this member's changes.
    changes_vote = updated.server_assignor != member.server_assignor
    assignor = group.preferred_assignor(default_assignor) if changes_vote else None

    if replaced is not None:
        step.replace_member(replaced, member)
    names_changed = updated.topic_names != member.topic_names
    regex_changed = regex != member.topic_regex
    if updated != member or member.member_id not in group.members:
        step.describe_member(updated)
    if resolved is not None:
        step.write(records.RegexKey(group.group_id, regex), resolved)
    if regex_changed:
        step.remove_unused_regex(member.topic_regex)
    is_changed = names_changed or regex_changed
    has_other_assignor = changes_vote and group.preferred_assignor(default_assignor) != assignor
    if _refresh_regexes(step, request) or group.epoch == 0 or is_changed or has_other_assignor:
        step.bump_epoch()
    else:
        step.check_topics()
    step.assign()
    step.reconcile(member.member_id, request.owned, subscription_changed=is_changed)
    step.extend_session(member.member_id)

    moved = group.members[member.member_id]
    # A member that must revoke and does not confirm may have missed the response. librdkafka 2.16
    # sends no full request after a lost response.
    must_revoke = moved.state is MemberState.UNREVOKED_PARTITIONS and request.owned is None
    is_sent = moved.assigned != member.assigned or is_joining or request.is_full or must_revoke
    return HeartbeatResponse(
        ErrorCode.none,
        None,
        moved.member_id,
        moved.member_epoch,
        _interval_ms(step, moved),
        plain(moved.assigned) if is_sent else None,
    )


def find_leaving(group: ConsumerGroup, request: HeartbeatRequest) -> ConsumerMember:
    """Return the member that leaves, for good or for a while. Raises KafkaError."""
    member = group.members.get(request.member_id)
    if request.instance_id is not None:
        member = group.static_member(request.instance_id)
        if member is not None and member.member_id != request.member_id:
            raise KafkaError(
                ErrorCode.fenced_instance_id,
                f"Static member {request.member_id} with instance id {request.instance_id} was "
                f"fenced by member {member.member_id}.",
            )
    if member is None:
        raise _unknown(request)
    return member


def leave_for_a_while(step: ConsumerStep, member: ConsumerMember) -> None:
    """Keep the partitions of a static member until it returns, or its session times out."""
    gone = member._replace(
        member_epoch=LEAVE_STATIC_EPOCH,
        state=MemberState.STABLE,
        pending_revocation=NOTHING_EPOCHED,
    )
    step.set_current(gone)


def fence(step: ConsumerStep, members: Iterable[ConsumerMember]) -> None:
    """Remove members; the others get their partitions."""
    for member in members:
        step.remove_member(member)
    step.bump_epoch()
    if not step.group.members:
        # The target of an empty group; without a timestamp the next one is due at once.
        step.write(
            records.TargetEpochKey(step.group.group_id), records.TargetEpoch(step.group.epoch)
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise KafkaError(ErrorCode.invalid_request, message)


def _find_member(
    group: ConsumerGroup, request: HeartbeatRequest, *, is_joining: bool
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the requesting member, and the static member that it replaces, if any."""
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            if not is_joining:
                raise _unknown(request)
            return ConsumerMember(request.member_id), None
        _check_epoch(member, request.member_epoch, request.owned)
        return member, None
    static = group.static_member(request.instance_id)
    if is_joining:
        if static is None:
            return ConsumerMember(request.member_id), None
        if static.member_epoch != LEAVE_STATIC_EPOCH and static.classic is None:
            raise KafkaError(
                ErrorCode.unreleased_instance_id,
                f"Static member {request.member_id} with instance id {request.instance_id} cannot "
                f"join the group because the instance id is owned by {static.member_id} member.",
            )
        return static._replace(
            member_id=request.member_id,
            member_epoch=JOIN_EPOCH,
            previous_member_epoch=JOIN_EPOCH,
            # It may commit the partitions that it holds from its first epoch on.
            assigned={topic: dict.fromkeys(held, 0) for topic, held in static.assigned.items()},
        ), static
    if static is None:
        raise KafkaError(
            ErrorCode.unknown_member_id, f"Instance id {request.instance_id} is unknown."
        )
    if static.member_id != request.member_id:
        raise KafkaError(
            ErrorCode.fenced_instance_id,
            f"Static member {request.member_id} with instance id {request.instance_id} was "
            f"fenced by member {static.member_id}.",
        )
    _check_epoch(static, request.member_epoch, request.owned)
    return static, None


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Check the epoch of a known member. Raises KafkaError."""
    # A fenced member rejoins with 0. After a lost response a member has the previous epoch, and
    # owns nothing outside its assignment.
    if epoch in (JOIN_EPOCH, member.member_epoch) or (
        epoch == member.previous_member_epoch < member.member_epoch
        and owned is not None
        and contains(member.assigned, owned)
    ):
        return
    which = "greater" if epoch > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {which} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _interval_ms(step: ConsumerStep, member: ConsumerMember) -> int:
    """Return when the member is to send its next heartbeat, in milliseconds from now."""
    group, interval_ms = step.group, step.limits.group_consumer_heartbeat_interval_ms
    has_due_target = group.target_epoch < group.epoch
    if member.state is not MemberState.UNRELEASED_PARTITIONS and not has_due_target:
        return interval_ms
    apart_ms = 1_000 * len(group.members) // WAITING_BEATS_PER_SECOND_MAX
    return min(interval_ms, max(WAITING_INTERVAL_MS_MIN, apart_ms))


def _unknown(request: HeartbeatRequest) -> KafkaError:
    return KafkaError(
        ErrorCode.unknown_member_id,
        f"Member {request.member_id} is not a member of group {request.group_id}.",
    )


def _updated(member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    """Return the member with the fields that the request has; the others stay."""
    given: dict[str, object] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "topic_regex": request.topic_regex,
        "server_assignor": request.server_assignor,
    }
    if request.topic_names is not None:
        given["topic_names"] = tuple(sorted(set(request.topic_names)))
    if request.rebalance_timeout_ms != -1:
        given["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    kept = {name: value for name, value in given.items() if value is not None}
    changed = member._replace(client_id=request.client_id, client_host=request.client_host)
    return changed._replace(classic=None, **kept)  # type: ignore[arg-type]


def _resolve(step: ConsumerStep, request: HeartbeatRequest) -> ResolvedRegex:
    assert request.topic_regex, "an unresolved regular expression comes with the request"
    try:
        return resolve(request.topic_regex, step.topics, request, step.now.wall_ms)
    except InvalidRegexError as error:
        raise KafkaError(ErrorCode.invalid_regular_expression, str(error)) from error


def resolve(regex: str, topics: Topics, request: HeartbeatRequest, now_ms: int) -> ResolvedRegex:
    """Return the matching topics that the client may describe. Raises InvalidRegexError."""
    matched = TopicRegex(regex).select(topics.names())
    seen = tuple(name for name in matched if request.may_describe(name))
    return ResolvedRegex(seen, topics.version, now_ms)


def _refresh_regexes(step: ConsumerStep, request: HeartbeatRequest) -> bool:
    """Resolve the group's patterns again if topics have changed, or after the refresh interval.

    Return whether the topics of any pattern have changed.
    """
    group, now_ms = step.group, step.now.wall_ms
    if not group.regexes:
        return False
    last_ms = max(regex.timestamp_ms for regex in group.regexes.values())
    is_behind = any(regex.version != step.topics.version for regex in group.regexes.values())
    is_old = now_ms - last_ms >= step.limits.group_consumer_regex_refresh_interval_ms
    if now_ms - last_ms < REGEX_REFRESH_MS_MIN or not (is_behind or is_old):
        return False
    is_changed = False
    for pattern, known in tuple(group.regexes.items()):
        try:
            found = resolve(pattern, step.topics, request, now_ms)
        except InvalidRegexError:
            # The search takes too long since there are more topics: keep its topics.
            found = known._replace(version=step.topics.version, timestamp_ms=now_ms)
        is_changed |= found.topics != known.topics
        step.write(records.RegexKey(group.group_id, pattern), found)
    return is_changed
