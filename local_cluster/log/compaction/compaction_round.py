"""A round of compaction as the log sees it: what the worker is told, and taking over its work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from local_cluster.log.compaction.cleanable import Cleanable, find_cleanable, group_segments
from local_cluster.log.compaction.compaction_job import CleanedGroup, CompactionJob, SourceSegment
from local_cluster.log.compaction.offset_map import LOAD_FACTOR
from local_cluster.log.compaction.record_filter import NO_OFFSET
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.segment import Segment


@dataclass(slots=True)
class CompactionRound:
    """A round that a worker does; its groups are taken over in order or not at all.

    A tombstone may go only if the older records of its key went before it, so after a group that
    could not be taken over no later one may be.
    """

    log: PartitionLog
    job: CompactionJob
    groups: dict[int, Sequence[Segment]]
    """By base offset."""
    truncations: int
    is_void: bool = False

    @property
    def log_changed(self) -> bool:
        """Whether segments of the round have left the log, or were cut, by another hand."""
        there = {id(segment) for segment in self.log.segments}
        waiting = [segment for group in self.groups.values() for segment in group]
        return self.truncations != self.log.truncations or any(
            id(segment) not in there for segment in waiting
        )

    def take_over(self, cleaned: CleanedGroup) -> Deletion | None:
        """Swap a group in; None where the log changed meanwhile: the round is then void.

        Raises KafkaError(kafka_storage_error).
        """
        group = self.groups.get(cleaned.replaced[0])
        deletion = None
        if not self.is_void and group is not None and self.truncations == self.log.truncations:
            deletion = self.log.swap_compacted(group)
            del self.groups[cleaned.replaced[0]]
        self.is_void = deletion is None
        return deletion


def find_due(
    log: PartitionLog, *, cleaned_offset: int, last_stable_offset: int, now_ms: int
) -> Cleanable | None:
    """What of a log is to be compacted now, None where it is not due or may not be written.

    `last_stable_offset` bounds it: at most the high watermark. Raises OSError.
    """
    if not log.config.is_compacted or log.failure is not None or log.corruption is not None:
        return None
    return find_cleanable(
        log.segments,
        log.config,
        cleaned_offset=cleaned_offset,
        log_start_offset=log.log_start_offset,
        last_stable_offset=last_stable_offset,
        now_ms=now_ms,
    )


def plan_round(
    log: PartitionLog,
    *,
    cleaned_offset: int,
    last_stable_offset: int,
    now_ms: int,
    key_bytes_max: int,
    load_factor: float = LOAD_FACTOR,
) -> CompactionRound | None:
    """A round over what `find_due` says, None where that is nothing. Raises OSError."""
    cleanable = find_due(
        log,
        cleaned_offset=cleaned_offset,
        last_stable_offset=last_stable_offset,
        now_ms=now_ms,
    )
    if cleanable is None:
        return None
    groups = group_segments(cleanable.segments, log.config)
    job = CompactionJob(
        directory=log.directory,
        groups=tuple(tuple(_source(segment) for segment in group) for group in groups),
        later=tuple(_source(segment) for segment in log.segments[len(cleanable.segments) :]),
        start_offset=cleanable.start_offset,
        end_offset=cleanable.end_offset,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        index_interval_bytes=log.config.index_interval_bytes,
        key_bytes_max=key_bytes_max,
        load_factor=load_factor,
        producers={
            producer_id: (
                entry.batches[-1].last_offset if entry.batches else NO_OFFSET,
                entry.epoch,
            )
            for producer_id, entry in log.producers
        },
    )
    return CompactionRound(
        log,
        job,
        {group[0].base_offset: group for group in groups},
        log.truncations,
    )


def _source(segment: Segment) -> SourceSegment:
    return SourceSegment(
        base_offset=segment.base_offset,
        next_offset=segment.next_offset,
        size_bytes=segment.size_bytes,
    )
