"""Prints the rows of a query, as a table or as JSON. It needs neither Spark nor DuckDB."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol, TextIO, runtime_checkable

from rich.console import Console
from rich.table import Table


@runtime_checkable
class NamedValues(Protocol):
    """A row within a row, as Spark's `Row`."""

    def asDict(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What to print."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """At least one more than the limit if the result has more."""
    rows_total: int | None = None
    """Number of all rows of the result, if it was counted."""
    notes: Sequence[str] = ()
    """Lines for standard error, unless the output is JSON."""
    document: Mapping[str, object] = field(default_factory=dict)
    """What the JSON has besides the rows."""


def print_rows(printed: Printed, output: str, limit: int, stream: TextIO) -> None:
    """Print the first `limit` rows to a stream, and notes to standard error."""
    plain = [[plain_value(value) for value in row] for row in printed.rows[:limit]]
    is_counted = printed.rows_total is not None
    left_out = (printed.rows_total or len(printed.rows)) - len(plain)
    if output == "json":
        document = {
            "columns": list(printed.columns),
            "rows": plain,
            "limit": limit,
            "is_cut": left_out > 0,
            "rows_left_out_min": left_out,
            "rows_left_out": left_out if is_counted or not left_out else None,
        } | dict(printed.document)
        stream.write(json.dumps(document) + "\n")
        return
    table = Table(*printed.columns)
    for line in plain:
        table.add_row(*(_cell(value) for value in line))
    Console(file=stream).print(table)
    notes = list(printed.notes)
    if left_out:
        how_many = f"{left_out:,} more are" if is_counted else f"at least {left_out} more is"
        notes.append(
            f"only the first {limit} rows are shown, {how_many} left out; --limit N shows more"
            + ("" if is_counted else ", --count counts them")
        )
    for note in notes:
        Console(stderr=True, highlight=False).print(note, markup=False, soft_wrap=True)


def print_problem(why: str) -> None:
    """Print why there is no answer to standard error."""
    Console(stderr=True).print(why, style="red", markup=False, soft_wrap=True)


def plain_value(value: Any) -> Any:
    """Return a value of a row as a JSON value; bytes become text if they are UTF-8, else hex."""
    match value:
        case bytes() | bytearray():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return bytes(value).hex()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case NamedValues():
            return {name: plain_value(entry) for name, entry in value.asDict().items()}
        case list() | tuple():
            return [plain_value(entry) for entry in value]
        case dict():
            return {str(plain_value(key)): plain_value(entry) for key, entry in value.items()}
    return value


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value)
