"""Buckets are equal exactly when they hold the same multiset of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.buckets import Bucket, add_buckets, differing, summarize

_RECORDS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=20)


def _offsets(records: list[tuple[int, int]], start: int = 0) -> list[tuple[int, int, int]]:
    return [(start + index, when, what) for index, (when, what) in enumerate(records)]


def test_summary_by_hand() -> None:
    records = [(4, 1000, 5), (5, 1999, 6), (6, 2000, 7), (7, 1000, (1 << 64) - 1), (8, -1, 3)]
    assert summarize(records, bucket_ms=1000) == {
        1000: Bucket(3, 4, 7, 10),
        2000: Bucket(1, 6, 6, 7),
        -1000: Bucket(1, 8, 8, 3),
    }


@given(_RECORDS, st.randoms(use_true_random=False))
def test_order_and_offsets_do_not_count(records: list[tuple[int, int]], random: object) -> None:
    shuffled = sorted(records, key=lambda record: (record[1] * 7919 % 13, record[0]))
    source = summarize(_offsets(records), bucket_ms=10)
    assert differing(source, summarize(_offsets(shuffled, 500), bucket_ms=10)) == []


@given(_RECORDS, _RECORDS)
def test_differing_names_the_buckets_with_other_contents(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    found = differing(
        summarize(_offsets(left), bucket_ms=10), summarize(_offsets(right), bucket_ms=10)
    )
    expected = []
    for start in (0, 10, 20, 30):
        # Fingerprints are hashes; make the small integers of this test as good as hashes.
        sides = [
            sorted(what for when, what in side if when // 10 * 10 == start)
            for side in (left, right)
        ]
        if (len(sides[0]), sum(sides[0])) != (len(sides[1]), sum(sides[1])):
            expected.append(start)
    assert found == expected


@given(_RECORDS, _RECORDS)
def test_parts_add_up(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    whole = summarize(_offsets(left + right), bucket_ms=10)
    first = summarize(_offsets(left), bucket_ms=10)
    second = summarize(_offsets(right, len(left)), bucket_ms=10)
    added = {
        start: add_buckets(first[start], second[start])
        if start in first and start in second
        else first.get(start) or second[start]
        for start in first.keys() | second.keys()
    }
    assert added == whole


def test_doubled_record_does_not_cancel_out() -> None:
    source = summarize([(0, 5, 9)], bucket_ms=10)
    tripled = summarize([(0, 5, 9), (1, 5, 9), (2, 5, 9)], bucket_ms=10)
    assert differing(source, tripled) == [0]


def test_bucket_needs_a_length() -> None:
    with pytest.raises(ValueError, match="bucket of 0 ms"):
        summarize([], bucket_ms=0)
