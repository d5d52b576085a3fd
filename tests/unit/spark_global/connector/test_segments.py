"""The segments of a range give each offset the origin that the reader gives it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_global.addresses import ClusterAddress
from spark_global.connector.segments import BITS_MAX, segment_table
from spark_global.source.provenance import UNKNOWN_OFFSET, MapRuns
from spark_global.source.splits import Origin, PartitionRange, Takes

OFFSETS = 200


def range_of(runs: MapRuns | None, start: int, end: int, takes: Takes) -> PartitionRange:
    return PartitionRange(
        cluster=ClusterAddress("h:1"),
        origin=Origin("dc", "t"),
        aggregate_topic="dc.t",
        partition=3,
        start=start,
        end=end,
        runs=runs,
        takes=takes,
    )


def joined(*ranges: PartitionRange) -> dict[tuple[int, str | None], int | None]:
    """Join each offset as Spark does; return the source offset by offset and datacenter."""
    table, bits = segment_table(ranges)
    found: dict[tuple[int, str | None], int | None] = {}
    for row in table.to_pylist():
        assert (row["segment_topic"], row["segment_partition"]) == ("dc.t", 3)
        for offset in range(OFFSETS):
            is_in = row["segment_first"] <= offset < row["segment_end"]
            if is_in and offset >> bits == row["bucket"]:
                at = (offset, row["datacenter"])
                assert at not in found, "an offset has one origin per range"
                found[at] = None if row["shift"] is None else offset + row["shift"]
    return found


@st.composite
def maps(draw: st.DrawFn) -> MapRuns:
    runs: list[tuple[int, int, int]] = []
    source, target = 1_000, 0
    for _ in range(draw(st.integers(0, 8))):
        source += draw(st.integers(0, 9))
        target += draw(st.integers(0, 9))
        count = draw(st.integers(1, 15))
        runs.append((source, target, count))
        source, target = source + count, target + count
    return MapRuns.of(runs)


@given(maps(), st.integers(0, OFFSETS - 1), st.integers(1, OFFSETS), st.sampled_from(Takes))
def test_each_offset_has_the_origin_of_the_map(
    runs: MapRuns, start: int, length: int, takes: Takes
) -> None:
    end = min(start + length, OFFSETS)
    has_segments = takes in (Takes.ALL, Takes.UNMAPPED)
    found = joined(range_of(runs, start, end, takes)) if has_segments else None
    sources = runs.sources_of(np.arange(OFFSETS))
    expected = {
        (offset, "dc"): None if sources[offset] == UNKNOWN_OFFSET else int(sources[offset])
        for offset in range(start, end)
        if takes is not Takes.WRITTEN  # the connector cannot tell them
        if takes is Takes.ALL or (sources[offset] != UNKNOWN_OFFSET) == (takes is Takes.MAPPED)
    }
    if found is None:  # a table needs a segment, and a map may have none
        plain = range_of(None, 0, 1, Takes.ALL)
        other = replace(plain, origin=Origin("plain", "t"))
        found = joined(range_of(runs, start, end, takes), other)
        assert found.pop((0, "plain")) == 0
    assert found == expected


def test_a_topic_of_its_own_has_its_own_offsets_in_one_bucket() -> None:
    plain = range_of(None, 5, 1_000_000_000, Takes.ALL)
    table, bits = segment_table([plain])
    assert (table.num_rows, bits) == (1, BITS_MAX)
    assert joined(range_of(None, 5, 8, Takes.ALL)) == {(n, "dc"): n for n in (5, 6, 7)}


def test_an_offset_that_is_known_has_the_id_of_its_topic() -> None:
    part = replace(range_of(MapRuns.of([(0, 2, 3)]), 0, 9, Takes.ALL), topic_id="i")
    table, _ = segment_table([part])
    assert {(row["segment_first"], row["topic_id"]) for row in table.to_pylist()} == {
        *((0, None), (2, "i")),
        (5, None),
    }


def test_the_table_has_at_most_four_rows_per_segment() -> None:
    runs = MapRuns.of((i * 20, i * 10, 9) for i in range(1_000))
    long = replace(range_of(None, 0, 1_000_000, Takes.ALL), partition=4)
    table, _ = segment_table([range_of(runs, 0, 10_000, Takes.ALL), long])
    assert table.num_rows <= 4 * 2_001
