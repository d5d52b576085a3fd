"""The range of one Spark task: offsets of one partition, and the origin of its records.

Guarantees: the splits of a partition cover its range exactly once, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from spark_global.addresses import ClusterAddress
from spark_global.source.provenance import MapRuns
from spark_global.source.tables import AGGREGATE_SIDE


class Takes(StrEnum):
    """Which records of a range are read."""

    ALL = "all"
    MAPPED = "mapped"
    """Records that the map has: those of one of several links that fill the partition."""
    UNMAPPED = "unmapped"
    """Records that no link's map has."""


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
    """A PartitionRange as an input partition of Spark."""

    def __init__(self, wanted: PartitionRange) -> None:
        super().__init__(wanted)
        self.range = wanted


def split_ranges(ranges: list[PartitionRange], records_max: int) -> Iterator[Split]:
    """Yield splits of at most `records_max` offsets, the largest partitions first.

    Spark starts tasks in order, so no big task is left for the end.
    """
    for wanted in sorted(ranges, key=lambda entry: entry.start - entry.end):
        for start in range(wanted.start, wanted.end, records_max):
            end = min(start + records_max, wanted.end)
            yield Split(replace(wanted, start=start, end=end, runs=_cover(wanted, start, end)))


def _cover(wanted: PartitionRange, start: int, end: int) -> MapRuns | None:
    if wanted.runs is None:
        return None
    if wanted.side == AGGREGATE_SIDE:
        return wanted.runs.covering_targets(start, end)
    return wanted.runs.covering_sources(start, end)
