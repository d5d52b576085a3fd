"""The checker of a topic under retention notices what is planted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.nemesis.checkers.retention import LogStart, Promise, check_retained
from tests.nemesis.checkers.set_full import Found, Outcome, Write

ACKNOWLEDGED, UNKNOWN = Outcome.ACKNOWLEDGED, Outcome.UNKNOWN
PROMISE = Promise(age_ms=1_000)
WRITES = [
    Write("r", 0, 0, ACKNOWLEDGED, 0, 100),
    Write("r", 1, 0, ACKNOWLEDGED, -1),
    Write("r", 2, 0, ACKNOWLEDGED, 2, 200),
    Write("r", 3, 0, UNKNOWN),
    Write("r", 4, 0, ACKNOWLEDGED, 4, 300),
    Write("r", 5, 0, ACKNOWLEDGED, -1),
    Write("r", 6, 0, ACKNOWLEDGED, 6, 400),
]
KEPT = [Found(4, "r", 4), Found(5, "r", 5), Found(6, "r", 6)]
BROKER, AGAIN, OTHER = (1, 10), (1, 11), (2, 20)
STARTS = [LogStart(0, BROKER, 1_100), LogStart(2, BROKER, 1_101), LogStart(4, BROKER, 2_000)]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (None, KEPT),
        ("lost", KEPT[1:]),
        ("lost", [KEPT[0], KEPT[2]]),
        ("lost", []),
        ("moved", [*KEPT[:2], Found(7, "r", 6)]),
        ("moved", [Found(3, "r", 2), *KEPT]),
        ("duplicate", [*KEPT, Found(7, "r", 6)]),
        ("reordered", [KEPT[0], KEPT[2], KEPT[1]]),
        ("invented", [*KEPT, Found(7, "r", 8)]),
    ],
)
def test_what_is_left(kind: str | None, found: Sequence[Found]) -> None:
    findings = check_retained(WRITES, {0: found}, {0: STARTS}, PROMISE)
    assert set(findings.anomalies) == ({kind} if kind else set())
    assert findings.checked["deleted"] == 2


def test_everything_may_be_deleted() -> None:
    starts = [LogStart(7, BROKER, 9_000)]
    assert not check_retained(WRITES, {0: []}, {0: starts}, PROMISE).anomalies


def test_what_was_young_is_not_deleted() -> None:
    early = [LogStart(4, BROKER, 1_200)]
    found = check_retained(WRITES, {0: KEPT}, {0: early}, PROMISE)
    assert set(found.anomalies) == {"deleted-early"}
    assert not check_retained(WRITES, {0: KEPT}, {0: early}, Promise()).anomalies


@pytest.mark.parametrize(("at_ms", "is_early"), [(350, True), (400, False)])
def test_as_many_stay_as_are_promised(at_ms: int, is_early: bool) -> None:
    """Two that are told, of which one is not there yet at first, and three that may be anywhere."""
    starts = [LogStart(4, BROKER, at_ms), LogStart(4, BROKER, 2_000)]
    found = check_retained(WRITES, {0: KEPT}, {0: starts}, Promise(records=5))
    assert set(found.anomalies) == ({"deleted-early"} if is_early else set())


def test_a_log_start_only_grows() -> None:
    back = [LogStart(4, BROKER, 1_500), LogStart(2, BROKER, 1_600), LogStart(4, BROKER, 1_700)]
    found = check_retained(WRITES, {0: KEPT}, {0: back}, PROMISE)
    assert set(found.anomalies) == {"start-went-back"}
    behind_another = [back[0], LogStart(2, OTHER, 1_600), back[1]]
    found = check_retained(WRITES, {0: KEPT}, {0: [*behind_another, back[2]]}, PROMISE)
    assert set(found.anomalies) == {"start-went-back"}


@pytest.mark.parametrize("process", [AGAIN, OTHER])
def test_another_process_may_not_have_deleted_as_much(process: tuple[int, int]) -> None:
    starts = [LogStart(4, BROKER, 1_500), LogStart(2, process, 1_600), LogStart(4, process, 1_700)]
    found = check_retained(WRITES, {0: KEPT}, {0: starts}, PROMISE)
    assert not found.anomalies
    assert found.allowed == {"start-went-back": 1}
