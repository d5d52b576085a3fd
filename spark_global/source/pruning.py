"""Bounds on what has to be read: which partitions, and which offsets of them.

Guarantees: exactly the records that satisfy the bounds on names and offsets are read; the bound on
timestamps leaves out a prefix of each partition, in which no record is as young.

## Decision: bounds are options, not pushed filters

Spark can push filters into a Python data source since 4.1. In 4.2.1 it keeps what was pushed in
an object shared by every use of one `load()`: `SELECT count(*) FROM v WHERE partition = 0 UNION ALL
SELECT count(*) FROM v` then counts the same one partition twice. So nothing here implements
`pushFilters`; a filter in SQL is evaluated by Spark after reading, and a reader who wants to read
less says so in options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_global.source.splits import PartitionRange
from spark_global.source.tables import AGGREGATE_SIDE


@dataclass(frozen=True, slots=True)
class Interval:
    """Offsets [first, end); None is open."""

    first: int | None = None
    end: int | None = None

    def cut(self, start: int, end: int) -> tuple[int, int]:
        """The part of [start, end) inside."""
        return (
            start if self.first is None else max(start, self.first),
            end if self.end is None else min(end, self.end),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What must hold of every record that is wanted; empty sets and None admit everything."""

    datacenters: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    offsets: Interval = Interval()
    """Source offsets; a record whose source offset is not known is outside of any bound."""
    aggregate_offsets: Interval = Interval()
    timestamp_ms_first: int | None = None


def cut_range(wanted: PartitionRange, bounds: Bounds) -> PartitionRange | None:
    """The part of a partition that is wanted, or None."""
    if bounds.datacenters and wanted.origin.datacenter not in bounds.datacenters:
        return None
    if bounds.partitions and wanted.partition not in bounds.partitions:
        return None
    start, end = wanted.start, wanted.end
    if wanted.side == AGGREGATE_SIDE:
        start, end = bounds.aggregate_offsets.cut(start, end)
    start, end = _at_source(wanted, bounds.offsets).cut(start, end)
    return replace(wanted, start=start, end=end) if start < end else None


def _at_source(wanted: PartitionRange, offsets: Interval) -> Interval:
    """The interval of source offsets, as one of the offsets that are read."""
    runs = wanted.runs
    if wanted.side != AGGREGATE_SIDE or runs is None or offsets == Interval():
        return offsets
    return Interval(
        None if offsets.first is None else runs.targets_from(offsets.first),
        runs.target_next if offsets.end is None else runs.targets_from(offsets.end),
    )
