"""The queue checker notices every planted anomaly, and nothing in a good history."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.nemesis.checkers.queue import Polled, Sent, check_queue
from tests.nemesis.checkers.set_full import Outcome

VALUES = ("a", "b", "c", "d")
SENT = [Sent("p", value, 0, Outcome.ACKNOWLEDGED, n) for n, value in enumerate(VALUES)]
LAST = [Polled("last", 0, n, value, 0) for n, value in enumerate(VALUES)]


def polls(consumer: str, offsets: Sequence[int], life: int = 0) -> list[Polled]:
    return [Polled(consumer, 0, n, VALUES[n], life) for n in offsets]


def test_a_good_history_is_good() -> None:
    refused = Sent("p", "x", 0, Outcome.REFUSED)
    unknown = Sent("p", "y", 0, Outcome.UNKNOWN)
    group = [*polls("m", [0, 1]), *polls("n", [1, 2, 3])]
    seeks = [*polls("s", [2, 3], life=1), *polls("s", [0, 1], life=2)]
    polled = [*LAST, *group, *seeks]
    assert not check_queue([*SENT, refused, unknown], polled, [["m", "n"]]).anomalies


def test_gaps_between_offsets_are_allowed() -> None:
    sent = [Sent("p", "a", 0, Outcome.ACKNOWLEDGED, 0), Sent("p", "b", 0, Outcome.ACKNOWLEDGED, 5)]
    polled = [Polled("last", 0, 0, "a", 0), Polled("last", 0, 5, "b", 0)]
    assert not check_queue(sent, polled).anomalies


@pytest.mark.parametrize(
    ("kind", "sent", "polled"),
    [
        ("inconsistent-offset", [], [Polled("m", 0, 1, "c", 0)]),
        ("duplicate", [], [Polled("m", 1, 0, "a", 0)]),
        ("aborted-read", [Sent("q", "x", 0, Outcome.REFUSED)], [Polled("m", 0, 9, "x", 0)]),
        ("invented", [], [Polled("m", 0, 9, "x", 0)]),
        ("lost-write", [Sent("q", "x", 0, Outcome.ACKNOWLEDGED, 9)], []),
        ("nonmonotonic-poll", [], polls("m", [0, 1, 1])),
        ("poll-skip", [], polls("m", [0, 2])),
        ("nonmonotonic-send", [Sent("p", "d", 0, Outcome.ACKNOWLEDGED, 3)], []),
    ],
)
def test_a_planted_anomaly_is_noticed(
    kind: str, sent: Sequence[Sent], polled: Sequence[Polled]
) -> None:
    assert kind in check_queue([*SENT, *sent], [*LAST, *polled]).anomalies


def test_a_group_has_to_see_everything() -> None:
    polled = [*LAST, *polls("m", [0, 1]), *polls("n", [3])]
    assert set(check_queue(SENT, polled, [["m", "n"]]).anomalies) == {"group-skip"}


@pytest.mark.parametrize("offsets", [[0, 1], []])
def test_a_group_that_does_not_come_to_the_end_is_stuck(offsets: Sequence[int]) -> None:
    findings = check_queue(SENT, [*LAST, *polls("m", offsets)], [["m", "n"]])
    assert findings.anomalies == {"group-stuck": len(SENT) - len(offsets)}
    assert findings.checked["group-polled"] == len(offsets)


def test_a_group_that_gets_nothing_of_one_partition_is_stuck() -> None:
    sent = [*SENT, Sent("p", "e", 1, Outcome.ACKNOWLEDGED, 0)]
    polled = [*LAST, Polled("last", 1, 0, "e", 0), *polls("m", [0, 1, 2, 3])]
    assert set(check_queue(sent, polled, [["m"]]).anomalies) == {"group-stuck"}


def test_a_group_need_not_see_what_came_without_an_answer() -> None:
    """It may have come after the group was asked for the last time."""
    sent = [*SENT, Sent("p", "e", 0, Outcome.UNKNOWN)]
    polled = [*LAST, Polled("last", 0, 4, "e", 0), *polls("m", [0, 1, 2, 3])]
    assert not check_queue(sent, polled, [["m"]]).anomalies


def test_a_copy_that_the_client_made_is_no_duplicate() -> None:
    sent = [*SENT[:3], Sent("p", "d", 0, Outcome.ACKNOWLEDGED, 4)]
    polled = [*LAST, Polled("last", 0, 4, "d", 0)]
    assert set(check_queue(sent, polled).anomalies) == {"duplicate"}
    assert not check_queue(sent, polled, superseded={(0, 3)}).anomalies


def test_a_copy_is_a_duplicate_of_what_was_acknowledged() -> None:
    polled = [*LAST, Polled("last", 0, 4, "d", 0)]
    assert set(check_queue(SENT, polled, superseded={(0, 3)}).anomalies) == {"duplicate"}


def test_a_third_copy_is_a_duplicate() -> None:
    sent = [*SENT[:3], Sent("p", "d", 0, Outcome.ACKNOWLEDGED, 5)]
    polled = [*LAST, Polled("last", 0, 4, "d", 0), Polled("last", 0, 5, "d", 0)]
    assert set(check_queue(sent, polled, superseded={(0, 3)}).anomalies) == {"duplicate"}
