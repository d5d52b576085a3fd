"""What a batch of a query has read, by the offset map."""

from __future__ import annotations

from dataclasses import replace

from spark_global.addresses import ClusterAddress
from spark_global.kept.origins import read_offsets
from spark_global.kept.said import SourceRange, united
from spark_global.source.provenance import MapRuns
from spark_global.source.splits import Origin, PartitionRange, Takes

RUNS = MapRuns.of([(100, 0, 10), (120, 12, 8)])
"""Copies at [0, 10) and [12, 20); between them are two offsets of no copy."""
WHOLE = PartitionRange(
    cluster=ClusterAddress("h:1"),
    origin=Origin("JFK", "t"),
    aggregate_topic="jfk.t",
    partition=3,
    start=0,
    end=20,
    runs=RUNS,
)


def test_the_source_offsets_are_those_of_the_map_within_the_range() -> None:
    assert list(read_offsets([WHOLE])) == [SourceRange("JFK", "t", 3, 100, 128, 18)]
    pieces = [replace(WHOLE, start=5, end=11), replace(WHOLE, start=11, end=14)]
    found = list(read_offsets(pieces))
    assert found == [
        SourceRange("JFK", "t", 3, 105, 110, 5),
        SourceRange("JFK", "t", 3, 120, 122, 2),
    ]
    assert united(found) == [SourceRange("JFK", "t", 3, 105, 122, 7)]


def test_what_no_map_has_is_left_out() -> None:
    hole = replace(WHOLE, start=10, end=12)
    others = replace(WHOLE, takes=Takes.UNMAPPED, origin=Origin(None, "t"))
    unmapped = replace(WHOLE, runs=MapRuns.of([]))
    assert not list(read_offsets([hole, others, unmapped]))


def test_a_partition_without_a_link_is_its_own_source() -> None:
    own = replace(WHOLE, runs=None, start=7, end=9)
    assert list(read_offsets([own])) == [SourceRange("JFK", "t", 3, 7, 9, 2)]
