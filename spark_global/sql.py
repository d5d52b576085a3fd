"""`heliograph sql`: runs queries over the global views, and prints tables or JSON."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from local_cluster.wire.errors import KafkaError
from spark_global.connector.jars import ConnectorRefusedError, connector_settings
from spark_global.connector.logins import login_properties
from spark_global.cut.offsets import CutRefusedError, cut_document, describe
from spark_global.cut.past import Past
from spark_global.narrowing.loading import describe_narrowed
from spark_global.printing import Printed, print_problem, print_rows
from spark_global.progress import showing, tasks_of
from spark_global.session import (
    LOCAL_MASTER,
    SHORT_JOB,
    SparkStartError,
    open_session,
    with_properties,
)
from spark_global.values.declaring import Decoding
from spark_global.values.not_decodable import SchemaFileError
from spark_global.views import Aggregate, create_views_for

LIMIT_DEFAULT: Final = 10_000
"""Default of the rows to print; all of them are held in memory."""
_REFUSALS: Final = (
    PySparkException,
    KafkaError,
    CutRefusedError,
    ConnectorRefusedError,
    SchemaFileError,
)
_ERROR_LINES_MAX: Final = 12
_TRACEBACK: Final = "Traceback (most recent call last)"


def run_sql(
    query: str | Iterable[str],
    *,
    aggregate: Aggregate,
    output: str = "human",
    limit: int = LIMIT_DEFAULT,
    counts_all: bool = False,
    past: Past | None = None,
    decoding: Decoding | None = None,
    master: str = LOCAL_MASTER,
    conf: Mapping[str, str] | None = None,
    connector_jars: str | None = None,
    goes_on: bool = False,
) -> int:
    """Run a query, or several in one session, and print their rows; return the exit code.

    Each query has views of its own, so it reads the newest records. With a `past` its rows are
    those of the cut, which standard error or the JSON describes. No query runs after a failed one,
    unless `goes_on`; then Ctrl-C ends only the query that runs. With a `decoding` there are also
    views of decoded records.

    With `connector_jars` Spark's Kafka connector reads the records: a directory, or "maven".

    At most `limit` rows are printed. If there are more, standard error or the JSON says so. Only
    with `counts_all` it says how many, because the whole query runs once more for that.
    """
    by_connector = connector_jars is not None
    asked = _Asked(aggregate, output, limit, counts_all, past, decoding, by_connector)
    code = 0
    try:
        jars = connector_settings(connector_jars) if connector_jars is not None else {}
        properties = login_properties(aggregate.security) if by_connector else {}
        settings = with_properties({**SHORT_JOB, **jars, **(conf or {})}, properties)
        with _starting(master, settings) as session:
            for each in [query] if isinstance(query, str) else query:
                code = _answer_or_complain(session, each, asked, goes_on=goes_on)
                if code and not goes_on:
                    return code
    except (ConnectorRefusedError, SparkStartError) as error:
        return _complain(aggregate, str(error))
    return 0 if goes_on else code


@dataclass(frozen=True, slots=True)
class _Asked:
    """How to answer."""

    aggregate: Aggregate
    output: str
    limit: int
    counts_all: bool
    past: Past | None
    decoding: Decoding | None
    by_connector: bool


@contextlib.contextmanager
def _starting(master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    with contextlib.ExitStack() as stack:
        with showing("Spark starts"):
            session = stack.enter_context(open_session(master, settings=settings))
        yield session


def _answer_or_complain(session: SparkSession, query: str, asked: _Asked, *, goes_on: bool) -> int:
    # The messages of errors must be read while the JVM lives, so inside the session.
    try:
        _answer(session, query, asked)
    except _REFUSALS as error:
        return _complain(asked.aggregate, explain_error(error) + hint_for(query))
    except KeyboardInterrupt:
        if not goes_on:
            raise
        return _complain(asked.aggregate, "cancelled")
    return 0


def _answer(session: SparkSession, query: str, asked: _Asked) -> None:
    with showing("the query runs", tasks_of(session)):
        narrowed = create_views_for(
            session,
            asked.aggregate,
            query,
            asked.past,
            asked.decoding,
            by_connector=asked.by_connector,
        )
        frame = session.sql(query)
        rows = frame.limit(asked.limit + 1).collect() if frame.columns else []
        counts = asked.counts_all and len(rows) > asked.limit
        rows_total = frame.count() if counts else None
    notes = describe_narrowed(narrowed)
    document: dict[str, object] = {"reads": {load: dict(of) for load, of in narrowed.items()}}
    if asked.past is not None:
        cut = asked.past.found()
        notes = [*describe(cut), *notes]
        document["as_of"] = cut_document(cut)
    printed = Printed(
        columns=frame.columns, rows=rows, rows_total=rows_total, notes=notes, document=document
    )
    print_rows(printed, asked.output, asked.limit, sys.stdout)


def _complain(aggregate: Aggregate, why: str) -> int:
    print_problem(f"sql on {aggregate.name}: {why}")
    return 1


def hint_for(query: str) -> str:
    """Return what to say besides, of a query that failed: views of streams are not here."""
    if re.search(r"\bstream_(global|decoded|rejects)_", query, re.IGNORECASE) is None:
        return ""
    return (
        "\nstream_<view> is a view of a stream: keep its rows by "
        "`heliograph spark materialize NAME PATH --sql QUERY`, or ask the view without stream_"
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
