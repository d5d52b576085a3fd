"""Bounds of a read: which partitions, and which of their offsets. Pure.

Guarantees: a read returns exactly the records within the bounds on names and offsets. The bound on
timestamps skips a prefix of each partition in which every record is older.

Bounds are options and not pushed filters: `docs/design/spark-filters-as-bounds.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_global.source.splits import PartitionRange
from spark_global.source.tables import AGGREGATE_SIDE


@dataclass(frozen=True, slots=True)
class Interval:
    """Offsets [first, end); None for no bound."""

    first: int | None = None
    end: int | None = None

    def cut(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of [start, end) inside the interval."""
        return (
            start if self.first is None else max(start, self.first),
            end if self.end is None else min(end, self.end),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The conditions on every record to read; empty sets and None are no conditions."""

    datacenters: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    source_topics: frozenset[str] = frozenset()
    aggregate_topics: frozenset[str] = frozenset()
    offsets: Interval = Interval()
    """Bounds on source offsets, which exclude records with an unknown source offset."""
    aggregate_offsets: Interval = Interval()
    timestamp_ms_first: int | None = None


def cut_range(wanted: PartitionRange, bounds: Bounds) -> PartitionRange | None:
    """Return the part of a partition within the bounds, or None."""
    if bounds.datacenters and wanted.origin.datacenter not in bounds.datacenters:
        return None
    if bounds.partitions and wanted.partition not in bounds.partitions:
        return None
    if bounds.source_topics and wanted.origin.topic not in bounds.source_topics:
        return None
    if bounds.aggregate_topics and wanted.aggregate_topic not in bounds.aggregate_topics:
        return None
    start, end = wanted.start, wanted.end
    if wanted.side == AGGREGATE_SIDE:
        start, end = bounds.aggregate_offsets.cut(start, end)
    start, end = _at_source(wanted, bounds.offsets).cut(start, end)
    return replace(wanted, start=start, end=end) if start < end else None


def _at_source(wanted: PartitionRange, offsets: Interval) -> Interval:
    """Return an interval of source offsets as an interval of the offsets to read."""
    runs = wanted.runs
    if wanted.side != AGGREGATE_SIDE or runs is None or offsets == Interval():
        return offsets
    return Interval(
        None if offsets.first is None else runs.targets_from(offsets.first),
        runs.target_next if offsets.end is None else runs.targets_from(offsets.end),
    )
