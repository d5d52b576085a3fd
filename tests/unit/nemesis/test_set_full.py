"""The set checker notices every planted anomaly, and nothing in a good history."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.nemesis.checkers.set_full import Found, Outcome, Write, check_set

GOOD = [Write("p", n, 0, Outcome.ACKNOWLEDGED, 10 + n) for n in range(3)]
READ = [Found(10 + n, "p", n) for n in range(3)]


def test_a_good_history_is_good() -> None:
    unknown = Write("p", 3, 0, Outcome.UNKNOWN)
    refused = Write("q", 0, 0, Outcome.REFUSED)
    findings = check_set([*GOOD, unknown, refused], {0: [*READ, Found(13, "p", 3)], 1: []})
    assert not findings.anomalies
    assert findings.checked == {"read": 4, "acknowledged": 3, "unknown": 1, "refused": 1}


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("lost", READ[:2]),
        ("duplicate", [*READ, Found(13, "p", 2)]),
        ("invented", [*READ, Found(13, "p", 7)]),
        ("refused-read", [*READ, Found(13, "q", 0)]),
        ("reordered", [READ[1], READ[0], READ[2]]),
        ("moved", [*READ[:2], Found(13, "p", 2)]),
    ],
)
def test_a_planted_anomaly_is_noticed(kind: str, read: Sequence[Found]) -> None:
    findings = check_set([*GOOD, Write("q", 0, 0, Outcome.REFUSED)], {0: read})
    assert set(findings.anomalies) == {kind}
    assert findings.examples[0].startswith(f"{kind}: ")


def test_an_unknown_write_may_be_absent() -> None:
    assert not check_set([*GOOD, Write("p", 3, 0, Outcome.UNKNOWN)], {0: READ}).anomalies
