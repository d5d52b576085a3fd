"""One replica of one partition on this broker: its high watermark and who waits for it.

The high watermark is apart from the log end. With `flush: fsync` a replica counts as far as it
has fsynced, so the high watermark is the least fsynced end offset of the in-sync replicas and a
record that a consumer saw or a producer got acknowledged survives any crash. With
`flush: page_cache` it counts as far as it has written, which is Kafka's own promise.

Guarantees: the high watermark never goes back while this broker leads; `committed` futures
resolve in offset order; when leadership is lost every parked future fails with
NOT_LEADER_OR_FOLLOWER, because the outcome is then not known here.

Not here: followers. Their end offsets enter `_in_sync_end_offset` when replicas can be more
than one.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from local_cluster.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd
from local_cluster.log.partition_log import AppendResult, LogSlice, PartitionLog
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

TO_HIGH_WATERMARK: Final = -1


class Flusher(Protocol):
    """Who makes appended records durable and calls `Partition.flushed` afterwards."""

    def request(self, partition: Partition) -> None: ...


class Partition:
    """The local replica of a partition, as leader or (later) follower."""

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        log: PartitionLog,
        *,
        flusher: Flusher | None,
        now_ms: Callable[[], int],
        high_watermark: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = -1
        self.is_leader = False
        self._flusher = flusher
        self._now_ms = now_ms
        self._high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self._parked: list[tuple[int, int, asyncio.Future[None]]] = []
        self._ticket = itertools.count()
        self._watchers: set[Callable[[], None]] = set()

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop: the high watermark, or the first offset of the
        oldest transaction whose end is not committed yet."""
        return self.log.last_stable_offset(self._high_watermark)

    # -- leadership -------------------------------------------------------------------------

    def become_leader(self, leader_epoch: int) -> None:
        """Lead from now on. What the log holds is committed as far as it is durable."""
        assert leader_epoch >= self.leader_epoch, "leader epochs only grow"
        if self.is_leader and leader_epoch == self.leader_epoch:
            return
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self._advance()
        if self._flusher is not None and self.log.flushed_end_offset < self.log.log_end_offset:
            self._flusher.request(self)

    def resign(self, leader_epoch: int) -> None:
        """Stop leading: what waits for a commit here fails, its outcome is not known."""
        self.leader_epoch = max(leader_epoch, self.leader_epoch)
        self.is_leader = False
        self.fail_parked(ErrorCode.not_leader_or_follower)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Check leadership and, where the peer names its epoch, that it is ours (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.fenced_leader_epoch
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.unknown_leader_epoch
            )

    # -- writing ----------------------------------------------------------------------------

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult:
        """Append validated batches as leader, patching offsets and epoch in place.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, producer state errors.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        result = self.log.append_as_leader(
            buffer, headers, leader_epoch=self.leader_epoch, now_ms=self._now_ms()
        )
        self._appended()
        return result

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int
    ) -> AppendResult:
        """End a producer's transaction in this partition, as leader.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        result = self.log.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.leader_epoch,
            now_ms=self._now_ms(),
        )
        self._appended()
        return result

    def committed(self, next_offset: int) -> asyncio.Future[None]:
        """A future for "everything below `next_offset` is committed"."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._high_watermark >= next_offset:
            future.set_result(None)
        elif not self.is_leader:
            future.set_exception(KafkaError(ErrorCode.not_leader_or_follower))
        else:
            heapq.heappush(self._parked, (next_offset, next(self._ticket), future))
        return future

    def flushed(self) -> None:
        """The log's flushed end offset has moved."""
        self._advance()

    def fail_parked(self, code: ErrorCode) -> None:
        """Fail everything that waits for a commit, and wake the readers."""
        parked, self._parked = self._parked, []
        for _, _, future in parked:
            if not future.done():
                future.set_exception(KafkaError(code))
        self._wake()

    def delete_records(self, before_offset: int) -> int:
        """Move the log start up to an offset (-1: the high watermark); the new log start offset.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION where
        the topic is only compacted.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        if not self.log.config.is_deleted_by_retention:
            raise KafkaError(ErrorCode.policy_violation, "cleanup.policy has no delete")
        if before_offset == TO_HIGH_WATERMARK:
            before_offset = self._high_watermark
        if not 0 <= before_offset <= self._high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{before_offset}")
        self.log.advance_log_start(before_offset)
        return self.log.log_start_offset

    # -- reading ----------------------------------------------------------------------------

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        """Whole batches from the one that contains `offset`; None where nothing is to be read.

        Raises KafkaError(offset_out_of_range).
        """
        if offset < self.log.log_start_offset or offset > self.log.log_end_offset:
            raise KafkaError(ErrorCode.offset_out_of_range)
        if offset >= offset_limit:
            return None
        piece = self.log.read(
            offset,
            bytes_max=bytes_max,
            offset_limit=offset_limit,
            at_least_one_batch=at_least_one_batch,
        )
        return piece if piece is not None and piece.size_bytes else None

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Where the largest epoch <= `epoch` ended; (-1, -1) where that is unknown.

        The log learns of an epoch with its first batch, the leader's own begins before it: an
        epoch beyond the log's newest one ends where the log ends.
        """
        latest = self.log.leader_epochs.latest
        if epoch == UNDEFINED_EPOCH or epoch > self.leader_epoch:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if latest == UNDEFINED_EPOCH or latest < epoch:
            known = epoch if latest == UNDEFINED_EPOCH or epoch == self.leader_epoch else latest
            return EpochEnd(known, self.log.log_end_offset)
        return self.log.epoch_end_offset(epoch)

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever the high watermark or the leadership changes."""
        self._watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.discard(wake)

    # -- inside -----------------------------------------------------------------------------

    def _in_sync_end_offset(self) -> int:
        if self._flusher is None:
            return self.log.log_end_offset
        return self.log.flushed_end_offset

    def _appended(self) -> None:
        if self._flusher is None:
            self._advance()
        elif self.log.flushed_end_offset < self.log.log_end_offset:
            self._flusher.request(self)

    def _advance(self) -> None:
        if not self.is_leader:
            return
        end_offset = self._in_sync_end_offset()
        if end_offset <= self._high_watermark:
            return
        self._high_watermark = end_offset
        while self._parked and self._parked[0][0] <= end_offset:
            _, _, future = heapq.heappop(self._parked)
            if not future.done():
                future.set_result(None)
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._watchers):
            wake()
