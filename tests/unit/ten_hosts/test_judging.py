"""The judge of the ten hosts passes a clean history, and notices each kind of fault."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ten_hosts.judging import Log, judge
from tests.ten_hosts.ledger import Ledger, Place

GROUPS = ("boards", "desk")


def a_ledger() -> Ledger:
    """Four records of two partitions; of the last one the outcome is unknown."""
    ledger = Ledger()
    for number in range(4):
        ledger.send(f"ewr-{number}")
    for number in range(3):
        ledger.acknowledge(f"ewr-{number}", Place(number % 2, number // 2))
        for group in GROUPS:
            ledger.consume(group, f"ewr-{number}")
    ledger.give_up("ewr-3")
    return ledger


SOURCE: Log = {0: [(0, "ewr-0"), (1, "ewr-2")], 1: [(0, "ewr-1")]}


def test_a_clean_history_has_no_findings() -> None:
    assert judge("ewr", a_ledger(), SOURCE, SOURCE, GROUPS) == []
    unknown_is_there: Log = {**SOURCE, 1: [(0, "ewr-1"), (1, "ewr-3")]}
    assert judge("ewr", a_ledger(), unknown_is_there, unknown_is_there, GROUPS) == []


def test_a_record_may_be_consumed_twice() -> None:
    ledger = a_ledger()
    ledger.consume("boards", "ewr-0")
    assert judge("ewr", ledger, SOURCE, SOURCE, GROUPS) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ({0: [(0, "ewr-0"), (1, "ewr-2")], 1: []}, "acknowledged and not in the source log: ewr-1"),
        (
            {**SOURCE, 1: [(0, "ewr-1"), (1, "ewr-1")]},
            "more than once in the source log: ewr-1",
        ),
        (
            {**SOURCE, 1: [(0, "ewr-3"), (1, "ewr-3"), (2, "ewr-1")]},
            "more than once in the source log: ewr-3",
        ),
        ({**SOURCE, 1: [(1, "ewr-1")]}, "not at the offset that was acknowledged: ewr-1"),
        ({**SOURCE, 1: [(0, "ewr-1"), (1, "x")]}, "in the source log, and nobody sent it: x"),
    ],
)
def test_a_fault_of_the_source_is_found(source: Log, what: str) -> None:
    found = judge("ewr", a_ledger(), source, source, GROUPS)
    assert any(what in each for each in found), found


@pytest.mark.parametrize(
    ("copy", "what"),
    [
        ({**SOURCE, 1: []}, "of partition 1 not in the aggregate: ewr-1"),
        ({0: SOURCE[0]}, "of partition 1 not in the aggregate: ewr-1"),
        ({**SOURCE, 1: [(0, "ewr-1"), (1, "ewr-1")]}, "in the aggregate once more: ewr-1"),
        ({**SOURCE, 0: [(0, "ewr-2"), (1, "ewr-0")]}, "the copy of partition 0 has another order"),
        ({**SOURCE, 2: [(0, "ewr-9")]}, "of partition 2 in the aggregate once more: ewr-9"),
    ],
)
def test_a_fault_of_the_copy_is_found(copy: Log, what: str) -> None:
    (found,) = judge("ewr", a_ledger(), SOURCE, copy, GROUPS)
    assert what in found


def test_what_a_group_has_not_got_is_found() -> None:
    ledger = a_ledger()
    ledger.consumed["desk"] = Counter({"ewr-0": 1, "ewr-2": 1, "x": 1})
    found = judge("ewr", ledger, SOURCE, SOURCE, GROUPS)
    assert found == [
        "ewr: 1 records not consumed by the group desk: ewr-1",
        "ewr: 1 records consumed by the group desk and not in the source log: x",
    ]
    ledger.consumed.clear()
    assert len(judge("ewr", ledger, SOURCE, SOURCE, GROUPS)) == len(GROUPS)
