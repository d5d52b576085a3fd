"""What became of a workload under a fault: a cell of the table. Pure; as JSON it merges by cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

OK: Final = "ok"
ANOMALY: Final = "anomaly"
NO_PROGRESS: Final = "no progress"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
PROGRESS_SECONDS_WANTED: Final = 10.0
"""After healing; a workload that took longer is marked in the table, and no more."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One workload's life under one fault (or a mix of them)."""

    system: str
    fault: str
    workload: str
    verdict: str
    progress_seconds: float | None = None
    """The longest that it took after a healing until the workload went on."""
    checked: Mapping[str, int] = field(default_factory=dict)
    anomalies: Mapping[str, int] = field(default_factory=dict)
    allowed: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By what was measured: `findings.Measured`."""
    examples: Sequence[str] = ()
    reason: str = ""
    seed: int = 0

    @property
    def cell(self) -> str:
        """For the table: seconds until it went on, or what is wrong."""
        if self.verdict == OK:
            seconds = self.progress_seconds
            if seconds is None:
                return "ok"
            late = " (late)" if seconds > PROGRESS_SECONDS_WANTED else ""
            return f"ok {seconds:.1f}{late}"
        if self.verdict == ANOMALY:
            return "**" + ", ".join(f"{kind} {n}" for kind, n in self.anomalies.items()) + "**"
        return f"**{self.verdict}**" if self.verdict != NOT_RUN else "-"

    def json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def from_json(document: Mapping[str, Any]) -> Outcome:
    return Outcome(**document)


def merged(old: Iterable[Outcome], new: Iterable[Outcome]) -> list[Outcome]:
    """One outcome per (system, fault, workload): the new one where there are two."""
    cells = {(each.system, each.fault, each.workload): each for each in (*old, *new)}
    return list(cells.values())


def table(
    outcomes: Sequence[Outcome],
    system: str,
    faults: Mapping[str, str],
    workloads: Sequence[str],
) -> str:
    """Markdown: a row per fault (name -> title), a column per workload; empty where never run."""
    cells = {(e.fault, e.workload): e.cell for e in outcomes if e.system == system}
    columns = [name for name in workloads if any(workload == name for _, workload in cells)]
    lines = [
        "| fault | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for fault, title in faults.items():
        if any(name == fault for name, _ in cells):
            row = " | ".join(cells.get((fault, column), "") for column in columns)
            lines.append(f"| `{fault}`: {title} | {row} |")
    return "\n".join(lines)


def measured_table(outcomes: Sequence[Outcome], system: str) -> str:
    """Markdown: a row per fault and workload that measured something; "" if none did."""
    rows = [each for each in outcomes if each.system == system and each.measured]
    names = list(dict.fromkeys(name for each in rows for name in each.measured))
    if not rows:
        return ""
    lines = [
        "| fault | workload | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for each in rows:
        values = " | ".join(_times(each.measured.get(name)) for name in names)
        lines.append(f"| `{each.fault}` | {each.workload} | {values} |")
    return "\n".join(lines)


def _times(measured: Sequence[int] | None) -> str:
    if measured is None:
        return ""
    p50, p99, longest, count = measured
    return f"{p50} / {p99} / {longest} ({count})"
