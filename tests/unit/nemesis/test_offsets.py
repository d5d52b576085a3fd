"""Positions that are lost, go back or come from nowhere are noticed."""

from __future__ import annotations

import pytest

from tests.nemesis.checkers.offsets import NOTHING, Commit, Reading, check_offsets
from tests.nemesis.checkers.set_full import Outcome

COMMITS = [
    Commit(10, 0.0, 1.0, Outcome.ACKNOWLEDGED),
    Commit(20, 2.0, 3.0, Outcome.UNKNOWN),
    Commit(30, 6.0, 7.0, Outcome.ACKNOWLEDGED),
]


def test_a_good_history_is_good() -> None:
    readings = [
        Reading(NOTHING, 0.1, 0.9),
        Reading(10, 1.1, 1.2),
        Reading(10, 2.5, 4.0),
        Reading(20, 2.1, 5.0),
        Reading(20, 5.5, 6.5),
        Reading(20, 6.1, 9.0),
        Reading(30, 8.0, 8.1),
    ]
    findings = check_offsets("g", COMMITS, readings)
    assert not findings.anomalies
    assert findings.checked == {"commits": 3, "readings": 7}


@pytest.mark.parametrize(
    ("kind", "readings"),
    [
        ("lost-commit", [Reading(NOTHING, 1.1, 1.2)]),
        ("lost-commit", [Reading(10, 7.1, 7.2)]),
        ("went-back", [Reading(20, 2.5, 2.6), Reading(10, 2.7, 2.8)]),
        ("went-back", [Reading(30, 6.1, 6.2), Reading(10, 6.3, 6.4)]),
        ("stale-reading", [Reading(10, 7.1, 7.2, is_stable=False)]),
        ("stale-reading", [Reading(30, 6.1, 6.2), Reading(10, 6.3, 6.4, is_stable=False)]),
        ("invented", [Reading(0, 0.5, 0.6)]),
        ("invented", [Reading(30, 1.5, 1.6)]),
    ],
)
def test_a_planted_anomaly_is_noticed(kind: str, readings: list[Reading]) -> None:
    assert set(check_offsets("g", COMMITS, readings).anomalies) == {kind}


def test_a_commit_without_an_answer_may_arrive_late() -> None:
    findings = check_offsets("g", COMMITS, [Reading(30, 7.1, 7.2), Reading(20, 7.3, 7.4)])
    assert not findings.anomalies
    assert findings.allowed == {"late-commit": 1}
