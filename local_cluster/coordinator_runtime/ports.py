"""What the runtime needs: a shard, the leading replica of its log, and the broker around it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import KafkaError

if TYPE_CHECKING:
    from local_cluster.clock import Clock
    from local_cluster.controller.member.current_configs import CurrentConfigs
    from local_cluster.controller.model.metadata_cache import MetadataCache
    from local_cluster.log.partition.partition_log import AppendResult
    from local_cluster.log.segment.segment import LogSlice
    from local_cluster.replication.replica_set import ReplicaSet
    from local_cluster.settings import BrokerSettings


class ReplayedShard(Protocol):
    """The state of one partition, a pure function of its records.

    A method that handles a request changes the shard at once and returns the records of the
    change. Replaying them into a new shard gives the same state. Replay may skip all but the last
    record of a key, as in a compacted log; the last records keep their order.
    """

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises UnreadableRecordError."""

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of a transaction whose marker comes later. Raises
        UnreadableRecordError."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the marker of a producer's transaction."""

    def finish_load(self, now: Now) -> Outcome:
        """Run after the last replayed record and before the first request."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Return when `expire_timers` is due, in monotonic milliseconds; None: never."""

    def expire_timers(self, now: Now) -> Outcome:
        """Act on every timer whose deadline has passed."""
        ...

    def defer_timers(self, until_ms: int) -> None:
        """Move every earlier deadline to `until_ms`, in monotonic milliseconds."""


class LogBounds(Protocol):
    """The first and the next offset of a log."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...


class LeadingReplica(Protocol):
    """What the runtime uses of the leading replica (`replication.partition.Partition`)."""

    @property
    def log(self) -> LogBounds: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def is_under_min_isr(self) -> bool: ...

    def require_in_sync_replicas(self) -> None:
        """Raise KafkaError(not_enough_replicas) if `is_under_min_isr`."""

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


class TopicCreation(Protocol):
    """Creates internal topics through the controller."""

    async def auto_create_topic(self, name: str) -> KafkaError | None: ...


class CoordinatorBroker(Protocol):
    """What a coordinator uses of its broker."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def configs(self) -> CurrentConfigs: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def control_plane(self) -> TopicCreation: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def replicas(self) -> ReplicaSet: ...
