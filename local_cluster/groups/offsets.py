"""The committed offsets of the groups of one shard, and the pending transactional offsets.

Guarantees:

- a fetch returns what was committed, with metadata and leader epoch; an offset that was never
  committed is -1 with empty metadata, never 0
- offsets committed in a transaction are pending until its marker. A commit marker makes each of
  them visible, unless the offset was committed again or deleted meanwhile; an abort drops them

Source: Kafka's OffsetMetadataManager. Not here: who may commit (offset_requests.py).
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
"""What a fetch returns for a partition without a committed offset."""


class PendingOffset(NamedTuple):
    """An offset in an open transaction, and its place in the order of all writes."""

    committed: CommittedOffset
    order: int


class CommittedOffsets:
    """Committed offsets by group, topic and partition; pending ones by producer id."""

    __slots__ = ("_by_group", "_order", "_pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], PendingOffset]] = {}
        self._order = 0

    def has_any(self, group_id: str) -> bool:
        """Return whether the group has a committed or pending offset."""
        return group_id in self._by_group or any(
            group_id == pending_group
            for pending in self._pending.values()
            for pending_group, _ in pending
        )

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether there is a committed or pending offset."""
        key = (topic, partition)
        return key in self._by_group.get(group_id, ()) or self.is_pending(group_id, key)

    def group_ids(self) -> list[str]:
        """Return every group with committed or pending offsets."""
        pending = {group_id for keys in self._pending.values() for group_id, _ in keys}
        return [*self._by_group, *(pending - self._by_group.keys())]

    # -- transactions -----------------------------------------------------------------------

    def put_pending(
        self,
        producer_id: int,
        group_id: str,
        topic: str,
        partition: int,
        committed: CommittedOffset,
    ) -> None:
        """Add an offset of a transaction that is still open."""
        self._order += 1
        pending = self._pending.setdefault(producer_id, {})
        pending[group_id, (topic, partition)] = PendingOffset(committed, self._order)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer's transaction."""
        for (group_id, key), pending in self._pending.pop(producer_id, {}).items():
            if is_commit:
                self._supersede(group_id, key, pending.order)
                self._by_group.setdefault(group_id, {})[key] = pending.committed

    def is_pending(self, group_id: str, key: TopicPartition) -> bool:
        """Return whether an open transaction may still change this offset."""
        return any((group_id, key) in pending for pending in self._pending.values())

    def commit_pending(
        self,
        request: TransactionalCommitRequest,
        limits: GroupLimits,
        now: Now,
        records: list[StoredRecord],
    ) -> tuple[ErrorCode, ...]:
        """Add the offsets of a valid TxnOffsetCommit as pending; one error code each."""
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
        """Drop pending offsets older than `order`, so that they do not overwrite that write."""
        for producer_id, pending in list(self._pending.items()):
            known = pending.get((group_id, key))
            if known is not None and known.order < order:
                del pending[group_id, key]
                if not pending:
                    del self._pending[producer_id]

    # -- committed offsets ------------------------------------------------------------------

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
        """Store the offsets of a valid OffsetCommit; one error code each."""
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
        """Return the offsets of these partitions in their order; None means all, sorted by topic.

        With `require_stable`, offsets that an open transaction may change are marked as unstable.
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

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return a copy of the group's committed offsets."""
        return dict(self._by_group.get(group_id, {}))

    def tombstones(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Iterator[StoredRecord]:
        """Delete committed and pending offsets; yield the tombstones."""
        for topic, partition in partitions:
            self.discard(group_id, topic, partition)
            yield StoredRecord(encode_offset_key(group_id, topic, partition), None)

    def partitions(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions in which the group has committed or pending offsets."""
        found = dict.fromkeys(self._by_group.get(group_id, ()))
        for pending in self._pending.values():
            found |= {key: None for pending_group, key in pending if pending_group == group_id}
        return list(found)

    def groups_with_topics(self, topics: frozenset[str]) -> list[tuple[str, list[TopicPartition]]]:
        """Return groups with committed or pending offsets in these topics, with the partitions."""
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
        """Return the offsets past their retention, except in subscribed topics.

        The retention starts at `since_ms` or at the commit, whichever is later.
        """
        found = []
        for key, committed in self._by_group.get(group_id, {}).items():
            if key[0] in subscribed or (self._pending and self.is_pending(group_id, key)):
                continue
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                is_expired = now.wall_ms >= committed.expire_timestamp_ms
            else:
                age_ms = now.wall_ms - max(since_ms, committed.commit_timestamp_ms)
                is_expired = age_ms >= retention_ms
            if is_expired:
                found.append(key)
        return found


def _committed(
    to_commit: OffsetToCommit, limits: GroupLimits, wall_ms: int, expire_ms: int
) -> CommittedOffset | None:
    """Return the offset to store, or None if its metadata is too large."""
    _, _, offset, leader_epoch, metadata = to_commit
    if metadata is None:
        metadata = ""
    elif len(metadata) > limits.offset_metadata_max_bytes or (
        4 * len(metadata) > STRING_BYTES_MAX and len(metadata.encode()) > STRING_BYTES_MAX
    ):
        return None
    return CommittedOffset(offset, leader_epoch, metadata, wall_ms, expire_ms)
