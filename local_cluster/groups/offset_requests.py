"""The positions of a shard: who may commit, fetch and delete them, and when their time is up."""

from __future__ import annotations

from collections.abc import Iterable

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.classic.classic_fsm import GroupEvent, GroupState
from local_cluster.groups.classic.group import ClassicGroup
from local_cluster.groups.classic.rebalance import JOIN, SESSION, SYNC, Step, extend_session
from local_cluster.groups.classic.subscription import CONSUMER_PROTOCOL, subscribed_topics
from local_cluster.groups.commit_rules import validate_commit, validate_transactional_commit
from local_cluster.groups.consumer.shard_groups import ConsumerGroups
from local_cluster.groups.consumer.topics import NoTopics, Topics
from local_cluster.groups.offsets import CommittedOffsets, TopicPartition
from local_cluster.groups.records import STRING_BYTES_MAX, encode_group_key
from local_cluster.groups.requests import CommitRequest, GroupLimits, TransactionalCommitRequest
from local_cluster.groups.timers import TimerKey, TimerQueue
from local_cluster.wire.errors import ErrorCode


class ShardOffsets:
    """The groups of one partition, and what is done with their positions."""

    __slots__ = ("consumer_groups", "groups", "limits", "offsets", "timers")

    def __init__(self, limits: GroupLimits, topics: Topics | None = None) -> None:
        self.limits = limits
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = CommittedOffsets()
        self.timers = TimerQueue()
        self.consumer_groups = ConsumerGroups(limits.consumer, topics or NoTopics(), self.timers)

    def commit_offsets(self, ticket: int, request: CommitRequest, now: Now) -> Outcome:
        """OffsetCommit; the answer is one error code per position."""
        outcome = Outcome()
        group_id = request.group_id
        if group_id in self.consumer_groups:
            error = self._validate_consumer_commit(request)
            if error is not ErrorCode.none:
                return outcome.answer(ticket, _each(request, error))
            errors = self.offsets.commit(request, self.limits, now, outcome.records)
            return outcome.answer(ticket, errors)
        group = self.groups.get(group_id)
        if group is None:
            if request.generation_id >= 0:
                unknown = ErrorCode.illegal_generation
                if request.knows_group_not_found:
                    unknown = ErrorCode.group_id_not_found
                return outcome.answer(ticket, _each(request, unknown))
            if len(group_id.encode()) > STRING_BYTES_MAX:
                return outcome.answer(ticket, _each(request, ErrorCode.invalid_group_id))
            group = self.groups[group_id] = ClassicGroup(group_id)
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
        group_id = request.group_id
        if group_id in self.consumer_groups:
            names_member = request.generation_id >= 0 or request.member_id != ""
            error = ErrorCode.none
            if names_member:
                error = self._validate_consumer_commit(request)
            if error is ErrorCode.stale_member_epoch:
                # Kafka tells it so where the client is one of transactions.
                error = ErrorCode.illegal_generation
            if error is not ErrorCode.none:
                return outcome.answer(ticket, (error,) * refused)
            errors = self.offsets.commit_pending(request, self.limits, now, outcome.records)
            return outcome.answer(ticket, errors)
        group = self.groups.get(group_id)
        if group is None:
            if request.generation_id >= 0:
                return outcome.answer(ticket, (ErrorCode.illegal_generation,) * refused)
            if len(group_id.encode()) > STRING_BYTES_MAX:
                return outcome.answer(ticket, (ErrorCode.invalid_group_id,) * refused)
            group = self.groups[group_id] = ClassicGroup(group_id)
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
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Outcome:
        """OffsetFetch of one group; None asks for everything that was committed.

        The answer is the positions, or an error code for the group.
        """
        if group_id in self.consumer_groups:
            error = self.consumer_groups.validate_fetch(group_id, member_id, member_epoch)
            if error is not ErrorCode.none:
                return Outcome().answer(ticket, error)
        found = self.offsets.fetch(group_id, partitions, require_stable=require_stable)
        return Outcome().answer(ticket, found)

    def delete_offsets(
        self, ticket: int, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Outcome:
        """OffsetDelete; one error code per position, or one for all of them.

        While a consumer group has members, topics that one of them subscribes to are refused;
        other groups must be empty.
        """
        group = self.groups.get(group_id)
        consumer_group = self.consumer_groups.get(group_id)
        subscribed: frozenset[str] | None = frozenset()
        if consumer_group is not None:
            subscribed = consumer_group.all_subscribed_names()
        elif group is None:
            return Outcome().answer(ticket, ErrorCode.group_id_not_found)
        elif group.state is not GroupState.EMPTY:
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
        if group is not None:
            self._forget_if_void(group)
        return outcome.answer(ticket, tuple(errors))

    def delete_topics(self, topics: frozenset[str]) -> Outcome:
        """Topics are gone, and with them every group's position in them, pending ones too."""
        outcome = Outcome()
        for group_id, partitions in self.offsets.groups_with_topics(topics):
            outcome.records.extend(self.offsets.tombstones(group_id, partitions))
        return outcome

    def expire_offsets(self, now: Now) -> Outcome:
        """Remove positions past their retention, and empty groups that have none left.

        The positions of a group that had members count from when it became empty, those of simple
        consumers each from its commit; while a consumer group has members, only topics that no
        member subscribes to expire, each from its commit.
        """
        outcome = Outcome()
        retention_ms = self.limits.offsets_retention_ms
        for group in list(self.groups.values()):
            group_id = group.group_id
            subscribed: frozenset[str] | None = frozenset()
            since_ms = 0
            if group.state is GroupState.EMPTY:
                since_ms = group.state_timestamp_ms if group.protocol_type is not None else 0
            elif group.protocol_type != CONSUMER_PROTOCOL or group.state is not GroupState.STABLE:
                continue
            else:
                subscribed = subscribed_topics(group)
            if subscribed is not None:
                expired = self.offsets.expired(
                    group_id, retention_ms, now, since_ms=since_ms, subscribed=subscribed
                )
                outcome.records.extend(self.offsets.tombstones(group_id, expired))
            if (
                group.state is GroupState.EMPTY
                and not group.pending_join
                and not self.offsets.has_any(group_id)
            ):
                self._remove_group(group, outcome.records)
        for consumer_group in self.consumer_groups:
            group_id = consumer_group.group_id
            expired = self.offsets.expired(
                group_id,
                retention_ms,
                now,
                since_ms=0,
                subscribed=consumer_group.all_subscribed_names(),
            )
            outcome.records.extend(self.offsets.tombstones(group_id, expired))
            if not consumer_group.members and not self.offsets.has_any(group_id):
                self.consumer_groups.delete(group_id, now, outcome)
        return outcome

    # -- inside -----------------------------------------------------------------------------

    def _validate_consumer_commit(
        self, request: CommitRequest | TransactionalCommitRequest
    ) -> ErrorCode:
        if (
            isinstance(request, CommitRequest)
            and not request.knows_group_not_found
            and (request.generation_id >= 0)
        ):
            # Members of the new protocol commit with OffsetCommit v9 and later.
            return ErrorCode.unsupported_version
        return self.consumer_groups.validate_commit(
            request.group_id,
            request.member_id,
            request.generation_id,
            ((offset.topic, offset.partition) for offset in request.offsets),
        )

    def _step(self, now: Now) -> Step:
        return Step(self.limits, self.timers, now, Outcome())

    def _remove_group(self, group: ClassicGroup, records: list[StoredRecord]) -> None:
        group.move(GroupEvent.REMOVED, group.state_timestamp_ms)
        del self.groups[group.group_id]
        for kind in (JOIN, SYNC):
            self.timers.cancel(TimerKey(kind, group.group_id))
        for member_id in group.pending_join:
            self.timers.cancel(TimerKey(SESSION, group.group_id, member_id))
        if group.stored is not None:
            records.append(StoredRecord(encode_group_key(group.group_id), None))

    def _forget_if_void(self, group: ClassicGroup) -> None:
        """Drop a group of which nothing is known and nothing was written: a refused first join."""
        if (
            group.state is GroupState.EMPTY
            and group.stored is None
            and not group.pending_join
            and not self.offsets.has_any(group.group_id)
        ):
            self.groups.pop(group.group_id, None)


def _each(request: CommitRequest, error: ErrorCode) -> tuple[ErrorCode, ...]:
    return (error,) * len(request.offsets)
