"""What a checker found: anomalies by kind, with some examples of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

EXAMPLES_MAX: Final = 3
"""Per kind; a broken system would fill the memory with texts."""


@dataclass
class Findings:
    """Anomalies must not be; what is allowed is counted and told, and no more."""

    anomalies: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    """How much was looked at, so that an empty history does not pass for a good one."""

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
        self.examples += other.examples
