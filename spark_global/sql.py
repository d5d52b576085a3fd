"""`heliograph sql`: runs one query over the global views, and prints a table or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Row

from local_cluster.wire.errors import KafkaError
from spark_global.cut.offsets import CutRefusedError, cut_document, describe
from spark_global.cut.past import Past
from spark_global.printing import Printed, print_problem, print_rows
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
    conf: Mapping[str, str] | None = None,
) -> int:
    """Run a query and print its rows, as a table or as JSON; return the exit code.

    With a `past` the rows are those of its cut, which standard error or the JSON describes.

    At most `limit` rows are printed. If there are more, standard error or the JSON says so. Their
    number is unknown, because only the whole query would return it.
    """
    try:
        with open_session(master, settings={**SHORT_JOB, **(conf or {})}) as session:
            # The messages of errors must be read while the JVM lives, so inside the session.
            try:
                create_views(session, aggregate, query, past)
                frame = session.sql(query)
                rows = frame.limit(limit + 1).collect() if frame.columns else []
                print_rows(_printed(frame.columns, rows, past), output, limit, sys.stdout)
            except (PySparkException, KafkaError, CutRefusedError) as error:
                return _complain(aggregate, explain_error(error))
    except SparkStartError as error:
        return _complain(aggregate, str(error))
    return 0


def _complain(aggregate: Aggregate, why: str) -> int:
    print_problem(f"sql on {aggregate.name}: {why}")
    return 1


def _printed(columns: Sequence[str], rows: Sequence[Row], past: Past | None) -> Printed:
    if past is None:
        return Printed(columns=columns, rows=rows)
    cut = past.found()
    return Printed(
        columns=columns, rows=rows, notes=describe(cut), document={"as_of": cut_document(cut)}
    )


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
