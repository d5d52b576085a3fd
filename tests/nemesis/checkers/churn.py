"""Topics that come and go under one name: no incarnation shows another's records. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Outcome


class Incarnation(NamedTuple):
    """One life of a topic name, as its creator knows it."""

    number: int
    topic_id: str
    acknowledged: Sequence[str]
    """Values that were written to this topic id and acknowledged."""
    read: Sequence[str]
    """Values that were read from it before it was deleted."""


class Change(NamedTuple):
    """One thing that an admin did to a topic that stays; only one does."""

    what: str
    """What is changed: "partitions", or a config's name."""
    value: str
    outcome: Outcome


def check_incarnations(name: str, lives: Sequence[Incarnation]) -> Findings:
    """Anomalies: of-another-life, lost, same-id. Values begin with "number:"."""
    findings = Findings()
    ids: dict[str, int] = {}
    for life in lives:
        findings.checked["incarnations"] += 1
        if ids.setdefault(life.topic_id, life.number) != life.number:
            findings.add("same-id", f"{name} {life.number} and {ids[life.topic_id]}")
        for value in life.read:
            if not value.startswith(f"{life.number}:"):
                findings.add("of-another-life", f"{name} {life.number} shows {value}")
        for value in set(life.acknowledged) - set(life.read):
            findings.add("lost", f"{name} {life.number}: {value}")
    return findings


def check_changes(changes: Sequence[Change], in_the_end: Mapping[str, str]) -> Findings:
    """Anomaly: lost-change. After the last acknowledged one, unanswered ones may hold or not."""
    findings = Findings()
    findings.checked["changes"] += len(changes)
    for what in {each.what for each in changes}:
        mine = [each for each in changes if each.what == what]
        answered = [n for n, e in enumerate(mine) if e.outcome is Outcome.ACKNOWLEDGED]
        if not answered:
            continue
        possible = {e.value for e in mine[answered[-1] :] if e.outcome is not Outcome.REFUSED}
        # An unanswered earlier request may have been on its way for long.
        possible |= {e.value for e in mine if e.outcome is Outcome.UNKNOWN}
        if in_the_end.get(what) not in possible:
            found = in_the_end.get(what)
            findings.add("lost-change", f"{what} is {found}, not {mine[answered[-1]].value}")
    return findings
