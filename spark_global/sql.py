"""`heliograph sql`: runs one query over the global views, and prints a table or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Row
from rich.console import Console
from rich.table import Table

from local_cluster.wire.errors import KafkaError
from spark_global.cut.offsets import CutRefusedError, cut_document, describe
from spark_global.cut.past import Past
from spark_global.session import LOCAL_MASTER, SHORT_JOB, SparkStartError, open_session
from spark_global.views import Aggregate, create_views

LIMIT_DEFAULT: Final = 10_000
"""Default of the rows to print; all of them are held in memory."""
_ERROR_LINES_MAX: Final = 12
_TRACEBACK: Final = "Traceback (most recent call last)"


def run_sql(
    query: str,
    *,
    aggregate: Aggregate,
    output: str = "human",
    limit: int = LIMIT_DEFAULT,
    past: Past | None = None,
    master: str = LOCAL_MASTER,
) -> int:
    """Run a query and print its rows, as a table or as JSON; return the exit code.

    With a `past` the rows are those of its cut, which standard error or the JSON describes.

    At most `limit` rows are printed. If there are more, standard error or the JSON says so. Their
    number is unknown, because only the whole query would return it.
    """
    try:
        with open_session(master, settings=SHORT_JOB) as session:
            # The messages of errors must be read while the JVM lives, so inside the session.
            try:
                create_views(session, aggregate, query, past)
                frame = session.sql(query)
                rows = frame.limit(limit + 1).collect() if frame.columns else []
                _print_rows(frame.columns, rows, output, limit, past)
            except (PySparkException, KafkaError, CutRefusedError) as error:
                return _complain(aggregate, explain_error(error))
    except SparkStartError as error:
        return _complain(aggregate, str(error))
    return 0


def _complain(aggregate: Aggregate, why: str) -> int:
    Console(stderr=True).print(f"sql on {aggregate.name}: {why}", style="red", markup=False)
    return 1


def explain_error(error: Exception) -> str:
    """Return the message of an error; of a Python traceback in it only the last line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if any(_TRACEBACK in line for line in lines):
        reasons = [
            line
            for line in lines
            if not line[0].isspace() and ": " in line and _TRACEBACK not in line
        ]
        if reasons:
            kind, _, why = reasons[-1].partition(": ")
            return f"{kind.rpartition('.')[2]}: {why}"
    return "\n".join(lines[:_ERROR_LINES_MAX])


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
        case Row():
            return {name: plain_value(entry) for name, entry in value.asDict().items()}
        case list() | tuple():
            return [plain_value(entry) for entry in value]
        case dict():
            return {str(plain_value(key)): plain_value(entry) for key, entry in value.items()}
    return value


def _print_rows(
    columns: Sequence[str], rows: Sequence[Row], output: str, limit: int, past: Past | None
) -> None:
    """Print the first `limit` of these rows; a further row means that the result has more."""
    plain = [[plain_value(value) for value in row] for row in rows[:limit]]
    left_out = len(rows) - len(plain)
    if output == "json":
        document = {
            "columns": list(columns),
            "rows": plain,
            "limit": limit,
            "is_cut": left_out > 0,
            "rows_left_out_min": left_out,
        } | ({} if past is None else {"as_of": cut_document(past.found())})
        sys.stdout.write(json.dumps(document) + "\n")
        return
    table = Table(*columns)
    for line in plain:
        table.add_row(*(_cell(value) for value in line))
    Console().print(table)
    notes = [] if past is None else describe(past.found())
    if left_out:
        notes.append(
            f"only the first {limit} rows are shown, at least {left_out} more is left out; "
            "--limit N shows more"
        )
    for note in notes:
        Console(stderr=True, highlight=False).print(note, markup=False, soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value)
