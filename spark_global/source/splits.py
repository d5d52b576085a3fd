"""The ranges of one Spark task: offsets of partitions, and the origin of their records.

A task costs Spark tens of milliseconds of CPU, so small ranges share one.

Guarantees: the splits of a read cover each of its ranges exactly once. The pieces of a partition
are in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from spark_global.addresses import ClusterAddress
from spark_global.source.provenance import FormerCopies, MapRuns
from spark_global.source.tables import AGGREGATE_SIDE

TASKS_PER_CORE: Final = 4
"""Tasks that a read has at least for each core of the driver, if it has offsets enough."""
TASK_RECORDS_MIN: Final = 1_000
"""Offsets below which a further task costs more than it saves."""
SHARED_RECORDS_MAX: Final = 50_000
"""Most offsets of ranges that share a task: more cores than the driver's may be waiting."""


class Takes(StrEnum):
    """Which records of a range are read."""

    ALL = "all"
    MAPPED = "mapped"
    """Records that the map has: those of one of several links that fill the partition."""
    WRITTEN = "written"
    """Records that no link's map has, and that one of `producers` wrote."""
    UNMAPPED = "unmapped"
    """Records that no link's map has, and that none of `producers` wrote."""


class Origin(NamedTuple):
    """Datacenter and source topic of a partition's records."""

    datacenter: str | None
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """Offsets [start, end) of one partition in one cluster."""

    cluster: ClusterAddress
    side: str = AGGREGATE_SIDE
    origin: Origin
    aggregate_topic: str
    partition: int
    start: int
    end: int
    runs: MapRuns | None = None
    """Offset map of the partition; None if the records were produced where they are read."""
    takes: Takes = Takes.ALL
    topic_id: str | None = None
    """Id of the topic at the source that the map is of."""
    producers: frozenset[int] = frozenset()
    """Producer ids of the link or, with `Takes.UNMAPPED`, of all links that fill the partition."""
    former: tuple[FormerCopies, ...] = ()
    """Copies of source topics of the same name before; `by_source_topic` reads them apart."""
    other_log_start: int = 0
    """Log start on the other side; retention has deleted counterparts below it."""

    @property
    def map_end(self) -> int:
        """The first offset of this side that the map does not cover; 0 without a map."""
        if self.runs is None:
            return 0
        on_aggregate = self.side == AGGREGATE_SIDE
        return self.runs.target_next if on_aggregate else self.runs.source_next

    @property
    def read_topic(self) -> str:
        """The topic's name in the cluster to read."""
        return self.aggregate_topic if self.side == AGGREGATE_SIDE else self.origin.topic


class Split(InputPartition):
    """Some PartitionRanges as one input partition of Spark."""

    def __init__(self, ranges: Sequence[PartitionRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


def by_source_topic(wanted: PartitionRange) -> Iterator[PartitionRange]:
    """Yield a range as one range per source topic whose copies it has, each offset once.

    A topic that was deleted and re-created is another one. Its offsets begin at 0 again.
    """
    if not wanted.former:
        yield replace(wanted, former=())
        return
    start = wanted.start
    for each in wanted.former:
        of_former = replace(wanted, runs=each.runs, topic_id=each.topic_id, former=())
        if wanted.takes is Takes.MAPPED:
            yield of_former
        elif start < min(each.end, wanted.end):
            yield replace(of_former, start=start, end=min(each.end, wanted.end))
            start = each.end
    if wanted.takes is Takes.MAPPED:
        yield replace(wanted, former=())
    elif start < wanted.end:
        yield replace(wanted, start=start, former=())


def tasks_wanted() -> int:
    """Return how many tasks a read has at least, if it has offsets enough."""
    return TASKS_PER_CORE * (os.cpu_count() or 1)


def split_ranges(
    ranges: Sequence[PartitionRange], records_max: int, tasks: int | None = None
) -> Iterator[Split]:
    """Yield splits of at most `records_max` offsets, the largest first.

    Ranges share a split while it stays below SHARED_RECORDS_MAX, and while there are still about
    `tasks` splits (default: `tasks_wanted`). Spark starts tasks in order, so no big task is left
    for the end.
    """
    total = sum(wanted.end - wanted.start for wanted in ranges)
    shared = max(TASK_RECORDS_MIN, -(-total // (tasks or tasks_wanted())))
    size = min(records_max, shared, SHARED_RECORDS_MAX)
    packed: list[PartitionRange] = []
    filled = 0
    for piece in _pieces(ranges, records_max):
        count = piece.end - piece.start
        if packed and filled + count > size:
            yield Split(packed)
            packed, filled = [], 0
        packed.append(piece)
        filled += count
    if packed:
        yield Split(packed)


def _pieces(ranges: Sequence[PartitionRange], records_max: int) -> Iterator[PartitionRange]:
    """Yield the ranges in pieces of at most `records_max` offsets, the largest ranges first."""
    for wanted in sorted(ranges, key=lambda entry: entry.start - entry.end):
        for start in range(wanted.start, wanted.end, records_max):
            end = min(start + records_max, wanted.end)
            yield replace(wanted, start=start, end=end, runs=_cover(wanted, start, end))


def _cover(wanted: PartitionRange, start: int, end: int) -> MapRuns | None:
    if wanted.runs is None:
        return None
    if wanted.side == AGGREGATE_SIDE:
        return wanted.runs.covering_targets(start, end)
    return wanted.runs.covering_sources(start, end)
