"""Committed offsets on the groups of one partition: commit, fetch, delete, expire.

The rules for commits to a classic group are those of Kafka's ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from collections.abc import Iterable

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup
from local_cluster.groups.classic.rebalance import extend_session
from local_cluster.groups.classic.subscription import CONSUMER_PROTOCOL, subscribed_topics
from local_cluster.groups.offsets import TopicPartition
from local_cluster.groups.records import STRING_BYTES_MAX
from local_cluster.groups.requests import (
    UNKNOWN_MEMBER,
    CommitRequest,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard_state import ShardState
from local_cluster.wire.errors import ErrorCode


class OffsetRequests:
    """The requests about committed offsets, on the state of one shard."""

    __slots__ = ("_state",)

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def commit(self, ticket: int, request: CommitRequest, now: Now) -> Outcome:
        """Handle OffsetCommit; the response is one error code per offset."""
        state, outcome = self._state, Outcome()
        group_id = request.group_id
        if group_id in state.consumer_groups:
            error = self._validate_consumer_commit(request)
            if error is not ErrorCode.none:
                return outcome.respond(ticket, _for_each(request, error))
            errors = state.offsets.commit(request, state.limits, now, outcome.records)
            return outcome.respond(ticket, errors)
        unknown = ErrorCode.illegal_generation
        if request.knows_group_not_found:
            unknown = ErrorCode.group_id_not_found
        group = self._find_or_create_group(group_id, request.generation_id, unknown)
        if isinstance(group, ErrorCode):
            return outcome.respond(ticket, _for_each(request, group))
        error = _validate_commit(group, request)
        if error is not ErrorCode.none:
            return outcome.respond(ticket, _for_each(request, error))
        member = group.members.get(request.member_id)
        if member is not None:
            extend_session(state.step(now), group, member)
        errors = state.offsets.commit(request, state.limits, now, outcome.records)
        state.drop_if_unused(group)
        return outcome.respond(ticket, errors)

    def commit_transactional(
        self, ticket: int, request: TransactionalCommitRequest, now: Now
    ) -> Outcome:
        """Handle TxnOffsetCommit; the response is one error code per offset."""
        state = self._state
        outcome = Outcome(producer=(request.producer_id, request.producer_epoch))
        group_id = request.group_id
        if group_id in state.consumer_groups:
            names_member = (
                request.generation_id >= 0
                or request.member_id != UNKNOWN_MEMBER
                or request.group_instance_id is not None
            )
            error = ErrorCode.none
            if names_member:
                error = self._validate_consumer_commit(request)
            if error is ErrorCode.stale_member_epoch and not request.knows_new_errors:
                # As in Kafka: older transactional clients know this error.
                error = ErrorCode.illegal_generation
            if error is not ErrorCode.none:
                return outcome.respond(ticket, _for_each(request, error))
            errors = state.offsets.commit_pending(request, state.limits, now, outcome.records)
            return outcome.respond(ticket, errors)
        unknown = ErrorCode.illegal_generation
        if request.knows_new_errors:
            unknown = ErrorCode.group_id_not_found
        group = self._find_or_create_group(group_id, request.generation_id, unknown)
        if isinstance(group, ErrorCode):
            return outcome.respond(ticket, _for_each(request, group))
        error = _validate_transactional_commit(group, request)
        if error is not ErrorCode.none:
            return outcome.respond(ticket, _for_each(request, error))
        errors = state.offsets.commit_pending(request, state.limits, now, outcome.records)
        state.drop_if_unused(group)
        return outcome.respond(ticket, errors)

    def fetch(
        self,
        ticket: int,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Outcome:
        """Handle OffsetFetch of one group; None as partitions means all committed offsets.

        The response is the committed offsets, or an error code for the group.
        """
        consumer_groups = self._state.consumer_groups
        if group_id in consumer_groups:
            error = consumer_groups.validate_fetch(group_id, member_id, member_epoch)
            if error is not ErrorCode.none:
                return Outcome().respond(ticket, error)
        fetched = self._state.offsets.fetch(group_id, partitions, require_stable=require_stable)
        return Outcome().respond(ticket, fetched)

    def delete(self, ticket: int, group_id: str, partitions: Iterable[TopicPartition]) -> Outcome:
        """Handle OffsetDelete; one error code per offset, or one for all of them.

        While a consumer group has members, topics that one of them subscribes to are refused;
        other groups must be empty.
        """
        state = self._state
        group = state.classic_groups.get(group_id)
        consumer_group = state.consumer_groups.get(group_id)
        subscribed: frozenset[str] | None = frozenset()
        if consumer_group is not None:
            subscribed = consumer_group.all_subscribed_names()
        elif group is None:
            return Outcome().respond(ticket, ErrorCode.group_id_not_found)
        elif group.state is not GroupState.EMPTY:
            if group.protocol_type != CONSUMER_PROTOCOL:
                return Outcome().respond(ticket, ErrorCode.non_empty_group)
            subscribed = subscribed_topics(group)
        outcome = Outcome()
        errors = []
        for topic, partition in partitions:
            # A member with an unreadable subscription may subscribe to any topic.
            if subscribed is None or topic in subscribed:
                errors.append(ErrorCode.group_subscribed_to_topic)
                continue
            errors.append(ErrorCode.none)
            if state.offsets.has(group_id, topic, partition):
                outcome.records.extend(state.offsets.tombstones(group_id, [(topic, partition)]))
        # The group stays until it expires, as in Kafka.
        return outcome.respond(ticket, tuple(errors))

    def delete_topics(self, topics: frozenset[str]) -> Outcome:
        """Delete every group's committed and pending offsets in deleted topics."""
        outcome = Outcome()
        offsets = self._state.offsets
        for group_id, partitions in offsets.groups_with_topics(topics):
            outcome.records.extend(offsets.tombstones(group_id, partitions))
        return outcome

    def expire(self, now: Now) -> Outcome:
        """Delete offsets past their retention, and empty groups that have none left.

        In a group that had members, an offset's retention starts when the group became empty, or
        at its commit if that is later. For simple consumers it starts at the commit. While a
        consumer group has members, only topics without a subscription expire, from the commit on.
        """
        outcome = Outcome()
        for group in list(self._state.classic_groups.values()):
            self._expire_classic(group, now, outcome)
        consumer_groups = self._state.consumer_groups
        for consumer_group in consumer_groups:
            group_id = consumer_group.group_id
            subscribed = consumer_group.all_subscribed_names()
            self._expire_group(group_id, now, outcome, since_ms=0, subscribed=subscribed)
            if not consumer_group.members and not self._state.offsets.has_any(group_id):
                consumer_groups.delete(group_id, now, outcome)
        return outcome

    # -- inside -----------------------------------------------------------------------------

    def _expire_classic(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        is_empty = group.state is GroupState.EMPTY
        subscribed: frozenset[str] | None = frozenset()
        since_ms = 0
        if is_empty:
            since_ms = group.state_timestamp_ms if group.protocol_type is not None else 0
        elif group.protocol_type != CONSUMER_PROTOCOL or group.state is not GroupState.STABLE:
            return
        else:
            subscribed = subscribed_topics(group)
        if subscribed is not None:
            self._expire_group(
                group.group_id, now, outcome, since_ms=since_ms, subscribed=subscribed
            )
        if is_empty and not group.pending_join and not self._state.offsets.has_any(group.group_id):
            self._state.remove_classic_group(group, outcome.records)

    def _expire_group(
        self,
        group_id: str,
        now: Now,
        outcome: Outcome,
        *,
        since_ms: int,
        subscribed: frozenset[str],
    ) -> None:
        offsets = self._state.offsets
        expired = offsets.expired(
            group_id,
            self._state.limits.offsets_retention_ms,
            now,
            since_ms=since_ms,
            subscribed=subscribed,
        )
        outcome.records.extend(offsets.tombstones(group_id, expired))

    def _find_or_create_group(
        self, group_id: str, generation_id: int, unknown: ErrorCode
    ) -> ClassicGroup | ErrorCode:
        """Return the group that commits; `unknown` if a member of a group that is not there does.

        A commit from outside any generation creates the group.
        """
        groups = self._state.classic_groups
        group = groups.get(group_id)
        if group is not None:
            return group
        if generation_id >= 0:
            return unknown
        if len(group_id.encode()) > STRING_BYTES_MAX:
            return ErrorCode.invalid_group_id
        if self._state.is_full_for(group_id):
            return ErrorCode.policy_violation
        group = groups[group_id] = ClassicGroup(group_id)
        return group

    def _validate_consumer_commit(
        self, request: CommitRequest | TransactionalCommitRequest
    ) -> ErrorCode:
        consumer_groups = self._state.consumer_groups
        if (
            isinstance(request, CommitRequest)
            and not request.knows_group_not_found
            and consumer_groups.is_consumer_member(request.group_id, request.member_id)
        ):
            # Members of the consumer protocol commit with OffsetCommit v9 and later.
            return ErrorCode.unsupported_version
        return consumer_groups.validate_commit(
            request.group_id,
            request.member_id,
            request.generation_id,
            ((offset.topic, offset.partition) for offset in request.offsets),
        )


def _validate_commit(group: ClassicGroup, request: CommitRequest) -> ErrorCode:
    """Check whether an OffsetCommit may commit to a classic group in its present state."""
    if request.generation_id < 0 and group.state is GroupState.EMPTY:
        # A consumer that assigns its own partitions, or an administrator.
        return ErrorCode.none
    if (
        request.generation_id < 0
        and request.member_id == UNKNOWN_MEMBER
        and request.group_instance_id is None
    ):
        # While a group has members, only they commit.
        return ErrorCode.unknown_member_id
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return error
    if not group.is_current(request.member_id, request.generation_id):
        return ErrorCode.illegal_generation
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member does not know its assignment of this generation yet.
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _validate_transactional_commit(
    group: ClassicGroup, request: TransactionalCommitRequest
) -> ErrorCode:
    """Check whether a TxnOffsetCommit may commit to a classic group in its present state.

    Clients older than KIP-447 name no member and are accepted. A rebalance is no obstacle: the
    generation is checked, and the transaction fences its own zombies.
    """
    if request.generation_id < 0 and (
        group.state is GroupState.EMPTY
        or (request.member_id == UNKNOWN_MEMBER and request.group_instance_id is None)
    ):
        return ErrorCode.none
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return error
    if not group.is_current(request.member_id, request.generation_id):
        return ErrorCode.illegal_generation
    return ErrorCode.none


def _for_each(
    request: CommitRequest | TransactionalCommitRequest, error: ErrorCode
) -> tuple[ErrorCode, ...]:
    return (error,) * len(request.offsets)
