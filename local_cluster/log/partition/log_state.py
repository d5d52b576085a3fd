"""What one partition's log knows: its segments, offsets, epochs, producers, and why it may be over.

The parts of a `PartitionLog` (writes, reads, flushes, cuts) share this state.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.flushing import FlushState
from local_cluster.log.partition.recovery import OpenedFiles
from local_cluster.log.segment.segment import LOG_SUFFIX, Segment
from local_cluster.log.segment.segment_list import SegmentList
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.log.state.snapshot_files import ProducerSnapshots
from local_cluster.wire.errors import ErrorCode, KafkaError


class LogState:
    """The state of one log, what it says about itself, and how it refuses."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: UUID | None,
        opened: OpenedFiles,
        snapshots: ProducerSnapshots,
        producers: ProducerState,
        log_start_offset: int,
        flushed_end_offset: int,
        disk: DiskState,
    ) -> None:
        self._files = files
        self._disk = disk
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epochs = opened.epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = opened.segments[-1].next_offset
        self.corruption = opened.corruption
        """Why the log may not lead nor be written, None if it is whole."""
        self.recovered_cut_bytes = opened.cut_bytes
        self.failure: str | None = None
        """Why the log is finished until a restart, None while it is not."""
        self._segments = SegmentList(files, directory, opened.segments, opened.hidden)
        self._snapshots = snapshots
        self._flushing = FlushState(files, flushed_end_offset, opened.unsynced)
        self._latest_epoch = opened.epochs.latest
        self._epochs_unwritten = opened.epochs_changed
        self._flush_refusals = 0
        """How often the disk refused a flush in a row."""
        self._settled_end_offset: int | None = None
        """Where the log ended when a clean start found everything on the disk."""

    @property
    def directory(self) -> str:
        return self._segments.directory

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_base_offsets(self) -> Sequence[int]:
        return self._segments.base_offsets

    @property
    def first_base_offset(self) -> int:
        return self._segments.first_base_offset

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first, the active one last; to be looked at."""
        return self._segments.all

    @property
    def active_path(self) -> str:
        """The file that is appended to; for people and tests."""
        return self._segments.active.path(LOG_SUFFIX)

    @property
    def truncations(self) -> int:
        """How often the log was cut back since it was opened: positions from before are void."""
        return self._flushing.truncations

    def update_config(self, config: LogConfig) -> None:
        """Go by a new config from now on."""
        self.config = config
        self._segments.set_index_interval(config.index_interval_bytes)

    def fail(self, reason: str) -> None:
        """End this log until a restart: an fsync failed here or on another log of the disk."""
        self.failure = self.failure or reason

    def _refusal(self) -> KafkaError:
        reason = self.failure or f"corrupt: {self.corruption}"
        return KafkaError(ErrorCode.kafka_storage_error, f"{self}: {reason}")

    def _error(self, what: str, error: OSError) -> KafkaError:
        return storage_error(f"{self} {what}", error)

    def _write_error(self, what: str, error: OSError) -> KafkaError:
        """What was not written is as it was; the disk may have become read-only for all logs."""
        self._disk.note(error)
        return self._error(what, error)

    def _broken(self, what: str, error: OSError) -> KafkaError:
        """Memory and disk may differ, so that nothing may be appended before a restart."""
        self.fail(f"{what}: {error}")
        return self._write_error(what, error)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def storage_error(what: str, error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.kafka_storage_error, f"{what}: {error}")
