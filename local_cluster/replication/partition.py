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

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.log.partition.partition_log import AppendResult, LogSlice, PartitionLog
from local_cluster.log.state.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.replication.in_sync import InSyncReplicas
from local_cluster.replication.partition_flushes import Flusher, PartitionFlushes
from local_cluster.replication.truncation import find_divergence
from local_cluster.wire.errors import ErrorCode, KafkaError

TO_HIGH_WATERMARK: Final = -1


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


class Partition(PartitionFlushes):
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
        super().__init__(log, flusher, high_watermark=high_watermark)
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.leader_epoch = -1
        self.leader_id = NO_LEADER
        self.in_sync: InSyncReplicas | None = None
        """The other replicas, while this one leads and there are any."""
        self._peers = peers
        self._now_ms = now_ms
        self._led_from_offset = 0

    @property
    def knows_commits(self) -> bool:
        """Whether all that the leader before may have committed is committed here too (KIP-207)."""
        return self._high_watermark >= min(self._led_from_offset, self.log.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop: the high watermark, or the first offset of the
        oldest transaction whose end is not committed yet."""
        return self.log.reader.last_stable_offset(self._high_watermark)

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
        if last_fetched_epoch == self.leader_epoch and fetch_offset <= self.log.log_end_offset:
            return None  # nearly always: the newest epoch ends where the log does
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
        now_ms = self._peers.monotonic_ms()
        self.in_sync.fetched(
            replica,
            broker_epoch=broker_epoch,
            end_offset=end_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
        )
        self._advance()
        if self.in_sync.joining(
            leader_end_offset=self.log.log_end_offset,
            high_watermark=self._high_watermark,
            now_ms=now_ms,
            lag_ms_max=self._peers.lag_ms_max,
            broker_epochs=self._peers.broker_epochs(),
        ):
            self._peers.isr_may_change(self)

    def is_unheard(self, replica: int) -> bool:
        """Whether a follower has yet to tell where it is: of one that is at rest, because this
        leader began anew in the same epoch."""
        return self.in_sync is not None and self.in_sync.is_unheard(replica)

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
        self.log.as_follower.append(buffer, headers, now_ms=self._now_ms())
        if self._flusher is not None:
            self._flusher.request(self)

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over the leader's high watermark and log start offset, as far as the log goes."""
        end_offset = self.log.log_end_offset
        raised = min(high_watermark, end_offset)
        if log_start_offset > self.log.log_start_offset and log_start_offset <= raised:
            self.log.cleanup.advance_log_start(log_start_offset)
        if raised > self._high_watermark:
            self._high_watermark = raised
            self._wake()

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
        result = self.log.as_leader.append(
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
        result = self.log.as_leader.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.leader_epoch,
            now_ms=self._now_ms(),
        )
        self._appended(end_before)
        return result

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
        self.log.cleanup.advance_log_start(before_offset)
        self.log_start_moved()
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """Below this every live replica has deleted its records."""
        if self.in_sync is None or self._peers is None:
            return self.log.log_start_offset
        live = self._peers.broker_epochs()
        return self.in_sync.low_watermark(self.log.log_start_offset, live.keys())

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
        piece = self.log.reader.read(
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
        return self.log.reader.epoch_end_offset(epoch)

    # -- inside -----------------------------------------------------------------------------

    def _appended(self, end_before: int) -> None:
        if self.in_sync is not None and self._peers is not None:
            # Also where no follower waits: what woke it may not have been an append.
            self.in_sync.left_behind(end_before, self._peers.monotonic_ms())
        if self._append_watchers:
            self._wake_followers()
        if self._flusher is None:
            # Where others count they hold the commit back, and have not fetched this yet.
            if self.in_sync is None or not self.in_sync.counts_others:
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
        if self._parked:
            self._settle_committed(end_offset)
        self._wake()
