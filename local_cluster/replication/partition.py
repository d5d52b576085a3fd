"""One replica of one partition on this broker: its high watermark and who waits for it.

The high watermark is apart from the log end. With `flush: fsync` a replica counts as far as it
has fsynced, so the high watermark is the least fsynced end offset of the in-sync replicas and a
record that a consumer saw or a producer got acknowledged survives any crash. With
`flush: page_cache` it counts as far as it has written, which is Kafka's own promise.

Guarantees: the high watermark never goes back while this broker leads; `committed` futures
resolve in offset order; when leadership is lost every parked future fails with
NOT_LEADER_OR_FOLLOWER, because the outcome is then not known here.

Not here: which offsets count (in_sync.py), what a follower does with an answer (following.py).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.controller.model import NO_LEADER, PartitionState
from local_cluster.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd
from local_cluster.log.partition_log import AppendResult, LogSlice, PartitionLog
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

from .in_sync import InSyncReplicas
from .truncation import find_divergence

TO_HIGH_WATERMARK: Final = -1

Settle = Callable[[ErrorCode], None]
"""Told how a commit ended; must not raise."""


class Flusher(Protocol):
    """Who makes appended records durable and calls `Partition.flushed` afterwards."""

    def request(self, partition: Partition) -> None: ...


class _Held:
    """A flusher that flushes nothing: another one does in a moment."""

    def request(self, partition: Partition) -> None:
        return


_HELD: Final = _Held()


class Peers(Protocol):
    """The brokers that hold the other replicas, as far as a leader must know of them."""

    @property
    def broker_id(self) -> int: ...

    @property
    def lag_ms_max(self) -> int:
        """replica.lag.time.max.ms."""
        ...

    def monotonic_ms(self) -> int: ...

    def broker_epochs(self) -> Mapping[int, int]:
        """Of the live brokers."""
        ...

    def isr_may_change(self, partition: Partition) -> None:
        """A follower may join: `Partition.in_sync.decide_isr` has a proposal."""
        ...


class Partition:
    """The local replica of a partition, as leader or follower."""

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
        peers: Peers | None = None,
    ) -> None:
        """Without `peers` it is always the only replica."""
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = -1
        self.leader_id = NO_LEADER
        self.is_leader = False
        self.in_sync: InSyncReplicas | None = None
        """The other replicas, while this one leads and there are any."""
        self._peers = peers
        self._flusher = flusher
        self._held_flusher: Flusher | None = None
        self._now_ms = now_ms
        self._high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self._led_from_offset = 0
        self._parked: list[tuple[int, int, Settle]] = []
        self._ticket = itertools.count()
        self._watchers: dict[Callable[[], None], None] = {}
        """In the order of their coming, so that simulations can be repeated."""
        self._append_watchers: dict[Callable[[], None], None] = {}
        self._awaiting_disk: list[asyncio.Future[None]] = []

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed."""
        return self._high_watermark

    @property
    def knows_commits(self) -> bool:
        """Whether all that the leader before may have committed is committed here too (KIP-207)."""
        return self._high_watermark >= min(self._led_from_offset, self.log.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop: the high watermark, or the first offset of the
        oldest transaction whose end is not committed yet."""
        return self.log.last_stable_offset(self._high_watermark)

    # -- leadership -------------------------------------------------------------------------

    def become_leader(self, leader_epoch: int, state: PartitionState | None = None) -> None:
        """Lead from now on. What the log holds is committed as far as all that count have it.

        `state` names the replicas; without it, or with one, this replica alone decides.
        """
        assert leader_epoch >= self.leader_epoch, "leader epochs only grow"
        if self.is_leader and leader_epoch == self.leader_epoch:
            self._adopt(state)
            return
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self._led_from_offset = self.log.log_end_offset
        self.in_sync = None
        self._settle_disk_waits()
        if state is not None and len(state.replicas) > 1:
            assert self._peers is not None, "several replicas need peers"
            self.leader_id = self._peers.broker_id
            self.in_sync = InSyncReplicas(self._peers.broker_id)
            self.in_sync.lead(
                state,
                log_end_offset=self.log.log_end_offset,
                now_ms=self._peers.monotonic_ms(),
            )
        self._advance()
        # Readers that name an epoch have to be told that it is another one.
        self._wake()
        self.request_flush()

    def _adopt(self, state: PartitionState | None) -> None:
        """Other replicas, or other ones in sync, in the present epoch."""
        if state is None:
            return
        if self.in_sync is not None:
            if self.in_sync.adopt(state):
                self._advance()
        elif len(state.replicas) > 1:
            assert self._peers is not None, "several replicas need peers"
            self.in_sync = InSyncReplicas(self._peers.broker_id)
            self.in_sync.lead(
                state,
                log_end_offset=self.log.log_end_offset,
                now_ms=self._peers.monotonic_ms(),
            )

    def adopt_isr(self, state: PartitionState) -> None:
        """What the controller wrote of the in-sync replicas, if it is still of this epoch."""
        if self.is_leader and state.leader_epoch == self.leader_epoch:
            self._adopt(state)

    def resign(self, leader_epoch: int, leader_id: int = NO_LEADER) -> None:
        """Stop leading: what waits for a commit here fails, its outcome is not known."""
        self.leader_epoch = max(leader_epoch, self.leader_epoch)
        self.leader_id = leader_id
        self.is_leader = False
        self.in_sync = None
        self._settle_disk_waits()
        self.fail_parked(ErrorCode.not_leader_or_follower)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Check leadership and, where the peer names its epoch, that it is ours (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        self.require_epoch(current_leader_epoch)

    def require_epoch(self, current_leader_epoch: int) -> None:
        """Check that the epoch that a peer names, if any, is the one known here (KIP-320).

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.fenced_leader_epoch
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.unknown_leader_epoch
            )

    def require_in_sync_replicas(self) -> None:
        """Check that what is appended now can be committed.

        Raises KafkaError(not_enough_replicas).
        """
        if self.is_under_min_isr:
            assert self.in_sync is not None
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"{self.log}: in sync are {list(self.in_sync.state.isr)}, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than min.insync.replicas asks for."""
        return self.in_sync is not None and self.in_sync.is_under_min(
            self.log.config.min_insync_replicas
        )

    # -- followers --------------------------------------------------------------------------

    def has_in_sync(self, replica: int) -> bool:
        """Whether another broker's replica is in sync, while this one leads."""
        return self.in_sync is not None and replica in self.in_sync.state.isr

    def find_divergence(self, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        """Where a follower's log leaves this one's, None where it is a prefix of it."""
        if last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        return find_divergence(fetch_offset, last_fetched_epoch, self.epoch_end(last_fetched_epoch))

    def follower_fetched(
        self, replica: int, *, broker_epoch: int, end_offset: int, log_start_offset: int
    ) -> None:
        """A follower has everything below `end_offset`, and its log is a prefix of this one.

        Raises KafkaError: see InSyncReplicas.fetched.
        """
        if self.in_sync is None or self._peers is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"broker {replica} holds no replica"
            )
        self.in_sync.fetched(
            replica,
            broker_epoch=broker_epoch,
            end_offset=end_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=self._peers.monotonic_ms(),
        )
        self._advance()
        if self.in_sync.joining(self._high_watermark, self._peers.broker_epochs()):
            self._peers.isr_may_change(self)

    def decide_isr(self) -> tuple[int, ...] | None:
        """The in-sync replicas to propose to the controller, None where they are right."""
        if self.in_sync is None or self._peers is None:
            return None
        # Time alone moves the high watermark where a replica that lags no longer holds it.
        self._advance()
        return self.in_sync.decide_isr(
            leader_end_offset=self.log.log_end_offset,
            high_watermark=self._high_watermark,
            now_ms=self._peers.monotonic_ms(),
            lag_ms_max=self._peers.lag_ms_max,
            broker_epochs=self._peers.broker_epochs(),
        )

    # -- following --------------------------------------------------------------------------

    def append_fetched(self, buffer: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Append the leader's batches as they are, as follower.

        Raises KafkaError: not_leader_or_follower where this replica leads now,
        offset_out_of_range, corrupt_message, kafka_storage_error.
        """
        if self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower, f"{self.log} leads here")
        self.log.append_as_follower(buffer, headers, now_ms=self._now_ms())
        if self._flusher is not None:
            self._flusher.request(self)

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over the leader's high watermark and log start offset, as far as the log goes."""
        end_offset = self.log.log_end_offset
        raised = min(high_watermark, end_offset)
        if log_start_offset > self.log.log_start_offset and log_start_offset <= raised:
            self.log.advance_log_start(log_start_offset)
        if raised > self._high_watermark:
            self._high_watermark = raised
            self._wake()

    def cut_high_watermark(self) -> None:
        """The log was cut back, or begins anew: the high watermark lies within it."""
        self._high_watermark = min(
            max(self._high_watermark, self.log.log_start_offset), self.log.log_end_offset
        )

    def durable(self) -> asyncio.Future[None] | None:
        """A future for "all that was appended is on the disk"; None where it is, or need not be.

        It ends as well when this replica no longer follows, and fails where the disk does.
        """
        if self._flusher is None or self.log.flushed_end_offset >= self.log.log_end_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaiting_disk.append(future)
        self._flusher.request(self)
        return future

    def _settle_disk_waits(self, error: KafkaError | None = None) -> None:
        waiting, self._awaiting_disk = self._awaiting_disk, []
        for future in waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    # -- writing ----------------------------------------------------------------------------

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult:
        """Append validated batches as leader, patching offsets and epoch in place.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, producer state errors.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        end_before = self.log.log_end_offset
        result = self.log.append_as_leader(
            buffer, headers, leader_epoch=self.leader_epoch, now_ms=self._now_ms()
        )
        self._appended(end_before)
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
        end_before = self.log.log_end_offset
        result = self.log.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.leader_epoch,
            now_ms=self._now_ms(),
        )
        self._appended(end_before)
        return result

    def committed(self, next_offset: int) -> asyncio.Future[None]:
        """A future for "everything below `next_offset` is committed"."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error_code: ErrorCode) -> None:
            if future.done():
                return
            if error_code:
                future.set_exception(KafkaError(error_code))
            else:
                future.set_result(None)

        self.when_committed(next_offset, settle)
        return future

    def request_flush(self) -> None:
        """Have made durable what is not, where the log is flushed at all."""
        if self._flusher is not None and self.log.flushed_end_offset < self.log.log_end_offset:
            self._flusher.request(self)

    def when_committed(self, next_offset: int, settle: Settle) -> None:
        """Call `settle` once: with `none` when everything below `next_offset` is committed, with
        an error when that is not known to happen here any more. At once if it is so already."""
        if self._high_watermark >= next_offset:
            settle(ErrorCode.none)
        elif not self.is_leader:
            settle(ErrorCode.not_leader_or_follower)
        else:
            heapq.heappush(self._parked, (next_offset, next(self._ticket), settle))

    def flushed(self) -> None:
        """The log's flushed end offset has moved."""
        if self._awaiting_disk and self.log.flushed_end_offset >= self.log.log_end_offset:
            self._settle_disk_waits()
        self._advance()

    def fail_parked(self, code: ErrorCode) -> None:
        """Fail everything that waits for a commit, and wake the readers."""
        if code == ErrorCode.kafka_storage_error:
            self._settle_disk_waits(KafkaError(code))
        parked, self._parked = self._parked, []
        for _, _, settle in parked:
            settle(code)
        self._wake()
        self._wake_followers()

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
        self.log_start_moved()
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """Below this every live replica has deleted its records."""
        if self.in_sync is None or self._peers is None:
            return self.log.log_start_offset
        live = self._peers.broker_epochs()
        return self.in_sync.low_watermark(self.log.log_start_offset, live.keys())

    # -- moving to another log directory ----------------------------------------------------

    def is_flushed_by(self, flusher: Flusher) -> bool:
        """Whether this is who makes the records durable now; else somebody else is asked to."""
        return self._flusher is flusher

    def hold_flushes(self) -> None:
        """Begin no flush of the log any more: nothing more is committed by it for a moment."""
        if self._flusher is not None and self._held_flusher is None:
            self._held_flusher, self._flusher = self._flusher, _HELD

    def resume_flushes(self) -> None:
        """Flush again, and what waited for it."""
        if self._held_flusher is not None:
            self._flusher, self._held_flusher = self._held_flusher, None
            self.request_flush()

    def relocate(self, log: PartitionLog, flusher: Flusher | None) -> None:
        """Go on with another log of the same records, in another log directory."""
        assert log.log_end_offset == self.log.log_end_offset, "the logs end together"
        assert log.flushed_end_offset >= self.log.flushed_end_offset, "nothing counted is lost"
        self.log = log
        self._flusher, self._held_flusher = flusher, None
        self.flushed()
        self.request_flush()

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

    def log_start_moved(self) -> None:
        """Tell the readers, for whom it is news: after retention, and deletion of records."""
        self._wake()

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever the high watermark, the log start or the leadership changes."""
        self._watchers[wake] = None

    def watch_appends(self, wake: Callable[[], None]) -> None:
        """Call `wake` for every append, and when this replica leads no more."""
        self._append_watchers[wake] = None

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.pop(wake, None)
        self._append_watchers.pop(wake, None)

    # -- inside -----------------------------------------------------------------------------

    def _in_sync_end_offset(self) -> int:
        if self._flusher is None:
            return self.log.log_end_offset
        return self.log.flushed_end_offset

    def _appended(self, end_before: int) -> None:
        if self._append_watchers:
            if self.in_sync is not None and self._peers is not None:
                self.in_sync.left_behind(end_before, self._peers.monotonic_ms())
            self._wake_followers()
        if self._flusher is None:
            self._advance()
        elif self.log.flushed_end_offset < self.log.log_end_offset:
            self._flusher.request(self)

    def _advance(self) -> None:
        if not self.is_leader:
            return
        end_offset = self._in_sync_end_offset()
        if self.in_sync is not None and self._peers is not None:
            end_offset = self.in_sync.committed_offset(
                end_offset,
                min_insync_replicas=self.log.config.min_insync_replicas,
                now_ms=self._peers.monotonic_ms(),
                lag_ms_max=self._peers.lag_ms_max,
                broker_epochs=self._peers.broker_epochs(),
            )
        if end_offset <= self._high_watermark:
            return
        self._high_watermark = end_offset
        while self._parked and self._parked[0][0] <= end_offset:
            _, _, settle = heapq.heappop(self._parked)
            settle(ErrorCode.none)
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._watchers):
            wake()

    def _wake_followers(self) -> None:
        for wake in tuple(self._append_watchers):
            wake()
