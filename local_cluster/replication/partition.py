"""One replica of a partition on this broker: leadership, high watermark, appends and reads.

The high watermark is apart from the log end. With `flush: fsync` a replica counts up to what it has
fsynced. The high watermark is then the least fsynced end offset of the in-sync replicas. So a
record that a consumer read or a producer got acknowledged survives any crash. With `flush:
page_cache` a replica counts up to what it has written, which is Kafka's own promise.

Guarantees: the high watermark never goes back while this broker leads. Delayed produces complete
in offset order. When the leadership ends they fail with NOT_LEADER_OR_FOLLOWER, because their
outcome is then not known here.

Not here: which offsets count (in_sync.py), what waits for them (purgatory.py), what is durable
(log_flushes.py), what a follower does with a response (follower/apply_response.py).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.counters.traffic import TopicTraffic
from local_cluster.log.partition.partition_log import AppendResult, LogSlice, PartitionLog
from local_cluster.log.state.epochs import UNDEFINED_EPOCH, EpochEnd
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.replication.in_sync import InSyncReplicas
from local_cluster.replication.log_flushes import Flusher, LogFlushes
from local_cluster.replication.peers import Peers
from local_cluster.replication.purgatory import CompleteProduce, Purgatory, Wake, completion
from local_cluster.replication.truncation import find_divergence, leader_epoch_end
from local_cluster.wire.errors import ErrorCode, KafkaError

TO_HIGH_WATERMARK: Final = -1


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
        traffic: TopicTraffic | None = None,
    ) -> None:
        """Without `peers` it is always the only replica. `now_ms` is the wall clock. `traffic` is
        shared by the replicas of the topic."""
        self.traffic = traffic or TopicTraffic()
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.flushes = LogFlushes(
            log, flusher, on_flushed=self._advance, on_failed=self.fail_delayed
        )
        self.is_leader = False
        self.leader_epoch = -1
        self.leader_id = NO_LEADER
        self.in_sync: InSyncReplicas | None = None
        """Set while this replica leads and there are others."""
        self._purgatory = Purgatory()
        self._peers = peers
        self._now_ms = now_ms
        self._high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self._epoch_start_offset = 0

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed."""
        return self._high_watermark

    @property
    def has_committed_epoch_start(self) -> bool:
        """Whether all that the former leader may have committed is committed here (KIP-207)."""
        return self._high_watermark >= min(self._epoch_start_offset, self.log.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed consumers stop: the first offset of the oldest transaction whose
        end is not committed yet, else the high watermark."""
        return self.log.reader.last_stable_offset(self._high_watermark)

    # -- leadership -------------------------------------------------------------------------

    def become_leader(self, leader_epoch: int, state: PartitionState | None = None) -> None:
        """Lead in an epoch, or take over a new state of the present epoch.

        `state` names the replicas. Without it, or if it names one, this replica decides alone.
        """
        assert leader_epoch >= self.leader_epoch, "leader epochs only grow"
        if self.is_leader and leader_epoch == self.leader_epoch:
            self._update_state(state)
            return
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self._epoch_start_offset = self.log.log_end_offset
        self.in_sync = None
        self.flushes.end_waits()
        if state is not None and len(state.replicas) > 1:
            self._start_epoch(state)
        self._advance()
        # A consumer that names an epoch must learn that it has changed.
        self._purgatory.wake_watchers()
        self.flushes.request()

    def _start_epoch(self, state: PartitionState) -> None:
        peers = self._peers
        assert peers is not None, "several replicas need peers"
        self.leader_id = peers.broker_id
        self.in_sync = InSyncReplicas(peers.broker_id)
        self.in_sync.start_epoch(
            state, log_end_offset=self.log.log_end_offset, now_ms=peers.monotonic_ms()
        )

    def _update_state(self, state: PartitionState | None) -> None:
        if state is None:
            return
        if self.in_sync is not None:
            if self.in_sync.update(state):
                self._advance()
        elif len(state.replicas) > 1:
            self._start_epoch(state)

    def apply_isr(self, state: PartitionState) -> None:
        """Take over an ISR that the controller wrote, unless the epoch has changed since."""
        if self.is_leader and state.leader_epoch == self.leader_epoch:
            self._update_state(state)

    def resign(self, leader_epoch: int, leader_id: int = NO_LEADER) -> None:
        """Stop leading, and fail the delayed produces: their outcome is not known here."""
        self.leader_epoch = max(leader_epoch, self.leader_epoch)
        self.leader_id = leader_id
        self.is_leader = False
        self.in_sync = None
        self.flushes.end_waits()
        self.fail_delayed(ErrorCode.not_leader_or_follower)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Check that this replica leads, in the epoch that the peer names if any (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        self.require_epoch(current_leader_epoch)

    def require_epoch(self, current_leader_epoch: int) -> None:
        """Check that the epoch that the peer names, if any, is the present one (KIP-320).

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
                f"{self.log}: the ISR is {list(self.in_sync.state.isr)}, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR has fewer members than min.insync.replicas."""
        return self.in_sync is not None and self.in_sync.is_under_min_isr(
            self.log.config.min_insync_replicas
        )

    # -- followers --------------------------------------------------------------------------

    def has_in_sync(self, replica: int) -> bool:
        """Whether another broker's replica is in sync, while this one leads."""
        return self.in_sync is not None and replica in self.in_sync.state.isr

    def find_divergence(self, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        """Return where a follower's log diverges from this one, None if it is a prefix of it."""
        if last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        if last_fetched_epoch == self.leader_epoch and fetch_offset <= self.log.log_end_offset:
            return None  # nearly always: the newest epoch ends where the log ends
        return find_divergence(fetch_offset, last_fetched_epoch, self.epoch_end(last_fetched_epoch))

    def record_fetch(
        self, replica: int, *, broker_epoch: int, log_end_offset: int, log_start_offset: int
    ) -> None:
        """Record that a follower has everything below `log_end_offset`, as a prefix of this log.

        Raises KafkaError: see InSyncReplicas.record_fetch.
        """
        if self.in_sync is None or self._peers is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"broker {replica} holds no replica"
            )
        live = self._peers.live()
        leader_end_offset = self.log.log_end_offset
        self.in_sync.record_fetch(
            replica,
            broker_epoch=broker_epoch,
            log_end_offset=log_end_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset,
            now_ms=live.now_ms,
        )
        self._advance()
        if self.in_sync.decide_expansion(
            live, leader_end_offset=leader_end_offset, high_watermark=self._high_watermark
        ):
            self._peers.isr_may_expand()

    def awaits_fetch(self, replica: int) -> bool:
        """Whether a follower has not fetched yet since this leader started or was restarted.

        An idle follower of a fetch session must then name the partition again.
        """
        return self.in_sync is not None and self.in_sync.awaits_fetch(replica)

    def decide_isr(self) -> tuple[int, ...] | None:
        """Return the ISR to propose to the controller, None if the present one is right."""
        if self.in_sync is None or self._peers is None:
            return None
        # Time alone advances the high watermark when a lagging replica no longer holds it.
        self._advance()
        return self.in_sync.decide_isr(
            self._peers.live(),
            leader_end_offset=self.log.log_end_offset,
            high_watermark=self._high_watermark,
        )

    # -- following --------------------------------------------------------------------------

    def append_as_follower(self, buffer: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Append the leader's batches unchanged.

        Raises KafkaError: not_leader_or_follower if this replica leads now,
        offset_out_of_range, corrupt_message, kafka_storage_error.
        """
        if self.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower, f"{self.log} leads here")
        self.log.as_follower.append(buffer, headers, now_ms=self._now_ms())
        self.traffic.replication_bytes_in += len(buffer)
        self.flushes.request()

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over the leader's high watermark and log start offset, up to the own log end."""
        advanced = min(high_watermark, self.log.log_end_offset)
        if log_start_offset > self.log.log_start_offset and log_start_offset <= advanced:
            self.log.cleanup.advance_log_start(log_start_offset)
        if advanced > self._high_watermark:
            self._high_watermark = advanced
            self._purgatory.wake_watchers()

    def truncate_high_watermark(self) -> None:
        """Keep the high watermark within the log, after a truncation."""
        self._high_watermark = min(
            max(self._high_watermark, self.log.log_start_offset), self.log.log_end_offset
        )

    # -- writing ----------------------------------------------------------------------------

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult:
        """Append validated batches as leader, patching offsets and epoch in place.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, producer state errors.
        """
        self.require_leader()
        end_offset_before = self.log.log_end_offset
        result = self.log.as_leader.append(
            buffer, headers, leader_epoch=self.leader_epoch, now_ms=self._now_ms()
        )
        self._appended(end_offset_before)
        self.traffic.bytes_in += len(buffer)
        self.traffic.messages_in += result.last_offset - result.base_offset + 1
        return result

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int
    ) -> AppendResult:
        """End a producer's transaction in this partition, as leader.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED.
        """
        self.require_leader()
        end_offset_before = self.log.log_end_offset
        result = self.log.as_leader.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.leader_epoch,
            now_ms=self._now_ms(),
        )
        self._appended(end_offset_before)
        return result

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start to an offset (-1: the high watermark). Return the new log start.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION if the
        topic is only compacted.
        """
        self.require_leader()
        if not self.log.config.is_deleted_by_retention:
            raise KafkaError(ErrorCode.policy_violation, "cleanup.policy has no delete")
        if before_offset == TO_HIGH_WATERMARK:
            before_offset = self._high_watermark
        if not 0 <= before_offset <= self._high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{before_offset}")
        self.log.cleanup.advance_log_start(before_offset)
        self.log_start_advanced()
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """The offset below which every live replica has deleted its records."""
        if self.in_sync is None or self._peers is None:
            return self.log.log_start_offset
        return self.in_sync.low_watermark(
            self.log.log_start_offset, self._peers.live().epochs.keys()
        )

    # -- reading ----------------------------------------------------------------------------

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        """Return whole batches from the one that contains `offset`, None if there are none.

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
        """Return the end of the largest epoch <= `epoch`, (-1, -1) if that is unknown."""
        log = self.log
        return leader_epoch_end(epoch, self.leader_epoch, log.leader_epochs, log.log_end_offset)

    # -- delayed operations -----------------------------------------------------------------

    def when_committed(self, next_offset: int, complete: CompleteProduce) -> None:
        """Call `complete` once, perhaps at once: with `none` when everything below `next_offset`
        is committed, with an error when this replica cannot know that any more."""
        if self._high_watermark >= next_offset:
            complete(ErrorCode.none)
        elif not self.is_leader:
            complete(ErrorCode.not_leader_or_follower)
        else:
            self._purgatory.delay_produce(next_offset, complete)

    def committed(self, next_offset: int) -> asyncio.Future[None]:
        """Return a future for "everything below `next_offset` is committed"."""
        future, complete = completion()
        self.when_committed(next_offset, complete)
        return future

    def watch(self, wake: Wake) -> None:
        """Call `wake` at every change of the high watermark, the log start or the leadership."""
        self._purgatory.watch(wake)

    def watch_appends(self, wake: Wake) -> None:
        """Call `wake` at every append, and when the leadership ends."""
        self._purgatory.watch_appends(wake)

    def unwatch(self, wake: Wake) -> None:
        self._purgatory.unwatch(wake)

    def fail_delayed(self, code: ErrorCode) -> None:
        """Fail the delayed produces and wake the delayed fetches."""
        if code == ErrorCode.kafka_storage_error:
            self.flushes.end_waits(KafkaError(code))
        self._purgatory.fail_produces(code)
        self._purgatory.wake_watchers()
        self._purgatory.wake_append_watchers()

    def log_start_advanced(self) -> None:
        """Wake the delayed fetches: retention or DeleteRecords advanced the log start."""
        self._purgatory.wake_watchers()

    # -- the log ----------------------------------------------------------------------------

    def relocate(self, log: PartitionLog, flusher: Flusher | None) -> None:
        """Continue with a log of the same records in another log directory."""
        self.log = log
        self.flushes.switch(log, flusher)

    def _appended(self, end_offset_before: int) -> None:
        if self.in_sync is not None and self._peers is not None:
            # Also if no follower waits: what woke it may not have been an append.
            self.in_sync.record_append(end_offset_before, self._peers.monotonic_ms())
        self._purgatory.wake_append_watchers()
        if self.flushes.is_required:
            self.flushes.request()
        elif self.in_sync is None or not self.in_sync.has_in_sync_followers:
            # Followers in sync hold the high watermark: they have not fetched this yet.
            self._advance()

    def _advance(self) -> None:
        """Advance the high watermark if more is committed."""
        if not self.is_leader:
            return
        end_offset = self.flushes.durable_end_offset
        if self.in_sync is not None and self._peers is not None:
            end_offset = self.in_sync.committed_offset(
                end_offset,
                self._peers.live(),
                min_insync_replicas=self.log.config.min_insync_replicas,
            )
        if end_offset <= self._high_watermark:
            return
        self._high_watermark = end_offset
        self._purgatory.complete_produces(end_offset)
        self._purgatory.wake_watchers()
