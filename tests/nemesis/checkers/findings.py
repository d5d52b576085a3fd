"""What a checker found: anomalies by kind, with some examples of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

EXAMPLES_MAX: Final = 3
"""Per kind; a broken system would fill the memory with texts."""


class Measured(NamedTuple):
    """How long something took, in milliseconds, and how often it was measured."""

    p50: int
    p99: int
    longest: int
    times: int


def measured(seconds: Sequence[float]) -> Measured:
    """Return the nearest ranks of at least one time, given in seconds."""
    ordered = sorted(round(each * 1000) for each in seconds)
    p50, p99 = (ordered[-(-len(ordered) * share // 100) - 1] for share in (50, 99))
    return Measured(p50, p99, ordered[-1], len(ordered))


@dataclass
class Findings:
    """Anomalies must not be; what is allowed is counted and told, and no more."""

    anomalies: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    """How much was looked at, so that an empty history does not pass for a good one."""
    measured: dict[str, Measured] = field(default_factory=dict)
    """What took how long, for a table."""

    def add(self, kind: str, text: str) -> None:
        self.anomalies[kind] += 1
        if self.anomalies[kind] <= EXAMPLES_MAX:
            self.examples.append(f"{kind}: {text}")

    def allow(self, kind: str) -> None:
        self.allowed[kind] += 1

    def unchecked(self, names: Iterable[str]) -> list[str]:
        """Those of which nothing was looked at."""
        return [name for name in names if not self.checked[name]]

    def merge(self, other: Findings) -> None:
        self.anomalies += other.anomalies
        self.allowed += other.allowed
        self.checked += other.checked
        self.measured |= other.measured
        self.examples += other.examples
