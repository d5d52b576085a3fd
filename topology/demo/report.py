"""The output of the demo: tables, Parquet files, one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from spark_global.audit import AuditReport
from topology.demo.answers import Answers
from topology.demo.boards import GROUP, Board

DAYS_SHOWN: Final = 5
"""Busiest days that are printed; the Parquet file has all days."""
FINDINGS_SHOWN: Final = 20


@dataclass(kw_only=True)
class Report:
    """Every figure of one run, filled in step by step."""

    deployment: str
    produced: dict[str, int] = field(default_factory=dict)
    """Acknowledged records by datacenter."""
    boards: list[Board] = field(default_factory=list)
    answers: Answers | None = None
    audit: AuditReport | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    failure: str | None = None

    @property
    def boards_are_exact(self) -> bool:
        return bool(self.boards) and all(board.is_exact for board in self.boards)

    @property
    def audit_is_clean(self) -> bool:
        """Whether the audit found no fault, and as many records as were produced."""
        report = self.audit
        return (
            report is not None
            and report.is_clean
            and report.produced == sum(self.produced.values())
        )

    @property
    def is_good(self) -> bool:
        return self.failure is None and self.boards_are_exact and self.audit_is_clean

    def as_json(self) -> dict[str, Any]:
        """Return one document with every figure."""
        return {
            "deployment": self.deployment,
            "ok": self.is_good,
            "failure": self.failure,
            "produced": self.produced,
            "boards": {
                "group": GROUP,
                "exact": self.boards_are_exact,
                "partitions": [board.as_json() for board in self.boards],
            },
            "carriers": _rows(self.answers.carriers) if self.answers else None,
            "days": _rows(self.answers.days) if self.answers else None,
            "audit": _audit_json(self.audit) if self.audit else None,
            "files": self.files,
            "seconds": {step: round(spent, 3) for step, spent in self.seconds.items()},
        }


def write_parquet(report: Report, out: Path) -> None:
    """Write carriers.parquet, days.parquet, audit.parquet. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    tables: dict[str, pa.Table] = {}
    if report.answers is not None:
        tables |= {"carriers": report.answers.carriers, "days": report.answers.days}
    if report.audit is not None:
        tables["audit"] = pa.Table.from_pylist([asdict(p) for p in report.audit.partitions])
    for name, table in tables.items():
        path = out / f"{name}.parquet"
        partial = path.with_suffix(".partial")
        pq.write_table(table, partial)
        partial.replace(path)
        report.files.append(str(path))


def print_boards(console: Console, boards: Sequence[Board], source: str, target: str) -> None:
    """Print the next flight of the moved group, and whether it is the one at the source."""
    table = Table(title=f"group {GROUP} moves from {source} to {target}")
    for column in ("partition", f"{source} offset", f"{target} offset", "next flight"):
        table.add_column(column)
    table.add_column("the same there")
    for board in boards:
        flight = board.as_json()["next_here"]
        table.add_row(
            str(board.partition),
            str(board.committed_offset),
            str(board.translated_offset),
            _flight_text(flight),
            "yes" if board.is_exact else "[red]no[/red]",
        )
    console.print(table)


def print_answers(console: Console, answers: Answers) -> None:
    """Print the tables of carriers and of the busiest days."""
    carriers = Table(title="flights and mean departure delay (minutes) by carrier")
    for column in answers.carriers.column_names:
        carriers.add_column(column, justify="right" if column not in _TEXT else "left")
    previous = None
    for row in answers.carriers.to_pylist():
        if previous not in (None, row["carrier"]):
            carriers.add_section()
        previous = row["carrier"]
        carriers.add_row(*(_cell(value) for value in row.values()))
    console.print(carriers)
    days = Table(title=f"departures per day: the {DAYS_SHOWN} busiest of {len(answers.days)}")
    for column in answers.days.column_names:
        days.add_column(column, justify="right")
    busiest = sorted(answers.days.to_pylist(), key=lambda row: -row["departures"])
    for row in busiest[:DAYS_SHOWN]:
        days.add_row(*(_cell(value) for value in row.values()))
    console.print(days)


def print_audit(console: Console, audit: AuditReport) -> None:
    """Print the summary line, and the faulty records."""
    console.print(audit.line, style="bold green" if audit.is_clean else "bold red", markup=False)
    for finding in audit.findings[:FINDINGS_SHOWN]:
        console.print(f"  {finding}", markup=False, highlight=False)
    more = len(audit.findings) - FINDINGS_SHOWN
    if more > 0:
        console.print(f"  and {more} more")


_TEXT: Final = ("carrier", "datacenter")


def _audit_json(audit: AuditReport) -> dict[str, Any]:
    return {
        "line": audit.line,
        "clean": audit.is_clean,
        "produced": audit.produced,
        "mirrored": audit.mirrored,
        "lost": audit.counts["lost"],
        "duplicated": audit.counts["duplicated"],
        **{name: audit.counts[name] for name in _OTHER_VERDICTS},
        "partitions": [asdict(partition) for partition in audit.partitions],
        "findings": [asdict(finding) for finding in audit.findings],
    }


_OTHER_VERDICTS: Final = ("foreign", "mistranslated", "misordered", "pending", "expired")


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return [
        {
            name: value.isoformat() if isinstance(value, date) else value
            for name, value in row.items()
        }
        for row in table.to_pylist()
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _flight_text(flight: dict[str, Any] | None) -> str:
    if flight is None:
        return "none left"
    return "{carrier} {flight} to {dest}, {time_hour}".format(**flight)
