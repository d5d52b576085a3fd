"""The checker of rights, with clean histories and planted anomalies; who counts as away."""

from __future__ import annotations

import pytest

from tests.nemesis.absences import SETTLE_SECONDS, Absence, Absences
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.rights import Seen, Switch, Turn, check_switches, times_to_hold
from tests.nemesis.links import CLIENT, ZOOKEEPER, Link, isolated

GRANTED = Turn(10.0, 10.1, is_on=True)
REVOKED = Turn(20.0, 20.1, is_on=False)
GRANTED_AGAIN = Turn(30.0, 30.1, is_on=True)
TURNS = [GRANTED, REVOKED, GRANTED_AGAIN]


def seen(after: float, ended: float, *, is_on: bool, node: int = 1, kind: str = "fetch") -> Seen:
    return Seen(kind, node, after, ended, is_on)


def checked(*observed: Seen, away: tuple[Absence, ...] = (), **more: float) -> Findings:
    switch = Switch(list(TURNS), list(observed), **more)
    return check_switches({"alice": switch}, away)


CLEAN = (
    seen(9.0, 9.1, is_on=False),
    seen(10.05, 10.2, is_on=False),
    seen(11.2, 11.3, is_on=True),
    seen(19.9, 20.5, is_on=True),
    seen(20.2, 20.3, is_on=True),
    seen(20.5, 20.6, is_on=False),
    seen(21.2, 21.3, is_on=False),
    seen(31.2, 31.3, is_on=True),
)


def test_a_clean_history() -> None:
    findings = checked(*CLEAN)
    assert not findings.anomalies
    assert findings.checked["accepted"] == 2
    assert findings.checked["refused"] == 1
    assert findings.checked["granted"] == 2
    assert findings.checked["revoked"] == 1


@pytest.mark.parametrize(
    ("late", "anomaly"),
    [
        (seen(21.2, 29.9, is_on=True), "outlived"),
        (seen(11.2, 19.9, is_on=False), "withheld"),
        (seen(35.0, 35.1, is_on=False), "withheld"),
    ],
)
def test_an_anomaly_is_found(late: Seen, anomaly: str) -> None:
    findings = checked(*CLEAN, late)
    assert dict(findings.anomalies) == {anomaly: 1}
    assert "broker 1" in findings.examples[0]


@pytest.mark.parametrize(
    "excused",
    [
        seen(21.0, 21.4, is_on=True),
        seen(19.0, 25.0, is_on=True),
        seen(22.0, 30.05, is_on=True),
    ],
    ids=["within the bound", "may have been decided before", "may have been decided afterwards"],
)
def test_what_may_be_right_is_no_anomaly(excused: Seen) -> None:
    assert not checked(*CLEAN, excused).anomalies


def test_a_kind_without_a_bound_is_only_counted() -> None:
    switch = Switch(TURNS, [seen(22.0, 22.5, is_on=True), seen(12.0, 12.5, is_on=False)])
    findings = check_switches({"alice": switch}, (), unbound=("fetch",))
    assert dict(findings.allowed) == {"outlived: fetch": 1}
    assert dict(findings.anomalies) == {"withheld": 1}
    assert findings.checked["judged: fetch"] == 2


def test_nothing_counts_after_a_change_without_an_answer() -> None:
    late = seen(35.0, 35.1, is_on=False)
    assert checked(late).anomalies
    assert not checked(late, unknown_since=33.0).anomalies
    assert not check_switches({"alice": Switch(unknown_since=1.0)}, ()).anomalies


@pytest.mark.parametrize(
    ("absence", "is_excused"),
    [
        (Absence(1, 15.0, 20.15), True),
        (Absence(1, 21.0, float("inf")), True),
        (Absence(2, 15.0, 25.0), False),
        (Absence(1, 15.0, 20.05), False),
        (Absence(1, 23.0, 25.0), False),
    ],
)
def test_a_broker_that_was_away_is_exempt(absence: Absence, *, is_excused: bool) -> None:
    findings = checked(seen(22.0, 22.5, is_on=True), away=(absence,))
    assert bool(findings.anomalies) != is_excused
    assert findings.checked["away"] == int(is_excused)


def test_how_long_a_revocation_takes() -> None:
    switch = Switch(
        TURNS,
        [
            seen(20.2, 20.3, is_on=True),
            seen(20.25, 20.4, is_on=False),
            seen(20.35, 20.5, is_on=False),
            seen(20.2, 20.22, is_on=False, node=2),
            # It was parked before.
            seen(19.0, 20.45, is_on=False, kind="parked fetch"),
            # It is on again.
            seen(25.0, 30.5, is_on=False, node=3),
        ],
    )
    times = times_to_hold({"alice": switch}, ())
    assert sorted(times["request"]) == [pytest.approx(0.12), pytest.approx(0.3)]
    assert times["parked fetch"] == [pytest.approx(0.35)]
    assert times.keys() == {"request", "parked fetch"}
    away = [Absence(2, 0.0, 50.0)]
    assert times_to_hold({"alice": switch}, away)["request"] == [pytest.approx(0.3)]
    findings = check_switches({"alice": switch}, ())
    assert findings.measured["request"] == (120, 300, 300, 2)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_absences_end_some_time_after_their_last_reason() -> None:
    clock = Clock()
    absences = Absences((1, 2), has_zookeeper=True, clock=clock)
    clock.now = 5.0
    absences.cut_links(isolated("1", ["2", ZOOKEEPER]))
    clock.now = 6.0
    absences.zookeeper_lost(is_away=True)
    clock.now = 8.0
    absences.cut_links([])
    assert absences.all() == [Absence(1, 5.0, float("inf")), Absence(2, 6.0, float("inf"))]
    assert absences.settled_at() == float("inf")
    clock.now = 9.0
    absences.zookeeper_lost(is_away=False)
    ended = 9.0 + SETTLE_SECONDS
    assert absences.all() == [Absence(1, 5.0, ended), Absence(2, 6.0, ended)]
    absences.paused(2, is_away=True)
    clock.now = 12.0
    absences.paused(2, is_away=False)
    assert absences.all()[-1] == Absence(2, 9.0, 12.0 + SETTLE_SECONDS)


@pytest.mark.parametrize(
    ("cut", "with_zookeeper", "without"),
    [
        ([Link("1", CLIENT)], [], []),
        ([Link("1", "2")], [], [1, 2]),
        ([Link(ZOOKEEPER, "2")], [2], [2]),
        ([], [], []),
    ],
)
def test_who_is_away_when_links_are_cut(
    cut: list[Link], with_zookeeper: list[int], without: list[int]
) -> None:
    for has_zookeeper, nodes in ((True, with_zookeeper), (False, without)):
        absences = Absences((1, 2), has_zookeeper=has_zookeeper)
        absences.cut_links(cut)
        assert [each.node for each in absences.all()] == nodes
