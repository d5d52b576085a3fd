"""Committed positions of the groups of one shard.

Guarantees: what was committed is what is fetched, metadata and leader epoch included; a position
that was never committed is -1 with empty metadata, never 0. Positions committed in a transaction
are pending until its marker: a commit makes them visible, unless the position was committed again
or removed meanwhile, an abort forgets them.

Source: Kafka's OffsetMetadataManager. Not here: who may commit (commit_rules.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import Now, StoredRecord
from local_cluster.groups.records import (
    NO_LEADER_EPOCH,
    STRING_BYTES_MAX,
    CommittedOffset,
    encode_offset_key,
    encode_offset_key_prefix,
    encode_offset_value,
    offset_key_of,
)
from local_cluster.groups.requests import (
    CommitRequest,
    FetchedOffset,
    GroupLimits,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from local_cluster.records.header import NO_TIMESTAMP
from local_cluster.wire.errors import ErrorCode

TopicPartition = tuple[str, int]

NO_OFFSET: Final = CommittedOffset(-1, NO_LEADER_EPOCH, "", NO_TIMESTAMP)
"""What a fetch tells of a partition without a committed position."""


class PendingOffset(NamedTuple):
    """A position in an open transaction, and its place in the order of all writes."""

    committed: CommittedOffset
    order: int


class CommittedOffsets:
    """Positions by group, topic and partition, and the pending ones of open transactions."""

    __slots__ = ("_by_group", "_order", "_pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], PendingOffset]] = {}
        """By producer id."""
        self._order = 0

    def has_any(self, group_id: str) -> bool:
        return group_id in self._by_group or any(
            group_id == pending_group
            for pending in self._pending.values()
            for pending_group, _ in pending
        )

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is a position, be it a pending one."""
        key = (topic, partition)
        return key in self._by_group.get(group_id, ()) or self.is_pending(group_id, key)

    def group_ids(self) -> list[str]:
        pending = {group_id for keys in self._pending.values() for group_id, _ in keys}
        return [*self._by_group, *(pending - self._by_group.keys())]

    # Transactions

    def put_pending(
        self,
        producer_id: int,
        group_id: str,
        topic: str,
        partition: int,
        committed: CommittedOffset,
    ) -> None:
        """A position was committed in a transaction that is still open."""
        self._order += 1
        pending = self._pending.setdefault(producer_id, {})
        pending[group_id, (topic, partition)] = PendingOffset(committed, self._order)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The producer's transaction is over."""
        for (group_id, key), pending in self._pending.pop(producer_id, {}).items():
            if is_commit:
                self._supersede(group_id, key, pending.order)
                self._by_group.setdefault(group_id, {})[key] = pending.committed

    def is_pending(self, group_id: str, key: TopicPartition) -> bool:
        """Whether an open transaction may still change this position."""
        return any((group_id, key) in pending for pending in self._pending.values())

    def commit_pending(
        self,
        request: TransactionalCommitRequest,
        limits: GroupLimits,
        now: Now,
        records: list[StoredRecord],
    ) -> tuple[ErrorCode, ...]:
        """Take in the positions of a transaction that was found valid; one error code each."""
        errors = []
        for to_commit in request.offsets:
            committed = _committed(to_commit, limits, now.wall_ms, NO_TIMESTAMP)
            if committed is None:
                errors.append(ErrorCode.offset_metadata_too_large)
                continue
            key = encode_offset_key(request.group_id, to_commit.topic, to_commit.partition)
            records.append(StoredRecord(key, encode_offset_value(committed)))
            self.put_pending(
                request.producer_id,
                request.group_id,
                to_commit.topic,
                to_commit.partition,
                committed,
            )
            errors.append(ErrorCode.none)
        return tuple(errors)

    def _supersede(self, group_id: str, key: TopicPartition, order: int) -> None:
        """Positions that were pending before `order` will not overwrite what was written then."""
        for producer_id, pending in list(self._pending.items()):
            known = pending.get((group_id, key))
            if known is not None and known.order < order:
                del pending[group_id, key]
                if not pending:
                    del self._pending[producer_id]

    # Positions

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        if self._pending:
            self._order += 1
            self._supersede(group_id, (topic, partition), self._order)
        offsets = self._by_group.get(group_id)
        if offsets is None:
            offsets = self._by_group[group_id] = {}
        offsets[topic, partition] = committed

    def discard(self, group_id: str, topic: str, partition: int) -> None:
        if self._pending:
            self._order += 1
            self._supersede(group_id, (topic, partition), self._order)
        offsets = self._by_group.get(group_id)
        if offsets is not None:
            offsets.pop((topic, partition), None)
            if not offsets:
                del self._by_group[group_id]

    def commit(
        self,
        request: CommitRequest,
        limits: GroupLimits,
        now: Now,
        records: list[StoredRecord],
    ) -> tuple[ErrorCode, ...]:
        """Take in the positions of a request that was found valid; one error code each."""
        expire_ms = NO_TIMESTAMP if request.retention_ms < 0 else now.wall_ms + request.retention_ms
        group_id, wall_ms = request.group_id, now.wall_ms
        errors = []
        topic, key_prefix = "", b""
        for to_commit in request.offsets:
            committed = _committed(to_commit, limits, wall_ms, expire_ms)
            if committed is None:
                errors.append(ErrorCode.offset_metadata_too_large)
                continue
            if to_commit.topic != topic or not key_prefix:
                topic = to_commit.topic
                key_prefix = encode_offset_key_prefix(group_id, topic)
            partition = to_commit.partition
            key = offset_key_of(key_prefix, partition)
            records.append(StoredRecord(key, encode_offset_value(committed)))
            self.put(group_id, topic, partition, committed)
            errors.append(ErrorCode.none)
        return tuple(errors)

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool = False,
    ) -> tuple[FetchedOffset, ...]:
        """The positions of these partitions, in their order; of all with None, by topic.

        With `require_stable`, those that an open transaction may change are marked so.
        """
        offsets = self._by_group.get(group_id, {})
        if require_stable and self._pending:
            wanted = sorted(offsets) if partitions is None else list(partitions)
            return tuple(
                FetchedOffset(t, p, NO_OFFSET, True)
                if self.is_pending(group_id, (t, p))
                else FetchedOffset(t, p, offsets.get((t, p), NO_OFFSET))
                for t, p in wanted
            )
        if partitions is None:
            return tuple(FetchedOffset(t, p, c) for (t, p), c in sorted(offsets.items()))
        return tuple(FetchedOffset(t, p, offsets.get((t, p), NO_OFFSET)) for t, p in partitions)

    def tombstones(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Iterator[StoredRecord]:
        """Remove these positions, pending ones too; the records that make it last."""
        for topic, partition in partitions:
            self.discard(group_id, topic, partition)
            yield StoredRecord(encode_offset_key(group_id, topic, partition), None)

    def partitions(self, group_id: str) -> list[TopicPartition]:
        """Where the group has positions, pending ones too."""
        found = dict.fromkeys(self._by_group.get(group_id, ()))
        for pending in self._pending.values():
            found |= {key: None for pending_group, key in pending if pending_group == group_id}
        return list(found)

    def groups_with_topics(self, topics: frozenset[str]) -> list[tuple[str, list[TopicPartition]]]:
        """Every group that has positions in one of the topics, pending ones too, with these."""
        found: dict[str, dict[TopicPartition, None]] = {}
        for group_id, offsets in self._by_group.items():
            partitions = [key for key in offsets if key[0] in topics]
            if partitions:
                found[group_id] = dict.fromkeys(partitions)
        for pending in self._pending.values():
            for group_id, key in pending:
                if key[0] in topics:
                    found.setdefault(group_id, {})[key] = None
        return [(group_id, list(partitions)) for group_id, partitions in found.items()]

    def expired(
        self,
        group_id: str,
        retention_ms: int,
        now: Now,
        *,
        since_ms: int,
        subscribed: frozenset[str],
    ) -> list[TopicPartition]:
        """Positions whose time is up, outside of topics that are subscribed.

        Their time counts from `since_ms` or their commit, whichever is later.
        """
        found = []
        for key, committed in self._by_group.get(group_id, {}).items():
            if key[0] in subscribed or (self._pending and self.is_pending(group_id, key)):
                continue
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                is_expired = now.wall_ms >= committed.expire_timestamp_ms
            else:
                counted_ms = now.wall_ms - max(since_ms, committed.commit_timestamp_ms)
                is_expired = counted_ms >= retention_ms
            if is_expired:
                found.append(key)
        return found


def _committed(
    to_commit: OffsetToCommit, limits: GroupLimits, wall_ms: int, expire_ms: int
) -> CommittedOffset | None:
    """The position as it is kept; None where its metadata is too large."""
    _, _, offset, leader_epoch, metadata = to_commit
    if metadata is None:
        metadata = ""
    elif len(metadata) > limits.offset_metadata_max_bytes or (
        4 * len(metadata) > STRING_BYTES_MAX and len(metadata.encode()) > STRING_BYTES_MAX
    ):
        return None
    return CommittedOffset(offset, leader_epoch, metadata, wall_ms, expire_ms)
