"""Which segments have expired. Pure decisions over the segments, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.segment.segment import Segment


def decide_expired(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
) -> int:
    """Return how many of the oldest segments expire; the active one may, unless it is empty.

    As UnifiedLog.deleteOldSegments: by time, then by size, then by log start offset. Segments
    expire from the oldest on without a gap, and never beyond the high watermark. A topic that is
    only compacted loses nothing but what lies before the log start offset.
    """
    count = 0
    if config.is_deleted_by_retention:
        count = max(
            _expired_by_time(segments, config.retention_ms, now_ms),
            _expired_by_size(segments, config.retention_bytes),
        )
    count = max(count, _before_start(segments, log_start_offset))
    while count and segments[count - 1].next_offset > high_watermark:
        count -= 1
    return count


def _expired_by_time(segments: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in segments:
        # A segment whose batches have no time counts from its last write.
        newest_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
        if _is_last_and_empty(segment, segments) or now_ms - newest_ms <= retention_ms:
            break
        count += 1
    return count


def _expired_by_size(segments: Sequence[Segment], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        if _is_last_and_empty(segment, segments) or excess_bytes < segment.size_bytes:
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count


def _is_last_and_empty(segment: Segment, segments: Sequence[Segment]) -> bool:
    # A truncation may leave an empty one before the last; it does not keep the others.
    return not segment.size_bytes and segment is segments[-1]


def _before_start(segments: Sequence[Segment], log_start_offset: int) -> int:
    count = 0
    for segment, following in pairwise(segments):
        if following.base_offset > log_start_offset:
            break
        assert segment.base_offset < following.base_offset, "segments out of order"
        count += 1
    return count
