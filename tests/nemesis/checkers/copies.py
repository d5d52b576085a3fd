"""Copies of a topic: each record once, in the order of the original, by partition. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.nemesis.checkers.findings import Findings


def check_copy(
    name: str, original: Mapping[int, Sequence[str]], copy: Mapping[int, Sequence[str]]
) -> Findings:
    """Anomalies: missing, duplicate, invented, reordered. Values are unique in the original."""
    findings = Findings()
    for partition, wanted in original.items():
        found = copy.get(partition, ())
        findings.checked["copied"] += len(found)
        counted = Counter(found)
        known = set(wanted)
        for value, count in counted.items():
            if value not in known:
                findings.add("invented", f"{name}-{partition}: {value}")
            elif count > 1:
                findings.add("duplicate", f"{name}-{partition}: {value} {count} times")
        for value in wanted:
            if value not in counted:
                findings.add("missing", f"{name}-{partition}: {value}")
        first_seen = [value for value in dict.fromkeys(found) if value in known]
        present = set(first_seen)
        if first_seen != [value for value in wanted if value in present]:
            findings.add("reordered", f"{name}-{partition}")
    return findings


def check_positions(name: str, positions: Sequence[int]) -> Findings:
    """Committed positions as they were read one after another. Anomaly: went-back."""
    findings = Findings()
    findings.checked["positions"] += len(positions)
    for before, after in itertools.pairwise(positions):
        if after < before:
            findings.add("went-back", f"{name}: {after} after {before}")
    return findings
