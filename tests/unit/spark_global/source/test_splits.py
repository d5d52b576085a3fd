"""Splits cover every range exactly once, and small ranges share them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_global.addresses import ClusterAddress
from spark_global.source.provenance import MapRuns
from spark_global.source.splits import (
    TASK_RECORDS_MIN,
    Origin,
    PartitionRange,
    Takes,
    split_ranges,
)


def wanted(
    partition: int, start: int, count: int, *, datacenter: str = "JFK", takes: Takes = Takes.ALL
) -> PartitionRange:
    return PartitionRange(
        cluster=ClusterAddress("nowhere:1"),
        origin=Origin(datacenter, "a"),
        aggregate_topic=f"{datacenter}.a",
        partition=partition,
        start=start,
        end=start + count,
        runs=MapRuns.of([(start + 7, start, count)]) if takes is not Takes.ALL else None,
        takes=takes,
    )


@st.composite
def ranges(draw: st.DrawFn) -> list[PartitionRange]:
    numbers = draw(st.lists(st.integers(0, 100), unique=True, max_size=30))
    return [
        wanted(
            number,
            draw(st.integers(0, 1_000)),
            draw(st.integers(1, 20_000)),
            datacenter=draw(st.sampled_from(["JFK", "LGA"])),
            takes=takes,
        )
        for number in numbers
        for takes in draw(st.sampled_from([[Takes.ALL], [Takes.MAPPED, Takes.UNMAPPED]]))
    ]


def key_of(one: PartitionRange) -> tuple[Origin, int, Takes]:
    return one.origin, one.partition, one.takes


@given(ranges(), st.integers(500, 50_000), st.integers(1, 64))
def test_splits_cover_every_range_once_and_in_order(
    given_ranges: list[PartitionRange], records_max: int, tasks: int
) -> None:
    splits = list(split_ranges(given_ranges, records_max, tasks))
    pieces = [piece for split in splits for piece in split.ranges]
    count_of_key = Counter(map(key_of, given_ranges))
    for one in given_ranges:
        own = [piece for piece in pieces if key_of(piece) == key_of(one)]
        if count_of_key[key_of(one)] > 1:
            continue
        assert (own[0].start, own[-1].end) == (one.start, one.end)
        assert all(a.end == b.start for a, b in pairwise(own))
    covered = sum(piece.end - piece.start for piece in pieces)
    assert covered == sum(one.end - one.start for one in given_ranges)
    for split in splits:
        assert split.ranges
        assert sum(piece.end - piece.start for piece in split.ranges) <= records_max


@given(ranges(), st.integers(1, 64))
def test_a_piece_keeps_its_map(given_ranges: list[PartitionRange], tasks: int) -> None:
    for split in split_ranges(given_ranges, 777, tasks):
        for piece in split.ranges:
            if piece.runs is not None:
                assert piece.runs.targets_of(piece.runs.sources).tolist() == (
                    piece.runs.targets.tolist()
                )
                assert int(piece.runs.targets[0]) <= piece.start
                assert int(piece.runs.targets[-1] + piece.runs.counts[-1]) >= piece.end


def test_a_thousand_small_partitions_need_few_tasks_and_large_ones_are_split() -> None:
    small = [wanted(partition, 0, 1_000) for partition in range(1_000)]
    assert len(list(split_ranges(small, 500_000, 8))) == 20
    assert len(list(split_ranges(small, 500_000, 100))) == 100
    tiny = [wanted(partition, 0, 1) for partition in range(TASK_RECORDS_MIN)]
    assert len(list(split_ranges(tiny, 500_000, 8))) == 1
    large = [wanted(partition, 0, 1_000_000) for partition in range(2)]
    assert len(list(split_ranges(large, 500_000, 8))) == 4
