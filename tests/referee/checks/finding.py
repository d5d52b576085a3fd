"""What a check returns: findings, and how much it looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

EXAMPLES_MAX = 5
"""Findings of one kind at one place that are shown in full; the others are counted."""


class Promise(StrEnum):
    """What Heliograph promises, and the referee checks."""

    SOURCE = "source"
    """The source cluster keeps what it acknowledged: without that a copy cannot be judged."""
    COPY = "copy"
    JOURNAL = "journal"
    TRANSLATION = "translation"
    GROUPS = "groups"
    AUDIT = "audit"
    PROGRESS = "progress"
    """After healing, everything runs again and the mirrors catch up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was not kept."""

    promise: Promise
    kind: str
    """One word, such as lost or doubled."""
    where: str
    text: str
    """A sentence with the offsets and the evidence."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.kind}: {self.where}: {self.text}"


@dataclass(slots=True)
class Judgement:
    """Findings of one or more checks, and figures of what they looked at."""

    findings: list[Finding] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def find(self, promise: Promise, kind: str, where: object, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(promise, kind, str(where), text))

    def add(self, other: Judgement) -> None:
        """Take over the findings and figures of another judgement."""
        self.findings += other.findings
        self.figures += other.figures
