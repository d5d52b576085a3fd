"""The state of one partition's log, shared by the parts that work on it.

The parts hold this object and never the `PartitionLog`, so that there is no reference cycle: the
files of a deleted log close when the last reference goes, without the garbage collector, which
the broker freezes once it has started.
"""

from __future__ import annotations

from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.files import Files
from local_cluster.log.segment.segment_list import SegmentList
from local_cluster.log.state.epochs import LeaderEpochs
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.wire.errors import ErrorCode, KafkaError


class LogState:
    """Segments, offsets, epochs and producers of one log, and why it may refuse to be written."""

    def __init__(
        self,
        files: Files,
        topic: str,
        partition: int,
        *,
        topic_id: UUID | None,
        config: LogConfig,
        segments: SegmentList,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        log_start_offset: int,
        corruption: str | None,
        disk: DiskState,
    ) -> None:
        self.files = files
        self.disk = disk
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.epochs_unwritten = False
        """Whether leader-epoch-checkpoint must be written before the next flush."""
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = segments.active.next_offset
        self.corruption = corruption
        """Why the log may neither lead nor be written; None while it is whole."""
        self.failure: str | None = None
        """Why the log is closed to writes until a restart; None while it is not."""
        self.truncations = 0
        """How often the log was truncated since it was opened: older positions are void."""

    def update_config(self, config: LogConfig) -> None:
        """Apply a new config to everything written after this call."""
        self.config = config
        self.segments.set_index_interval(config.index_interval_bytes)

    def fail(self, reason: str) -> None:
        """Refuse writes until a restart. The first reason is kept."""
        self.failure = self.failure or reason

    def refusal(self) -> KafkaError:
        """Return the error for a write to a log that failed or is corrupt."""
        reason = self.failure or f"corrupt: {self.corruption}"
        return KafkaError(ErrorCode.kafka_storage_error, f"{self}: {reason}")

    def read_error(self, error: OSError) -> KafkaError:
        """Return the error for a read that the disk refused. It says nothing about writes."""
        return storage_error(f"{self} cannot be read", error)

    def write_error(self, what: str, error: OSError) -> KafkaError:
        """Report a refused write to the disk state; return the error. The log is unchanged."""
        self.disk.note(error)
        return storage_error(f"{self} {what}", error)

    def broken(self, what: str, error: OSError) -> KafkaError:
        """Fail the log, because memory and disk may differ; return the error."""
        self.fail(f"{what}: {error}")
        return self.write_error(what, error)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def storage_error(what: str, error: OSError) -> KafkaError:
    """Return a KAFKA_STORAGE_ERROR that names the error of the disk."""
    return KafkaError(ErrorCode.kafka_storage_error, f"{what}: {error}")
