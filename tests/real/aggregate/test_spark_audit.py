"""Spark's audit names every kind of faulty record, from tables of fingerprints.

Spark takes seconds for one audit, however small; so each case is a datacenter of its own, and all
of them are audited at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession

from spark_global.audit import AuditReport, Finding, PartitionCount, audit_fingerprints
from spark_global.source.tables import FINGERPRINTS_TABLE, spark_schema

pytestmark = pytest.mark.real

Row = tuple[str, str, str, int, int | None, int | None, bool, bool, int]
Named = tuple[str, int, int | None, int | None]
"""Problem, partition, source offset, aggregate offset."""
END = 10**9


@dataclass(frozen=True, kw_only=True)
class Link:
    """One partition on both sides, with its offset map."""

    source: Sequence[str]
    """Records at source offsets 0, 1, ...; a blank is no record."""
    aggregate: Sequence[str]
    """Records at aggregate offsets 0, 1, ...; a blank is no record."""
    mapped: dict[int, int] = field(default_factory=dict)
    """Source offset to aggregate offset."""
    source_next: int = END
    target_next: int = END
    source_start: int = 0
    aggregate_start: int = 0
    partition: int = 0

    def rows(self, datacenter: str) -> list[Row]:
        back = {target: source for source, target in self.mapped.items()}
        rows: list[Row] = []
        for offset, record in enumerate(self.source):
            other = self.mapped.get(offset)
            if offset >= self.source_start and record != " ":
                expired = other is not None and other < self.aggregate_start
                past = offset >= self.source_next
                at = ("source", datacenter, "flights", self.partition)
                rows.append((*at, offset, other, past, expired, ord(record)))
        for offset, record in enumerate(self.aggregate):
            other = back.get(offset)
            if offset >= self.aggregate_start and record != " ":
                expired = other is not None and other < self.source_start
                past = offset >= self.target_next
                at = ("aggregate", datacenter, "flights", self.partition)
                rows.append((*at, other, offset, past, expired, ord(record)))
        return rows


@dataclass(frozen=True, kw_only=True)
class Case:
    """Some partitions of one datacenter, and the expected audit."""

    links: tuple[Link, ...]
    produced: int
    mirrored: int
    named: tuple[Named, ...] = ()


def same(count: int) -> dict[int, int]:
    return {offset: offset for offset in range(count)}


CASES = {
    "equal logs, with equal records in them": Case(
        links=(
            Link(source="abca", aggregate="abca", mapped=same(4)),
            Link(source="ab", aggregate="ab", mapped=same(2), partition=1),
        ),
        produced=6,
        mirrored=6,
    ),
    "a lost record": Case(
        links=(Link(source="abcd", aggregate="ab d", mapped=same(4)),),
        produced=4,
        mirrored=3,
        named=(("lost", 0, 2, None),),
    ),
    # Counting occurrences alone would name offset 2.
    "a lost record among equal ones": Case(
        links=(Link(source="aaa", aggregate="a a", mapped=same(3)),),
        produced=3,
        mirrored=2,
        named=(("lost", 0, 1, None),),
    ),
    "a lost record that the map leaves out": Case(
        links=(Link(source="abc", aggregate="ac", mapped={0: 0, 2: 1}, partition=3),),
        produced=3,
        mirrored=2,
        named=(("lost", 3, 1, None),),
    ),
    "a duplicate behind its original": Case(
        links=(Link(source="abc", aggregate="abbc", mapped={0: 0, 1: 1, 2: 3}),),
        produced=3,
        mirrored=3,
        named=(("duplicated", 0, 1, 2),),
    ),
    "a duplicate before its original": Case(
        links=(Link(source="abc", aggregate="cabc", mapped={0: 1, 1: 2, 2: 3}),),
        produced=3,
        mirrored=3,
        named=(("duplicated", 0, 2, 0),),
    ),
    "a duplicate past the map": Case(
        links=(Link(source="abc", aggregate="abca", mapped=same(3), target_next=3),),
        produced=3,
        mirrored=3,
        named=(("duplicated", 0, 0, 3),),
    ),
    "duplicates without any map": Case(
        links=(Link(source="abc", aggregate="abcbc", source_next=0, target_next=0),),
        produced=3,
        mirrored=3,
        named=(("duplicated", 0, 1, 3), ("duplicated", 0, 2, 4)),
    ),
    # The same record lies in other partitions and datacenters of this test.
    "a foreign record": Case(
        links=(Link(source="ab", aggregate="acb", mapped={0: 0, 1: 2}),),
        produced=2,
        mirrored=2,
        named=(("foreign", 0, None, 1),),
    ),
    "a copy with other bytes": Case(
        links=(Link(source="abc", aggregate="aBc", mapped=same(3)),),
        produced=3,
        mirrored=2,
        named=(("lost", 0, 1, None), ("foreign", 0, 1, 1)),
    ),
    "not mirrored yet": Case(
        links=(
            Link(source="abcd", aggregate="ab", mapped=same(2), source_next=2, target_next=2),
            Link(source="xyz", aggregate="", source_next=0, partition=1),
        ),
        produced=7,
        mirrored=2,
    ),
    "mirrored past the end of the map": Case(
        links=(
            Link(source="abcb", aggregate="abcb", mapped=same(1), source_next=1, target_next=1),
        ),
        produced=4,
        mirrored=4,
    ),
    "another order past the map": Case(
        links=(Link(source="abc", aggregate="acb", source_next=0, target_next=0),),
        produced=3,
        mirrored=3,
        named=(("misordered", 0, 2, 1),),
    ),
    "a map that lies": Case(
        links=(Link(source="abcd", aggregate="acbd", mapped=same(4)),),
        produced=4,
        mirrored=4,
        named=(("mistranslated", 0, 1, 2), ("mistranslated", 0, 2, 1)),
    ),
    "what retention took": Case(
        links=(
            Link(
                source="abcd",
                aggregate="abcd",
                mapped=same(4),
                source_start=1,
                aggregate_start=2,
            ),
            Link(source="abcd", aggregate="abcd", mapped=same(4), source_start=2, partition=1),
        ),
        produced=5,
        mirrored=4,
    ),
}


@pytest.fixture(scope="module")
def report(spark: SparkSession) -> AuditReport:
    rows = [row for name, case in CASES.items() for link in case.links for row in link.rows(name)]
    return audit_fingerprints(spark.createDataFrame(rows, spark_schema(FINGERPRINTS_TABLE)))


@pytest.mark.parametrize("name", CASES)
def test_case(report: AuditReport, name: str) -> None:
    case = CASES[name]
    partitions = [count for count in report.partitions if count.datacenter == name]
    assert sum(count.produced for count in partitions) == case.produced
    assert sum(count.mirrored for count in partitions) == case.mirrored
    named = tuple(
        (finding.problem, finding.partition, finding.offset, finding.aggregate_offset)
        for finding in report.findings
        if finding.datacenter == name
    )
    assert named == case.named


def test_all_are_counted(report: AuditReport) -> None:
    named = Counter(problem for case in CASES.values() for problem, *_ in case.named)
    assert {name: report.counts[name] for name in named} == named
    assert report.counts["pending"] == 5
    assert report.counts["expired"] == 3
    assert not report.is_clean


def test_the_line_of_a_clean_audit_and_of_others() -> None:
    count = PartitionCount(
        datacenter="jfk", topic="flights", partition=0, produced=7, on_aggregate=7, mirrored=7
    )
    assert AuditReport(partitions=(count,)).line == (
        "audit: 7 produced, 7 mirrored, 0 lost, 0 duplicated"
    )
    pending = AuditReport(partitions=(count,), counts=Counter(pending=2, lost=1))
    assert pending.line == "audit: 7 produced, 7 mirrored, 1 lost, 0 duplicated, 2 pending"
    assert not pending.is_clean


@pytest.mark.parametrize("verdict", ["lost", "duplicated", "foreign", "misordered", "pending"])
def test_nothing_wrong_is_clean(verdict: str) -> None:
    assert not AuditReport(partitions=(), counts=Counter([verdict])).is_clean
    assert AuditReport(partitions=(), counts=Counter(expired=1)).is_clean


def test_a_finding_in_words() -> None:
    finding = Finding(
        problem="duplicated",
        datacenter="jfk",
        topic="flights",
        partition=3,
        offset=12,
        aggregate_offset=15,
    )
    assert str(finding) == "duplicated: jfk flights-3 offset 12 (aggregate 15)"
