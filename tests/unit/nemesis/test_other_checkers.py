"""Other checkers: each notices what is planted into its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.nemesis.checkers.churn import Change, Incarnation, check_changes, check_incarnations
from tests.nemesis.checkers.compaction import Kept, Update, check_compacted
from tests.nemesis.checkers.copies import check_copy, check_positions
from tests.nemesis.checkers.list_offsets import (
    Stamped,
    check_epochs,
    check_repeatable,
    check_timestamps,
)
from tests.nemesis.checkers.ownership import check_ownership, owned
from tests.nemesis.checkers.set_full import Outcome

ACKNOWLEDGED, UNKNOWN, REFUSED = Outcome.ACKNOWLEDGED, Outcome.UNKNOWN, Outcome.REFUSED
ORIGINAL = {0: ["a", "b", "c"], 1: ["d"]}


@pytest.mark.parametrize(
    ("kind", "copy"),
    [
        (None, ORIGINAL),
        ("missing", {0: ["a", "c"], 1: ["d"]}),
        ("missing", {0: ["a", "b", "c"]}),
        ("duplicate", {0: ["a", "b", "b", "c"], 1: ["d"]}),
        ("invented", {0: ["a", "b", "c"], 1: ["d", "x"]}),
        ("reordered", {0: ["b", "a", "c"], 1: ["d"]}),
    ],
)
def test_copies(kind: str | None, copy: Mapping[int, Sequence[str]]) -> None:
    assert set(check_copy("t", ORIGINAL, copy).anomalies) == ({kind} if kind else set())


def test_positions() -> None:
    assert not check_positions("g", [-1, 3, 3, 7]).anomalies
    assert set(check_positions("g", [3, 7, 0]).anomalies) == {"went-back"}


def test_owners() -> None:
    """Bytes as ConsumerProtocolAssignment version 1 has them, with data of the assignor."""
    first = b"\0\1" + b"\0\0\0\2" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\2"
    first += b"\0\1u" + b"\0\0\0\1" + b"\0\0\0\0" + b"\0\0\0\1x"
    assert owned(first) == [("t", 0), ("t", 2), ("u", 0)]
    assert owned(b"") == []
    stable = {"a": owned(first), "b": [("t", 1)], "late": []}
    later = {"b": [("t", 0), ("t", 1), ("t", 2)]}
    assert not check_ownership("g", [stable, later]).anomalies
    for twice in ({**stable, "b": [("t", 2)]}, {"a": [("t", 1), ("t", 1)]}):
        assert check_ownership("g", [later, twice]).anomalies == {"owned-twice": 1}


UPDATES = [
    Update("k", "1", ACKNOWLEDGED, 10),
    Update("k", "2", ACKNOWLEDGED, 12),
    Update("k", "3", UNKNOWN),
    Update("gone", "4", ACKNOWLEDGED, 13),
    Update("gone", None, ACKNOWLEDGED, 14),
    Update("maybe", "5", UNKNOWN),
]


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (None, [Kept(12, "k", "2")]),
        (
            None,
            [Kept(10, "k", "1"), Kept(12, "k", "2"), Kept(15, "k", "3"), Kept(14, "gone", None)],
        ),
        (None, [Kept(12, "k", "2"), Kept(9, "maybe", "5")]),
        ("stale", [Kept(10, "k", "1")]),
        ("lost-key", []),
        ("moved", [Kept(11, "k", "2")]),
        ("invented", [Kept(12, "k", "2"), Kept(20, "other", "9")]),
        ("resurrected", [Kept(12, "k", "2"), Kept(13, "gone", "4")]),
    ],
)
def test_compaction(kind: str | None, kept: Sequence[Kept]) -> None:
    assert set(check_compacted(UPDATES, kept).anomalies) == ({kind} if kind else set())


RECORDS = [Stamped(0, 100, 1), Stamped(1, 50, 1), Stamped(3, 300, 4), Stamped(4, 200, 4)]


def test_offsets_by_time() -> None:
    right = {0: 0, 50: 0, 101: 3, 300: 3, 301: -1}
    assert not check_timestamps("t", RECORDS, right).anomalies
    for timestamp_ms in right:
        wrong = {timestamp_ms: 1}
        assert set(check_timestamps("t", RECORDS, wrong).anomalies) == {"wrong-offset"}


def test_ends_of_epochs() -> None:
    assert not check_epochs("t", RECORDS, 5, {1: 3, 4: 5}).anomalies
    assert set(check_epochs("t", RECORDS, 5, {1: 2}).anomalies) == {"wrong-epoch-end"}
    backwards = [*RECORDS, Stamped(5, 1, 2)]
    assert "epoch-went-back" in check_epochs("t", backwards, 6, {}).anomalies


def test_what_was_seen_stays() -> None:
    assert not check_repeatable("t", {0: "a"}, {0: "a", 1: "b"}).anomalies
    assert check_repeatable("t", {0: "a"}, {0: "b"}).anomalies["truncated"] == 1
    assert check_repeatable("t", {2: "c"}, {0: "b"}).anomalies["truncated"] == 1


def test_incarnations() -> None:
    good = [Incarnation(1, "A", ["1:a"], ["1:a", "1:b"]), Incarnation(2, "B", [], ["2:a"])]
    assert not check_incarnations("t", good).anomalies
    for kind, bad in {
        "of-another-life": Incarnation(2, "B", [], ["1:a"]),
        "lost": Incarnation(2, "B", ["2:a"], []),
        "same-id": Incarnation(2, "A", [], []),
    }.items():
        assert set(check_incarnations("t", [good[0], bad]).anomalies) == {kind}


def test_changes() -> None:
    changes = [
        Change("partitions", "2", ACKNOWLEDGED),
        Change("partitions", "3", ACKNOWLEDGED),
        Change("partitions", "4", UNKNOWN),
        Change("retention.ms", "7", REFUSED),
    ]
    assert not check_changes(changes, {"partitions": "3"}).anomalies
    assert not check_changes(changes, {"partitions": "4"}).anomalies
    assert set(check_changes(changes, {"partitions": "2"}).anomalies) == {"lost-change"}
    assert set(check_changes(changes, {}).anomalies) == {"lost-change"}
