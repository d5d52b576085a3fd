"""Reconciliation finds every injected fault with its offset, and no other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.audit import alignment
from aggregator.audit.alignment import align
from aggregator.audit.reconciliation import (
    AuditReport,
    PartitionKey,
    ReconciledPartition,
    reconcile,
)

_KEY = PartitionKey("jfk", "flights", 2)


def _log(text: str, start: int = 0) -> list[tuple[int, int]]:
    return [(start + index, ord(letter)) for index, letter in enumerate(text)]


def _audit(source: str, aggregate: str, mirrored_end: int | None = None) -> ReconciledPartition:
    return reconcile(
        _KEY, "jfk.flights", _log(source), _log(aggregate, 100), mirrored_end=mirrored_end
    )


@pytest.mark.parametrize(
    ("source", "aggregate", "lost", "duplicated", "foreign", "reordered"),
    [
        ("", "", [], [], [], []),
        ("abcd", "abcd", [], [], [], []),
        ("abcd", "abd", [2], [], [], []),
        ("abcd", "", [0, 1, 2, 3], [], [], []),
        ("abcd", "abbcd", [], [102], [], []),
        ("abcd", "abcbcd", [], [103, 104], [], []),
        ("abcd", "abxcd", [], [], [102], []),
        ("", "xy", [], [], [100, 101], []),
        ("abcd", "abdc", [], [], [], [103]),
        ("abcd", "bcda", [], [], [], [103]),
        ("abc", "bcaa", [], [103], [], [102]),
        # Equal records are no duplicates, and the missing one of them is the first.
        ("xyxz", "yxz", [0], [], [], []),
        ("xxxx", "xxx", [3], [], [], []),
        ("xyxz", "xyxz", [], [], [], []),
        # Of two copies the second is the surplus, with other faults before it as well.
        ("abcdefgh", "acdefdefgh", [1], [105, 106, 107], [], []),
        # Several faults at once.
        ("abcdefgh", "abdeefqhg", [2], [104], [106], [108]),
    ],
)
def test_faults_are_named(
    source: str,
    aggregate: str,
    lost: list[int],
    duplicated: list[int],
    foreign: list[int],
    reordered: list[int],
) -> None:
    found = _audit(source, aggregate)
    assert list(found.lost) == lost
    assert list(found.duplicated) == duplicated
    assert list(found.foreign) == foreign
    assert list(found.reordered) == reordered
    assert found.order_is_exact
    assert found.is_faultless is not bool(lost or duplicated or foreign or reordered)


def test_past_the_mirrored_end_is_pending_not_lost() -> None:
    found = _audit("abcdef", "acd", mirrored_end=4)
    assert found.lost == (1,)
    assert found.pending == (4, 5)
    assert not found.is_faultless
    assert _audit("abcdef", "abcd", mirrored_end=4).is_faultless
    assert _audit("abc", "", mirrored_end=0).pending == (0, 1, 2)


@given(
    st.lists(st.integers(0, 5), max_size=30),
    st.lists(
        st.tuples(st.sampled_from(["drop", "double", "insert", "swap"]), st.integers(0, 99))
    ).filter(lambda edits: len(edits) <= 4),
)
def test_counts_are_those_of_the_multisets(source: list[int], edits: list[tuple[str, int]]) -> None:
    aggregate = list(source)
    for kind, where in edits:
        place = where % (len(aggregate) + 1)
        if kind == "drop":
            del aggregate[place : place + 1]
        elif kind == "double" and place < len(aggregate):
            aggregate.insert(place, aggregate[place])
        elif kind == "insert":
            aggregate.insert(place, 1000 + where)
        elif kind == "swap" and place + 1 < len(aggregate):
            aggregate[place : place + 2] = aggregate[place : place + 2][::-1]
    found = reconcile(_KEY, "t", list(enumerate(source)), list(enumerate(aggregate)))
    values = set(source) | set(aggregate)
    surplus = {value: source.count(value) - aggregate.count(value) for value in values}
    assert len(found.lost) == sum(count for count in surplus.values() if count > 0)
    assert sorted(source[offset] for offset in found.lost) == sorted(
        value for value, count in surplus.items() for _ in range(count)
    )
    assert len(found.foreign) == sum(value >= 1000 for value in aggregate)
    assert len(found.duplicated) == sum(
        -count for value, count in surplus.items() if count < 0 and value < 1000
    )
    # Each edit takes at most one record out of the longest common subsequence.
    assert len(found.reordered) <= len(edits)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_alignment_is_a_longest_common_subsequence(left: list[int], right: list[int]) -> None:
    pairs, is_longest = align(left, right)
    assert is_longest
    assert all(left[i] == right[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs))
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, value in enumerate(left):
        for j, other in enumerate(right):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if value == other else max(table[i][j + 1], table[i + 1][j])
            )
    assert len(pairs) == table[-1][-1]


def test_many_identical_records_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "PAIRS_PER_FINGERPRINT_MAX", 4)
    source = [7, 0, 0, 0, 0, 0, 8]
    aggregate = [0, 0, 0, 0, 9, 0]
    pairs, is_longest = align(source, aggregate)
    assert not is_longest
    assert len(pairs) == 5
    found = reconcile(_KEY, "t", list(enumerate(source)), list(enumerate(aggregate)))
    assert found.lost == (0, 6)
    assert found.foreign == (4,)
    assert found.reordered == ()


def test_out_of_order_offsets_are_refused() -> None:
    with pytest.raises(ValueError, match="offset 3 follows 3"):
        reconcile(_KEY, "t", [(3, 1), (3, 2)], [])


def test_report_line_and_sentences() -> None:
    clean = AuditReport((_audit("abc", "abc"),))
    assert clean.line() == "audit: 3 produced, 3 mirrored, 0 lost, 0 duplicated"
    assert clean.is_faultless
    assert clean.faults() == []

    bad = AuditReport((_audit("abcdefg", "aceexd"), _audit("ab", "a", mirrored_end=1)))
    assert bad.line() == (
        "audit: 9 produced, 5 mirrored, 3 lost, 1 duplicated, 1 pending, 1 foreign, 1 reordered"
    )
    assert not bad.is_faultless
    assert bad.faults() == [
        "jfk: flights-2: 3 lost, source offsets 1, 5-6",
        "jfk: flights-2: 1 duplicated, aggregate offset 103 of jfk.flights-2",
        "jfk: flights-2: 1 foreign, aggregate offset 104 of jfk.flights-2",
        "jfk: flights-2: 1 reordered, aggregate offset 105 of jfk.flights-2",
    ]


def test_long_lists_of_offsets_are_cut_in_words_only() -> None:
    source = "".join(chr(0x100 + index) for index in range(60))
    found = _audit(source, source[::2])
    assert len(found.lost) == 30
    (sentence,) = found.faults()
    assert sentence.endswith("17, 19, ... (20 more ranges)")
