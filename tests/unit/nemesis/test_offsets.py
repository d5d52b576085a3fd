"""Positions that are lost, go back or come from nowhere are noticed."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest

from tests.nemesis.checkers.offsets import NOTHING, Commit, Reading, check_last, check_offsets
from tests.nemesis.checkers.set_full import Outcome
from tests.nemesis.cluster import Cluster
from tests.nemesis.workloads import offsets
from tests.nemesis.workloads.offsets import Committer, Offsets

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


@pytest.mark.parametrize(("position", "kinds"), [(30, set()), (20, {"not-the-last"})])
def test_in_the_end_only_the_last_position_is_right(position: int, kinds: set[str]) -> None:
    """20 has no answer, and may be read late, but not for ever."""
    findings = check_last("g", COMMITS, Reading(position, 9.0, 9.1))
    assert set(findings.anomalies) == kinds
    assert findings.checked == {"last-readings": 1}


class FakeConsumer:
    """Fails so many commits, and then acknowledges."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def commit(self, offsets: list[Any], asynchronous: bool) -> list[Any]:
        self.failures -= 1
        if self.failures >= 0:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(7))
        return [SimpleNamespace(error=None) for _ in offsets]


def committer(directory: Path) -> Committer:
    workload = Offsets(cast("Cluster", None), directory, 0)
    return Committer(workload, "", "g", random.Random(0))


def test_the_last_position_is_committed_until_it_is_acknowledged(tmp_path: Path) -> None:
    one = committer(tmp_path)
    one.settle(FakeConsumer(failures=2), 31)
    assert [each.position for each in one.commits] == [31, 31, 31]
    assert one.commits[-1].outcome is Outcome.ACKNOWLEDGED


def test_a_last_position_that_is_never_acknowledged_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "SETTLE_SECONDS_MAX", 0.1)
    with pytest.raises(RuntimeError, match="31 of g is not acknowledged"):
        committer(tmp_path).settle(FakeConsumer(failures=1_000_000), 31)
