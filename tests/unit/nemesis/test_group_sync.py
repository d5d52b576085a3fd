"""The checker of a group that a mirror syncs notices what is planted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.nemesis.checkers.group_sync import Copied, Seen, check_synced, translated
from tests.nemesis.checkers.offsets import Commit
from tests.nemesis.checkers.set_full import Outcome

# Offsets 3 and 4 of the source are an abort and its marker; the copy began at 10.
COPIED = [Copied(0, 10), Copied(1, 11), Copied(2, 12), Copied(5, 13), Copied(6, 14)]
COMMITS = [
    Commit(2, 1.0, 1.1, Outcome.ACKNOWLEDGED),
    Commit(6, 2.0, 9.0, Outcome.UNKNOWN),
    Commit(7, 10.0, 10.1, Outcome.ACKNOWLEDGED),
]


def test_positions_are_right_behind_the_last_copy() -> None:
    wanted = {0: 10, 1: 11, 3: 13, 4: 13, 5: 13, 6: 14, 7: 15}
    assert {position: translated(COPIED, position) for position in wanted} == wanted


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (None, [Seen(12, 1.5), Seen(14, 2.5), Seen(15, 11.0)]),
        (None, [Seen(12, 1.0), Seen(12, 9.0), Seen(15, 11.0)]),
        ("went-back", [Seen(12, 1.5), Seen(14, 2.5), Seen(12, 3.0), Seen(15, 11.0)]),
        ("ahead", [Seen(13, 1.5), Seen(15, 11.0)]),
        ("ahead", [Seen(12, 0.5), Seen(15, 11.0)]),
        ("ahead", [Seen(15, 9.5), Seen(15, 11.0)]),
        ("not-there", [Seen(12, 1.5), Seen(14, 11.0)]),
        ("not-there", []),
    ],
)
def test_synced_positions(kind: str | None, seen: Sequence[Seen]) -> None:
    findings = check_synced("g", COMMITS, seen, COPIED)
    assert set(findings.anomalies) == ({kind} if kind else set())
    assert not findings.allowed


def test_a_copy_that_was_not_so_far_yet_is_allowed() -> None:
    clamped = [Seen(11, 1.5), Seen(13, 2.5), Seen(15, 11.0)]
    findings = check_synced("g", COMMITS, clamped, COPIED)
    assert not findings.anomalies
    assert findings.allowed == {"clamped": 2}
