"""Which logs are due for compaction, and how far. Pure.

As Kafka's LogCleanerManager: the dirty part begins at the cleaned offset
(`cleaner-offset-checkpoint`). It ends before the active segment, the last stable offset, and the
first segment with a record younger than min.compaction.lag.ms. A log is due where the dirty part is
more than min.cleanable.dirty.ratio of it, or holds a segment older than max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.segment.index import (
    OFFSET_ENTRY_BYTES,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_BYTES,
)
from local_cluster.log.segment.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """The segments that a round rewrites: first the clean ones, then at least one dirty one."""

    segments: Sequence[Segment]
    """Oldest first."""
    start_offset: int
    """Where the dirty part begins."""
    end_offset: int
    """Where it ends: a boundary of segments."""
    dirty_ratio: float


def find_cleanable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    cleaned_offset: int,
    log_start_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> Cleanable | None:
    """Return the segments of a log that are due; None where it is not due."""
    start_offset = max(cleaned_offset, log_start_offset)
    if start_offset > segments[-1].base_offset:
        # The log was truncated since: its records may never have been compacted.
        start_offset = log_start_offset
    usable: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    waited_ms = -1
    for segment in segments[:-1]:
        if segment.next_offset > last_stable_offset:
            break
        if segment.next_offset <= start_offset:
            clean_bytes += segment.size_bytes
        else:
            if config.min_compaction_lag_ms > 0 and (
                now_ms - _newest_ms(segment) < config.min_compaction_lag_ms
            ):
                break
            dirty_bytes += segment.size_bytes
            waited_ms = max(waited_ms, segment.waited_ms(now_ms, now_ms))
        usable.append(segment)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    if ratio <= config.min_cleanable_dirty_ratio and waited_ms <= config.max_compaction_lag_ms:
        return None
    return Cleanable(
        segments=usable,
        start_offset=start_offset,
        end_offset=usable[-1].next_offset,
        dirty_ratio=ratio,
    )


def group_segments(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Group segments that become one each.

    The limits are segment.bytes, segment.index.bytes and the 2**31 offsets of a segment.
    """
    groups: list[list[Segment]] = []
    size_bytes = index_bytes = 0
    for segment in segments:
        segment_index_bytes = max(
            segment.offset_index.entries_count * OFFSET_ENTRY_BYTES,
            segment.time_index.entries_count * TIME_ENTRY_BYTES,
        )
        fits = (
            bool(groups)
            and size_bytes + segment.size_bytes <= config.segment_bytes
            and index_bytes + segment_index_bytes <= config.segment_index_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if not fits:
            groups.append([])
            size_bytes = index_bytes = 0
        groups[-1].append(segment)
        size_bytes += segment.size_bytes
        index_bytes += segment_index_bytes
    return groups


def is_roll_due(active: Segment, config: LogConfig, now_ms: int) -> bool:
    """Return whether max.compaction.lag.ms requires rolling the active segment to compact it.

    Kafka rolls it only at the next append.
    """
    return (
        config.is_compacted
        and active.size_bytes > 0
        and active.waited_ms(now_ms, now_ms) > config.max_compaction_lag_ms
    )


def _newest_ms(segment: Segment) -> int:
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
