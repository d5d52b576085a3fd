"""The output of the demo: tables, Parquet files, one JSON document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
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
from topology.demo.dashboard import document
from topology.demo.outage import OutageAnswer, outage_table

DAYS_SHOWN: Final = 5
"""Busiest days that are printed; the Parquet file has all days."""
FINDINGS_SHOWN: Final = 20
PAGE_NAME: Final = "demo.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDelay:
    """Seconds from the acknowledgement of flights to their rows in the stream."""

    median: float
    longest: float

    @staticmethod
    def of(seconds: Sequence[float]) -> StreamDelay:
        return StreamDelay(median=statistics.median(seconds), longest=max(seconds))


@dataclass(kw_only=True)
class Report:
    """Every figure of one run, filled in step by step."""

    deployment: str
    produced: dict[str, int] = field(default_factory=dict)
    """Acknowledged records by datacenter."""
    boards: list[Board] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that the stream counted, by datacenter."""
    delays: dict[str, StreamDelay] = field(default_factory=dict)
    outage: list[OutageAnswer] = field(default_factory=list)
    outage_datacenter: str | None = None
    answers: Answers | None = None
    audit: AuditReport | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    page: str | None = None
    """Path of the HTML page."""
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
    def stream_is_exact(self) -> bool:
        """Whether the stream counted every flight once."""
        return bool(self.rows) and self.rows == self.produced

    @property
    def is_good(self) -> bool:
        return (
            self.failure is None
            and self.boards_are_exact
            and self.stream_is_exact
            and self.audit_is_clean
        )

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
            "stream": {
                "exact": self.stream_is_exact,
                "rows": self.rows,
                "seconds_to_row": {name: asdict(each) for name, each in self.delays.items()},
            },
            "outage": {
                "datacenter": self.outage_datacenter,
                "answers": [asdict(each) for each in self.outage],
            },
            "carriers": _rows(self.answers.carriers) if self.answers else None,
            "days": _rows(self.answers.days) if self.answers else None,
            "audit": _audit_json(self.audit) if self.audit else None,
            "files": self.files,
            "page": self.page,
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


def write_page(report: Report, view: document.View, out: Path) -> None:
    """Write demo.html: charts and tables without any outside resource. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / PAGE_NAME
    partial = path.with_suffix(".partial")
    partial.write_text(document.final_page(view))
    partial.replace(path)
    report.page = str(path)


def page_tables(report: Report) -> list[document.Table]:
    """Return the tables of the page: those that are printed."""
    tables: list[document.Table] = []
    if report.outage_datacenter is not None:
        tables.append(outage_table(report.outage_datacenter, report.outage))
    if report.rows:
        tables.append(stream_table(report))
    if report.boards:
        tables.append(
            document.Table(
                title=f"Group {GROUP} moves by exact offset translation",
                columns=("partition", "offset there", "offset here", "next flight", "the same"),
                rows=[
                    (
                        each.partition,
                        each.committed_offset,
                        each.translated_offset,
                        _flight_text(each.as_json()["next_here"]),
                        "yes" if each.is_exact else "no",
                    )
                    for each in report.boards
                ],
            )
        )
    if report.answers is not None:
        busiest = _busiest(report.answers)
        tables += [
            document.Table(
                title=f"Departures per day: the {DAYS_SHOWN} busiest",
                columns=tuple(report.answers.days.column_names),
                rows=[tuple(map(_html_value, row.values())) for row in busiest],
            ),
            document.Table(
                title="Flights and mean departure delay (minutes) by carrier",
                columns=tuple(report.answers.carriers.column_names),
                rows=[
                    tuple(map(_html_value, row.values()))
                    for row in report.answers.carriers.to_pylist()
                ],
            ),
        ]
    return tables


def stream_table(report: Report) -> document.Table:
    """Return what the stream counted, and how late."""
    rows: list[tuple[str | float | None, ...]] = []
    for name, produced in sorted(report.produced.items()):
        delay = report.delays.get(name)
        rows.append(
            (
                name,
                produced,
                report.rows.get(name, 0),
                None if delay is None else delay.median,
                None if delay is None else delay.longest,
            )
        )
    return document.Table(
        title="The stream counted each flight once",
        columns=("datacenter", "acknowledged", "rows", "s to row, median", "s to row, longest"),
        rows=rows,
    )


def print_table(console: Console, table: document.Table) -> None:
    """Print a table of the page."""
    shown = Table(title=table.title)
    for column in table.columns:
        shown.add_column(column)
    for row in table.rows:
        shown.add_row(*map(_cell, row))
    console.print(shown)


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
    for row in _busiest(answers):
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


def _busiest(answers: Answers) -> list[Mapping[str, Any]]:
    return sorted(answers.days.to_pylist(), key=lambda row: -row["departures"])[:DAYS_SHOWN]


def _html_value(value: Any) -> str | float | None:
    return value if value is None or isinstance(value, int | float) else str(value)


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
