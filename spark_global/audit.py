"""The exact audit of a mirrored topic, from the logs of both sides.

It reads every record of every source partition and of its copy, and uses no counters. Records are
compared by fingerprint (`local_cluster.records.fingerprint`), in two steps:

1. A source record and an aggregate record are a *pair* if the offset map relates them and their
   fingerprints are equal. One shuffle decides this for all records.
2. The remaining records, normally none, are matched by (datacenter, topic, partition, fingerprint)
   and by occurrence, in offset order. Records without a match are reported:

    lost           at the source only, although the map covers its offset
    pending        at the source only, past the end of the map: not mirrored yet
    duplicated     on the aggregate only, and the source has an equal record
    foreign        on the aggregate only, and the source has no equal record
    mistranslated  on both sides, but at another offset than the map has
    misordered     past the map on both sides, in another order

A record whose counterpart would be below the log start of the other side was deleted there by
retention. It is *expired*, not lost or duplicated.

Guarantees: `produced` and `mirrored` count records that were read. `is_clean` is true only if every
record of the source has exactly one copy, in order, at the mapped offset. There must be no other
records either. Two different records with the same 64-bit fingerprint would count as equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_global.source.tables import FINGERPRINTS_TABLE
from spark_global.views import Aggregate, load_table

FINDINGS_MAX: Final = 1_000
"""Most faulty records that are listed; all of them are counted."""

PROBLEMS: Final = ("lost", "duplicated", "foreign", "mistranslated", "misordered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A faulty record."""

    problem: str
    datacenter: str
    topic: str
    partition: int
    offset: int | None
    """Source offset. For a duplicate it is the offset of the repeated record; for a foreign record
    that of the record whose copy belongs in its place, if there is one."""
    aggregate_offset: int | None

    def __str__(self) -> str:
        where = f"{self.datacenter} {self.topic}-{self.partition}"
        source = "" if self.offset is None else f" offset {self.offset}"
        copy = "" if self.aggregate_offset is None else f" (aggregate {self.aggregate_offset})"
        return f"{self.problem}: {where}{source}{copy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCount:
    """Records of one partition on each side, and the number of pairs."""

    datacenter: str
    topic: str
    partition: int
    produced: int
    on_aggregate: int
    mirrored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The result of an audit."""

    partitions: tuple[PartitionCount, ...]
    counts: Counter[str] = field(default_factory=Counter)
    """Records by problem, and `pending` and `expired`."""
    findings: tuple[Finding, ...] = ()
    """The first FINDINGS_MAX faulty records, by partition and offset."""

    @property
    def produced(self) -> int:
        return sum(partition.produced for partition in self.partitions)

    @property
    def mirrored(self) -> int:
        return sum(partition.mirrored for partition in self.partitions)

    @property
    def is_clean(self) -> bool:
        """Whether every record is mirrored exactly once, in order, and there is no other record."""
        return not any(self.counts[name] for name in (*PROBLEMS, "pending"))

    @property
    def line(self) -> str:
        """The summary in one line; rare counts are included only if they are not 0."""
        parts = [f"{self.produced} produced", f"{self.mirrored} mirrored"]
        parts += [f"{self.counts[name]} {name}" for name in ("lost", "duplicated")]
        others = ("foreign", "mistranslated", "misordered", "pending", "expired")
        parts += [f"{self.counts[name]} {name}" for name in others if self.counts[name]]
        return "audit: " + ", ".join(parts)


def audit_topic(session: SparkSession, aggregate: Aggregate, topic: str) -> AuditReport:
    """Audit all mirrors of a source topic; every link needs the `bootstrap` of its source."""
    return audit_fingerprints(load_table(session, aggregate, FINGERPRINTS_TABLE, topic=topic))


def audit_fingerprints(fingerprints: DataFrame) -> AuditReport:
    """Audit a DataFrame with the columns of the table `fingerprints`."""
    paired = fingerprints.sparkSession.sql(_PAIRED, fingerprints=fingerprints).cache()
    try:
        rows = paired.sparkSession.sql(_PER_PARTITION, paired=paired).collect()
        partitions = tuple(
            PartitionCount(
                datacenter=row.datacenter,
                topic=row.topic,
                partition=row.partition,
                produced=row.produced,
                on_aggregate=row.on_aggregate,
                mirrored=row.mirrored,
            )
            for row in rows
        )
        if all(p.produced == p.mirrored == p.on_aggregate for p in partitions):
            return AuditReport(partitions=partitions)
        return _with_leftovers(paired, partitions)
    finally:
        paired.unpersist()


def _with_leftovers(paired: DataFrame, partitions: Iterable[PartitionCount]) -> AuditReport:
    judged = paired.sparkSession.sql(_LEFTOVERS, paired=paired).cache()
    try:
        counted = judged.groupBy("datacenter", "topic", "partition", "verdict").count().collect()
        named = (
            judged.where(judged.verdict.isin(*PROBLEMS))
            .orderBy("datacenter", "topic", "partition", "offset", "aggregate_offset")
            .limit(FINDINGS_MAX)
            .collect()
        )
    finally:
        judged.unpersist()
    counts: Counter[str] = Counter()
    mirrored: Counter[tuple[str, str, int]] = Counter()
    for row in counted:
        counts[row.verdict] += row["count"]
        if row.verdict in _ON_BOTH_SIDES:
            mirrored[row.datacenter, row.topic, row.partition] += row["count"]
    return AuditReport(
        partitions=tuple(_add_mirrored(partition, mirrored) for partition in partitions),
        counts=counts,
        findings=tuple(_finding(row) for row in named),
    )


_ON_BOTH_SIDES: Final = frozenset({"paired", "mistranslated", "misordered"})


def _add_mirrored(partition: PartitionCount, more: Counter[tuple[str, str, int]]) -> PartitionCount:
    at = (partition.datacenter, partition.topic, partition.partition)
    return PartitionCount(
        datacenter=partition.datacenter,
        topic=partition.topic,
        partition=partition.partition,
        produced=partition.produced,
        on_aggregate=partition.on_aggregate,
        mirrored=partition.mirrored + more[at],
    )


def _finding(row: Any) -> Finding:
    return Finding(
        problem=row.verdict,
        datacenter=row.datacenter,
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        aggregate_offset=row.aggregate_offset,
    )


# One group per source offset and fingerprint; the map gives the source offset of an aggregate
# record. An aggregate record of unknown origin gets its own group, by a negative number, which no
# source offset can be.
_PAIRED: Final = """
SELECT datacenter, topic, partition, fingerprint, place,
       count_if(side = 'source') AS sources,
       count_if(side = 'aggregate') AS copies,
       max(CASE WHEN side = 'source' THEN offset END) AS source_offset,
       max(CASE WHEN side = 'aggregate' THEN aggregate_offset END) AS aggregate_offset,
       bool_or(past_map) AS past_map,
       bool_or(expired) AS expired
FROM (SELECT *, coalesce(offset, -1 - aggregate_offset) AS place FROM {fingerprints})
GROUP BY datacenter, topic, partition, fingerprint, place
"""

_PER_PARTITION: Final = """
SELECT datacenter, topic, partition,
       sum(sources) AS produced,
       sum(copies) AS on_aggregate,
       count_if(sources = 1 AND copies = 1) AS mirrored
FROM {paired}
GROUP BY datacenter, topic, partition
ORDER BY datacenter, topic, partition
"""

_LEFTOVERS: Final = """
WITH leftover AS (
  SELECT *, row_number() OVER (
           PARTITION BY datacenter, topic, partition, fingerprint, sources
           ORDER BY coalesce(source_offset, aggregate_offset)) AS occurrence
  FROM {paired}
  WHERE NOT (sources = 1 AND copies = 1)
),
at_source AS (SELECT * FROM leftover WHERE sources = 1),
on_aggregate AS (SELECT * FROM leftover WHERE sources = 0),
matched AS (
  SELECT datacenter, topic, partition, fingerprint,
         s.source_offset, a.aggregate_offset,
         CASE WHEN a.place >= 0 THEN a.place END AS mapped_offset,
         s.past_map AS source_past_map, a.past_map AS aggregate_past_map,
         coalesce(s.expired, a.expired) AS expired
  FROM at_source s FULL OUTER JOIN on_aggregate a
  USING (datacenter, topic, partition, fingerprint, occurrence)
),
ordered AS (
  SELECT *, max(CASE WHEN source_offset IS NOT NULL THEN aggregate_offset END) OVER (
           PARTITION BY datacenter, topic, partition ORDER BY source_offset
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest_before
  FROM matched
),
original AS (
  SELECT datacenter, topic, partition, fingerprint, min(source_offset) AS original_offset
  FROM {paired} WHERE sources = 1
  GROUP BY datacenter, topic, partition, fingerprint
)
SELECT datacenter, topic, partition,
       coalesce(source_offset, original_offset, mapped_offset) AS offset,
       aggregate_offset,
       CASE
         WHEN source_offset IS NOT NULL AND aggregate_offset IS NOT NULL THEN
           CASE WHEN NOT source_past_map OR NOT aggregate_past_map THEN 'mistranslated'
                WHEN aggregate_offset < highest_before THEN 'misordered'
                ELSE 'paired' END
         WHEN expired THEN 'expired'
         WHEN aggregate_offset IS NULL THEN
           CASE WHEN source_past_map THEN 'pending' ELSE 'lost' END
         WHEN original_offset IS NOT NULL THEN 'duplicated'
         ELSE 'foreign'
       END AS verdict
FROM ordered LEFT JOIN original USING (datacenter, topic, partition, fingerprint)
"""
