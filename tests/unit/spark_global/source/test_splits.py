"""Splits cover every range exactly once, and small ranges share them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_global.addresses import ClusterAddress
from spark_global.source.provenance import UNKNOWN_OFFSET, FormerCopies, MapRuns
from spark_global.source.splits import (
    TASK_RECORDS_MIN,
    Origin,
    PartitionRange,
    Takes,
    by_source_topic,
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


@given(
    st.lists(st.integers(0, 20), max_size=4),
    st.integers(0, 20),
    st.integers(1, 20),
    st.sampled_from([Takes.ALL, Takes.MAPPED]),
)
def test_copies_of_topics_before_are_read_with_their_own_map(
    ends: list[int], start: int, count: int, takes: Takes
) -> None:
    """Each of them has all offsets of the aggregate from the end of the one before."""
    ends = sorted(ends)
    former = tuple(
        FormerCopies(topic_id=str(place), runs=runs_between(before, end), end=end)
        for place, (before, end) in enumerate(pairwise([0, *ends]))
    )
    last = ends[-1] if ends else 0
    whole = replace(
        wanted(0, start, count, takes=takes),
        runs=runs_between(last, 100),
        topic_id="present",
        former=former,
    )
    parts = list(by_source_topic(whole))
    assert all(not each.former and each.start < each.end for each in parts)
    found = [
        (offset, each.topic_id)
        for each in parts
        for offset in range(each.start, each.end)
        if each.runs is not None
        and (takes is Takes.ALL or each.runs.sources_of(np.array([offset]))[0] != UNKNOWN_OFFSET)
    ]
    topics = [str(place) for place, (a, b) in enumerate(pairwise([0, *ends])) for _ in range(a, b)]
    topics += ["present"] * (100 - last)
    assert sorted(found) == [(offset, topics[offset]) for offset in range(start, start + count)]


def runs_between(start: int, end: int) -> MapRuns:
    return MapRuns.of([(0, start, end - start)] if start < end else (), target_next=end)


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
