"""What an admin was told to hold holds within the bound, on every broker with a live session. Pure.

A switch is a right of a user, or one password of a user. An admin turns it on and off, and clients
see brokers accept or refuse by it. Times are in monotonic seconds of one process. The checker
believes an observation only where no order of events could excuse it.

- a turn holds from its acknowledgement and the bound on, until the next change is asked for;
- an observation counts if the broker decided after the first time, and before the second;
- nothing counts after a change without an answer, which may happen at any time;
- a broker that was away between the acknowledgement and its answer is exempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.nemesis.absences import Absence
from tests.nemesis.checkers.findings import Findings, measured

BOUND_SECONDS: Final = 1.0
"""Within this an acknowledged change holds (docs/guarantees/acls.md)."""
GROUPS: Final = {"metadata": "request", "produce": "request", "fetch": "request"}
"""Kinds of observations that are measured together; each other kind is a group of its own."""
NEVER: Final = float("inf")


class Turn(NamedTuple):
    """A change that was acknowledged."""

    began: float
    acknowledged: float
    is_on: bool


class Seen(NamedTuple):
    """What a broker let a client do, or refused."""

    kind: str
    node: int
    after: float
    """The broker decided later than this: the request began, or a record in the answer did."""
    ended: float
    """The answer was here."""
    is_on: bool


@dataclass
class Switch:
    """The history of one switch."""

    turns: list[Turn] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    unknown_since: float = NEVER
    """When a change began whose outcome nobody knows."""

    def spans(self) -> Iterator[tuple[Turn, float]]:
        """Yield each turn, and when another change was asked for."""
        for index, turn in enumerate(self.turns):
            is_last = index + 1 == len(self.turns)
            yield turn, self.unknown_since if is_last else self.turns[index + 1].began


def check_switches(
    switches: Mapping[str, Switch],
    absences: Sequence[Absence],
    *,
    bound_seconds: float = BOUND_SECONDS,
    unbound: Collection[str] = (),
) -> Findings:
    """Anomalies: outlived, withheld. Measures how long revocations took to hold.

    For `unbound` kinds the system promises no bound: what outlives a revocation is only counted.
    """
    findings = Findings()
    for name, switch in switches.items():
        for turn, until in switch.spans():
            findings.checked["granted" if turn.is_on else "revoked"] += 1
            for seen in _within(switch, turn, until):
                if _is_away(absences, seen.node, turn.acknowledged, seen.ended):
                    findings.checked["away"] += 1
                elif seen.after >= turn.acknowledged + bound_seconds:
                    _judge(findings, name, turn, seen, is_bound=seen.kind not in unbound)
    for group, seconds in times_to_hold(switches, absences).items():
        findings.checked[f"held: {group}"] += len(seconds)
        findings.measured[group] = measured(seconds)
    return findings


def times_to_hold(
    switches: Mapping[str, Switch], absences: Sequence[Absence]
) -> dict[str, list[float]]:
    """Return by group how long each revocation took at most, per kind and broker, in seconds.

    It ends with the first refusal that no acceptance follows. So a pause between two requests of
    the client is part of it.
    """
    found: dict[str, list[float]] = {}
    for switch in switches.values():
        for turn, until in switch.spans():
            if turn.is_on:
                continue
            of_broker: dict[tuple[str, int], list[Seen]] = {}
            for seen in switch.seen:
                # A parked fetch began while it was on.
                if turn.began <= seen.ended <= until:
                    of_broker.setdefault((seen.kind, seen.node), []).append(seen)
            for (kind, node), all_seen in of_broker.items():
                held_at = _held_at(turn, all_seen)
                if held_at is not None and not _is_away(absences, node, turn.began, held_at):
                    took = max(0.0, held_at - turn.acknowledged)
                    found.setdefault(GROUPS.get(kind, kind), []).append(took)
    return found


def _held_at(turn: Turn, seen: Sequence[Seen]) -> float | None:
    """Return when one broker first refused, and accepted no more; None if it never did."""
    accepted = max(
        (each.after for each in seen if each.is_on and each.after >= turn.acknowledged),
        default=-NEVER,
    )
    refused = [e.ended for e in seen if not e.is_on and (accepted == -NEVER or e.after > accepted)]
    return min(refused, default=None)


def _judge(findings: Findings, name: str, turn: Turn, seen: Seen, *, is_bound: bool) -> None:
    findings.checked["accepted" if seen.is_on else "refused"] += 1
    findings.checked[f"judged: {seen.kind}"] += 1
    if seen.is_on == turn.is_on:
        return
    if not is_bound and not turn.is_on:
        findings.allow(f"outlived: {seen.kind}")
        return
    late = seen.after - turn.acknowledged
    what = "withheld" if turn.is_on else "outlived"
    done = "refused" if turn.is_on else "accepted"
    findings.add(
        what, f"broker {seen.node} {done} {seen.kind} of {name} {late:.2f} s after the change"
    )


def _within(switch: Switch, turn: Turn, until: float) -> Iterator[Seen]:
    """Yield what was decided after the change was asked for, and before the next one was."""
    for seen in switch.seen:
        if seen.after >= turn.began and seen.ended <= until:
            yield seen


def _is_away(absences: Sequence[Absence], node: int, began: float, ended: float) -> bool:
    return any(
        each.node == node and each.began <= ended and began <= each.ended for each in absences
    )
