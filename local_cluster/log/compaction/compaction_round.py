"""A round of compaction on the broker's side: planning it, and swapping in its segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from local_cluster.log.compaction.cleanable import Cleanable, find_cleanable, group_segments
from local_cluster.log.compaction.compaction_job import CleanedGroup, CompactionJob, SourceSegment
from local_cluster.log.compaction.key_offset_map import LOAD_FACTOR
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.segment import Segment
from local_cluster.log.state.producer_state import NO_OFFSET


@dataclass(slots=True)
class CompactionRound:
    """A round that the compactor does; its groups are swapped in in order or not at all.

    A tombstone may go only if the older records of its key went before it. So once a group could
    not be swapped in, no later one may be.
    """

    log: PartitionLog
    job: CompactionJob
    groups: dict[int, Sequence[Segment]]
    """The groups that are not swapped in yet, by base offset."""
    truncations: int
    """`LogState.truncations` when the round was planned."""
    is_void: bool = False

    @property
    def log_changed(self) -> bool:
        """Whether retention or a truncation has changed segments of the round."""
        present = {id(segment) for segment in self.log.segments.all}
        waiting = [segment for group in self.groups.values() for segment in group]
        return self.truncations != self.log.state.truncations or any(
            id(segment) not in present for segment in waiting
        )

    def take_over(self, cleaned: CleanedGroup) -> Deletion | None:
        """Swap a group in; None where the log changed meanwhile: the round is then void.

        Raises KafkaError(kafka_storage_error).
        """
        group = self.groups.get(cleaned.replaced[0])
        deletion = None
        is_same = self.truncations == self.log.state.truncations
        if not self.is_void and group is not None and is_same:
            deletion = self.log.cleanup.swap_compacted(group)
            del self.groups[cleaned.replaced[0]]
        self.is_void = deletion is None
        return deletion


def find_due(
    log: PartitionLog, *, cleaned_offset: int, last_stable_offset: int, now_ms: int
) -> Cleanable | None:
    """Return the segments of a log to compact; None where none are due or the log refuses writes.

    Nothing at or beyond `last_stable_offset` is compacted. Raises OSError.
    """
    if not log.config.is_compacted or log.failure is not None or log.corruption is not None:
        return None
    return find_cleanable(
        log.segments.all,
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
    """Plan a round over the segments that are due; None where none are. Raises OSError."""
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
        later=tuple(_source(segment) for segment in log.segments.all[len(cleanable.segments) :]),
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
        log.state.truncations,
    )


def _source(segment: Segment) -> SourceSegment:
    return SourceSegment(
        base_offset=segment.base_offset,
        next_offset=segment.next_offset,
        size_bytes=segment.size_bytes,
    )
