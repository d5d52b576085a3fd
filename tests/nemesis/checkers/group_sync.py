"""A group's positions at a mirror's target: never beyond what it committed at the source. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tests.nemesis.checkers.copies import check_positions
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.offsets import Commit


class Copied(NamedTuple):
    """One record on both sides, in order."""

    source_offset: int
    target_offset: int


class Seen(NamedTuple):
    """One position that was read at the target, answered at `ended` (of the commits' clock)."""

    position: int
    ended: float


def translated(copied: Sequence[Copied], source_position: int) -> int:
    """Right behind the copy of the last record before `source_position`; `copied` is not empty."""
    before = bisect_left(copied, (source_position,))
    return copied[before - 1].target_offset + 1 if before else copied[0].target_offset


def check_synced(
    where: str, commits: Sequence[Commit], seen: Sequence[Seen], copied: Sequence[Copied]
) -> Findings:
    """Check one partition. The greatest position tried is acknowledged before the last look.

    Anomalies:
    - went-back;
    - ahead: a group that continues at the target skips records that it has not read;
    - not-there: the last position seen is not the translation of the last commit.

    Allowed: clamped, a position between two translations: as far as the copy was then.
    """
    findings = check_positions(where, [each.position for each in seen])
    findings.checked["commits"] += len(commits)
    if not copied:
        return findings
    places = {translated(copied, each.position) for each in commits}
    for each in seen:
        tried = [c.position for c in commits if c.began <= each.ended]
        if not tried or each.position > translated(copied, max(tried)):
            findings.add("ahead", f"{where}: {each}, tried was {max(tried, default=None)}")
        elif each.position not in places:
            findings.allow("clamped")
    if commits:
        last = max(each.position for each in commits)
        found = seen[-1].position if seen else None
        if found != translated(copied, last):
            findings.add(
                "not-there", f"{where}: {found}, not {translated(copied, last)} for {last}"
            )
    return findings
