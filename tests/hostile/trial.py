"""Give a target a range of hostile inputs and count what comes of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.hostile.mutations import hostile_input
from tests.hostile.target import Target

FINDINGS_MAX: Final = 20
"""Findings that a tally keeps in full; further ones are counted."""


class Finding(NamedTuple):
    """An input that was neither read nor refused cleanly."""

    target: str
    seed: int
    number: int
    error: str
    content: bytes


@dataclass(slots=True)
class Tally:
    """The outcome of a range of inputs."""

    accepted: int = 0
    refused: int = 0
    findings_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    slowest_ms: float = 0.0
    slowest_index: int = 0

    @property
    def inputs(self) -> int:
        return self.accepted + self.refused + self.findings_count

    def add(self, other: Tally) -> None:
        self.accepted += other.accepted
        self.refused += other.refused
        self.findings_count += other.findings_count
        self.findings = (self.findings + other.findings)[:FINDINGS_MAX]
        if other.slowest_ms > self.slowest_ms:
            self.slowest_ms, self.slowest_index = other.slowest_ms, other.slowest_index


def try_inputs(target: Target, seed: int, indexes: range) -> Tally:
    """Read the inputs with these numbers. Time is measured in CPU time of this thread."""
    corpus = target.corpus()
    tally = Tally()
    for index in indexes:
        content = hostile_input(corpus, seed, target.name, index)
        before = time.thread_time()
        try:
            target.read(content)
            tally.accepted += 1
        except target.refusals:
            tally.refused += 1
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - also panics of native code
            tally.findings_count += 1
            if len(tally.findings) < FINDINGS_MAX:
                text = f"{type(error).__name__}: {error}"[:200]
                tally.findings.append(Finding(target.name, seed, index, text, content))
        spent_ms = (time.thread_time() - before) * 1000
        if spent_ms > tally.slowest_ms:
            tally.slowest_ms, tally.slowest_index = spent_ms, index
    return tally
