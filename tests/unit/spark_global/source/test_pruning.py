"""Bounds exclude exactly the records outside of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_global.addresses import ClusterAddress
from spark_global.source.provenance import MapRuns
from spark_global.source.pruning import Bounds, Interval, cut_range
from spark_global.source.splits import Origin, PartitionRange, split_ranges
from spark_global.source.tables import SOURCE_SIDE

# Source offsets 100..109 lie at 0..9, 200..209 at 20..29; 10..19 were written by others.
RUNS = MapRuns.of([(100, 0, 10), (200, 20, 10)], source_next=300, target_next=30)
WHOLE = PartitionRange(
    cluster=ClusterAddress("h:1"),
    origin=Origin("JFK", "flights"),
    aggregate_topic="jfk.flights",
    partition=2,
    start=0,
    end=40,
    runs=RUNS,
)


def bounds_of(bounds: Bounds) -> tuple[int, int] | None:
    cut = cut_range(WHOLE, bounds)
    return None if cut is None else (cut.start, cut.end)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (Bounds(), (0, 40)),
        (Bounds(datacenters=frozenset({"JFK", "EWR"})), (0, 40)),
        (Bounds(datacenters=frozenset({"EWR"})), None),
        (Bounds(partitions=frozenset({0})), None),
        (Bounds(source_topics=frozenset({"flights", "x"})), (0, 40)),
        (Bounds(source_topics=frozenset({"jfk.flights"})), None),
        (Bounds(aggregate_topics=frozenset({"jfk.flights"})), (0, 40)),
        (Bounds(aggregate_topics=frozenset({"flights"})), None),
        (Bounds(aggregate_offsets=Interval(5, 12)), (5, 12)),
        (Bounds(aggregate_offsets=Interval(40, None)), None),
        (Bounds(offsets=Interval(105, None)), (5, 30)),
        (Bounds(offsets=Interval(None, 105)), (0, 5)),
        (Bounds(offsets=Interval(150, None)), (20, 30)),
        (Bounds(offsets=Interval(205, 207)), (25, 27)),
        (Bounds(offsets=Interval(110, 150)), None),
        (Bounds(offsets=Interval(400, None)), None),
        (Bounds(offsets=Interval(None, 205), aggregate_offsets=Interval(8, None)), (8, 25)),
    ],
)
def test_cut_range(bounds: Bounds, expected: tuple[int, int] | None) -> None:
    assert bounds_of(bounds) == expected


def test_every_source_interval_keeps_exactly_its_records() -> None:
    import numpy as np

    targets = np.arange(0, 40)
    sources = RUNS.sources_of(targets)
    for first in range(95, 215, 3):
        for end in range(first, 215, 7):
            wanted = targets[(sources >= first) & (sources < end)].tolist()
            cut = cut_range(WHOLE, Bounds(offsets=Interval(first, end)))
            kept = [] if cut is None else list(range(cut.start, cut.end))
            mapped = [target for target in kept if sources[target] >= 0]
            assert mapped == wanted


def test_offsets_at_the_source_need_no_map() -> None:
    source = replace(WHOLE, side=SOURCE_SIDE, start=100, end=300)
    cut = cut_range(source, Bounds(offsets=Interval(150, 160), aggregate_offsets=Interval(1, 2)))
    assert cut is not None
    assert (cut.start, cut.end) == (150, 160)
    assert cut.read_topic == "flights"


def test_splits_cover_each_range_once_and_keep_their_part_of_the_map() -> None:
    small = replace(WHOLE, partition=1, start=3, end=4)
    splits = [piece for each in split_ranges([small, WHOLE], 15) for piece in each.ranges]
    assert [(s.partition, s.start, s.end) for s in splits] == [
        (2, 0, 15),
        (2, 15, 30),
        (2, 30, 40),
        (1, 3, 4),
    ]
    assert [len(s.runs) if s.runs is not None else None for s in splits] == [1, 1, 0, 1]
    assert all(s.map_end == 30 for s in splits)
