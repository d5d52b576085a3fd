"""A compacted topic: the latest value of every key stays, where it was written. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Outcome


class Update(NamedTuple):
    """One write to a key, in the order of its producer; value None is a tombstone."""

    key: str
    value: str | None
    outcome: Outcome
    offset: int = -1


class Kept(NamedTuple):
    """One record that was read in the end."""

    offset: int
    key: str
    value: str | None


def check_compacted(updates: Sequence[Update], kept: Iterable[Kept]) -> Findings:
    """Anomalies: moved (not where it was acknowledged), invented, stale (an acknowledged later
    value is gone), resurrected (a key that was deleted last has a value), lost-key.

    Each key has one writer, and every value but None is unique.
    """
    findings = Findings()
    findings.checked["updates"] += len(updates)
    by_key: dict[str, list[Update]] = defaultdict(list)
    for update in updates:
        by_key[update.key].append(update)
    offsets = {(u.key, u.value): u.offset for u in updates if u.value is not None}
    last: dict[str, Kept] = {}
    for record in kept:
        findings.checked["kept"] += 1
        last[record.key] = record
        if record.value is not None:
            wanted = offsets.get((record.key, record.value))
            if wanted is None:
                findings.add("invented", str(record))
            elif wanted >= 0 and wanted != record.offset:
                findings.add("moved", f"{record}, acknowledged at {wanted}")
    for key, history in by_key.items():
        answered = [n for n, each in enumerate(history) if each.outcome is Outcome.ACKNOWLEDGED]
        newest = answered[-1] if answered else 0
        # What came after the last acknowledged one may be there or not.
        possible = {each.value for each in history[newest:]}
        if not answered:
            possible.add(None)
        found = last.get(key)
        value = None if found is None else found.value
        if value in possible:
            continue
        if found is None:
            findings.add("lost-key", f"{key}: {history[newest]}")
        elif None in possible and len(possible) == 1:
            findings.add("resurrected", f"{found} after {history[newest]}")
        else:
            findings.add("stale", f"{found} after {history[newest]}")
    return findings
