"""What the runtime needs: a shard that steps and replays, and the leading replica of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader

if TYPE_CHECKING:
    from local_cluster.log.partition.partition_log import AppendResult
    from local_cluster.log.segment.segment import LogSlice


class ReplayedShard(Protocol):
    """The state of one partition, a pure function of its records.

    A method that changes the shard by a request does so at once and yields the records that tell
    of it; replaying them into a new shard gives the same state. As in a compacted log, of several
    records of one key only the last one may be replayed, in the order of those last ones.
    """

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises UnreadableRecordError."""

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of a transaction whose end comes later. Raises UnreadableRecordError."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction is in the log."""

    def finish_load(self, now: Now) -> Outcome:
        """After the last replayed record, before the first request."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When `expire_timers` has something to do, in monotonic milliseconds; None: never."""

    def expire_timers(self, now: Now) -> Outcome:
        """Act on every timer whose deadline has come."""
        ...

    def put_off_timers(self, until_ms: int) -> None:
        """No timer's deadline is before this, in monotonic milliseconds."""


class LogBounds(Protocol):
    """Where a log begins and ends."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...


class LeadingReplica(Protocol):
    """What is needed of the leading replica: `replication.partition.Partition` fits."""

    @property
    def log(self) -> LogBounds: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def is_under_min_isr(self) -> bool: ...

    def require_in_sync_replicas(self) -> None:
        """Raises KafkaError(not_enough_replicas) where `is_under_min_isr`."""

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult: ...

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int
    ) -> AppendResult: ...

    def committed(self, next_offset: int) -> asyncio.Future[None]: ...

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice | None: ...
