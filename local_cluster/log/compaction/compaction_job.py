"""One round of compaction as values for JSON: the job of the compactor, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Totals:
    """Counts of one round, for the log and for tests."""

    records_read: int = 0
    records_kept: int = 0
    batches_read: int = 0
    batches_kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """A segment to read: its first `size_bytes` hold the offsets below `next_offset`."""

    base_offset: int
    next_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """One round of compaction over the closed segments of one log."""

    directory: str
    groups: tuple[tuple[SourceSegment, ...], ...]
    """Oldest first; each becomes one segment."""
    later: tuple[SourceSegment, ...] = ()
    """Segments behind them, read only for the markers that end transactions."""
    start_offset: int
    """Where the dirty part begins."""
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    key_bytes_max: int
    load_factor: float
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Producer id -> (last data offset or -1, epoch)."""


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A `.cleaned` segment that is complete and on the disk."""

    replaced: tuple[int, ...]
    """Base offsets of the segments that it replaces; it begins where the first one does."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The end of a round: everything below `end_offset` is clean once its groups are swapped in."""

    end_offset: int
    totals: Totals
