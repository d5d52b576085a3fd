"""Committed positions of groups: never lost, never back, never invented. Pure.

One committer per partition commits growing positions, one at a time; anybody reads them. Times are
of one monotonic clock, in seconds.

A commit without an answer may still be in flight, and may arrive after later ones: Kafka's
protocol cannot tell. Reading it is allowed, but not in the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Outcome

NOTHING: Final = -1
"""What is read where nothing was ever committed."""


class Commit(NamedTuple):
    """One attempt to commit a position."""

    position: int
    began: float
    ended: float
    outcome: Outcome


class Reading(NamedTuple):
    """One answer to "what is committed?"."""

    position: int
    began: float
    ended: float
    is_stable: bool = True
    """Whether it was asked for with `require_stable` (KIP-447), as consumers ask."""


def check_offsets(where: str, commits: Sequence[Commit], readings: Sequence[Reading]) -> Findings:
    """Check the readings of one partition's position.

    Anomalies:
    - lost-commit: older than a position that was acknowledged before the reading began;
    - went-back: older than an earlier reading's;
    - stale-reading: either of them, where a stable position was not required;
    - invented: never tried, or tried later.
    """
    findings = Findings()
    findings.checked.update(commits=len(commits), readings=len(readings))
    acknowledged = [each for each in commits if each.outcome is Outcome.ACKNOWLEDGED]
    ended = [each.ended for each in acknowledged]
    began = {each.position: each.began for each in reversed(commits)}
    by_end = sorted(readings, key=lambda each: each.ended)
    ends = [each.ended for each in by_end]
    highest: list[int] = []
    for each in by_end:
        highest.append(max(each.position, highest[-1] if highest else NOTHING))
    unknown = {each.position for each in commits if each.outcome is Outcome.UNKNOWN}
    for reading in readings:
        known = bisect_left(ended, reading.began)
        earlier = bisect_left(ends, reading.began)
        is_lost = known and reading.position < acknowledged[known - 1].position
        is_back = earlier and reading.position < highest[earlier - 1]
        if (is_lost or is_back) and reading.position in unknown:
            findings.allow("late-commit")
        elif (is_lost or is_back) and not reading.is_stable:
            findings.add("stale-reading", f"{where}: {reading}")
        elif is_lost:
            findings.add("lost-commit", f"{where}: {reading} after {acknowledged[known - 1]}")
        elif is_back:
            findings.add("went-back", f"{where}: {reading} after {highest[earlier - 1]}")
        if reading.position != NOTHING:
            tried = began.get(reading.position)
            if tried is None or tried > reading.ended:
                findings.add("invented", f"{where}: {reading}")
    return findings


def check_last(where: str, commits: Sequence[Commit], reading: Reading) -> Findings:
    """Anomaly: not-the-last. `reading` began when the last of `commits` had been acknowledged and
    nothing was on its way any more, so that no other position is possible."""
    findings = Findings()
    findings.checked["last-readings"] += 1
    if commits[-1].outcome is not Outcome.ACKNOWLEDGED or reading.position != commits[-1].position:
        findings.add("not-the-last", f"{where}: {reading} after {commits[-1]}")
    return findings
