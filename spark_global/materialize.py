"""Keeps a view as Parquet files: continuous, exactly once, restartable.

The rows lie in `PATH/datacenter=D/hour=YYYY-MM-DD-HH/`, the checkpoint in `PATH/_checkpoint`.

Guarantees: a reader that honours Spark's `_spark_metadata`, as Spark does, sees every record once,
over any number of kills and restarts. Other readers also see files of a batch that was killed.
Strict, fast and per-datacenter windows, and the questions of `CLOSED_QUESTIONS`, lie in
`PATH/batch=N/` instead, once for every reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType, TimestampType

from local_cluster.wire.errors import KafkaError
from spark_global.catalogue.question import Question
from spark_global.kept.telling import Say, await_query, say_nothing, telling
from spark_global.kept.upkeep import Compacting, beside
from spark_global.narrowing.loading import COLUMNS, with_all_columns
from spark_global.narrowing.plans import Rehearsal
from spark_global.session import LOCAL_MASTER, SparkStartError, open_session
from spark_global.source.tables import RECORDS_TABLE
from spark_global.sql import explain_error
from spark_global.stream_sql import stream_query, streamed_view
from spark_global.streamable import LATE_SECONDS, FoundView, UnknownViewError, find_view
from spark_global.values.declaring import Decoding
from spark_global.values.not_decodable import SchemaFileError
from spark_global.views import (
    Aggregate,
    decode_view,
    follow_streams,
    load_table,
    stream_records,
)
from spark_global.windowing.answering import OPEN_RECORDS_MAX, Asking, answer_rows, answer_schema
from spark_global.windowing.closed_questions import CLOSED_QUESTIONS
from spark_global.windowing.closing import Closing
from spark_global.windowing.keeping import (
    INPUT_COLUMNS,
    Windowing,
    window_rows,
    window_schema,
    write_batch,
)

CHECKPOINT: Final = "_checkpoint"
"""Spark ignores names that begin with an underscore when it reads a table."""
HOUR: Final = "hour"
TIMES: Final = ("timestamp", "window_start")
"""Columns of which the first one gives the hour of a row."""
PARTITIONS: Final = ("datacenter", HOUR)
"""Columns by which a table is partitioned, those that the view has."""
HOUR_FORMAT: Final = "yyyy-MM-dd-HH"
TRIGGER_SECONDS: Final = 10.0
"""Default of the seconds between two batches; each batch writes files of its own."""
BATCH: Final = "batch"
"""Column of tables in which the rows of a batch stand beside those of others."""
_MS_PER_SECOND: Final = 1_000


StartQuery = Callable[[SparkSession, Aggregate, "Materialization"], StreamingQuery]


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialization:
    """What to keep, and how."""

    view: str
    """`global_<topic>`, or a question of it that a stream can answer."""
    path: str
    """Directory, or any URI that Spark can write to."""
    trigger_seconds: float = TRIGGER_SECONDS
    stops_at_end: bool = False
    """Stop when all that is there at the start is written."""
    late_seconds: int = LATE_SECONDS
    records_max: int | None = None
    """Most records of one batch."""
    open_records_max: int = OPEN_RECORDS_MAX
    """Most records that may wait for datacenters, where a question is asked of closed windows."""
    group: str | None = None
    """Consumer group under which lag tools see the query."""
    decoding: Decoding | None = None
    """For views `decoded_<topic>` and `rejects_<topic>`."""
    query: str | None = None
    """SQL over stream views, whose rows to keep; `view` is only a name for them."""


def start_materializing(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization
) -> StreamingQuery:
    """Start the query that keeps a view.

    Raises KafkaError, UnknownViewError and SchemaFileError.
    """
    if wanted.group is not None:
        follow_streams(session, aggregate)
    if wanted.query is not None:
        return _start_query(session, aggregate, wanted, wanted.query)
    found = find_view(aggregate, wanted.view, wanted.decoding)
    frame = rows_of_view(session, aggregate, wanted, found)
    folder = wanted.path.rstrip("/")
    checkpoint = f"{folder}/{CHECKPOINT}"
    rows_of = rows_per_batch(wanted, found, checkpoint)
    if rows_of is not None:

        def write(records: DataFrame, batch: int) -> None:
            write_batch(rows_of(records, batch), batch, folder)

        of_windows = frame.writeStream.queryName(f"materialize {wanted.view}")
        of_windows = of_windows.option("checkpointLocation", checkpoint).foreachBatch(write)
        return triggered(of_windows, wanted).start()
    return _start_writing(*partitioned(frame), wanted)


def rows_of_query(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization, query: str
) -> DataFrame:
    """Return what a query over stream views gives. Raises as `stream_query`."""
    return stream_query(
        session,
        aggregate,
        query,
        wanted.decoding,
        late_seconds=wanted.late_seconds,
        **_stream_options(wanted),
    )


def time_of(rows: DataFrame) -> str | None:
    """Return the column of `TIMES` that rows have, if it is a time."""
    times = [name for name in TIMES if name in rows.columns]
    is_time = times and isinstance(rows.schema[times[0]].dataType, TimestampType)
    return times[0] if is_time else None


def time_of_table(rows: DataFrame) -> str:
    """Return the column by whose hour a table of commits is partitioned.

    Raises UnknownViewError if rows of a query have none, or have a column for the hour.
    """
    found = time_of(rows)
    if found is None or HOUR in rows.columns:
        raise UnknownViewError(
            f"the rows of the query need a time, as column {' or '.join(TIMES)}, and no column "
            f"{HOUR}, which is that of the table; they have {', '.join(rows.columns)}"
        )
    return found


def _start_query(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization, query: str
) -> StreamingQuery:
    rows = rows_of_query(session, aggregate, wanted, query)
    time = time_of(rows)
    partitions = [name for name in PARTITIONS[:1] if name in rows.columns]
    if time is not None and HOUR not in rows.columns:
        rows, partitions = partitioned(rows, time)
    if set(rows.columns) <= set(partitions):
        partitions = []  # Spark refuses rows without other columns
    return _start_writing(rows, partitions, wanted)


def _start_writing(
    rows: DataFrame, partitions: list[str], wanted: Materialization
) -> StreamingQuery:
    writer = (
        rows.writeStream.format("parquet")
        .queryName(f"materialize {wanted.view}")
        .partitionBy(*partitions)
        .option("path", wanted.path)
        .option("checkpointLocation", f"{wanted.path.rstrip('/')}/{CHECKPOINT}")
    )
    return triggered(writer, wanted).start()


def rows_per_batch(
    wanted: Materialization, found: FoundView, checkpoint: str
) -> Callable[[DataFrame, int], DataFrame] | None:
    """Return what gives the rows of a batch; None if its rows do not wait for datacenters."""
    if found.windows is not None:
        how = Closing(found.windows, wanted.late_seconds * _MS_PER_SECOND)
        return window_rows(Windowing(topic=found.topic, how=how, checkpoint=checkpoint))
    if found.closed is not None:
        return answer_rows(_asking(wanted, found.topic, found.closed, checkpoint))
    return None


def schema_per_batch(
    session: SparkSession, wanted: Materialization, found: FoundView, checkpoint: str
) -> StructType | None:
    """Return the columns of the rows that `rows_per_batch` gives; None if it gives none."""
    if found.windows is not None:
        return window_schema(found.windows)
    if found.closed is not None:
        return answer_schema(session, _asking(wanted, found.topic, found.closed, checkpoint))
    return None


def _asking(wanted: Materialization, topic: str, name: str, checkpoint: str) -> Asking:
    return Asking(
        topic=topic,
        name=name,
        checkpoint=checkpoint,
        lateness_ms=wanted.late_seconds * _MS_PER_SECOND,
        open_records_max=wanted.open_records_max,
    )


def numbered(rows: DataFrame, batch: int) -> DataFrame:
    """Return rows with their batch: a later row of a fast window replaces those before it."""
    return rows.withColumn(BATCH, sql.lit(batch).cast("long"))


def partitioned(frame: DataFrame, time: str | None = None) -> tuple[DataFrame, list[str]]:
    """Return rows with their hour, and the columns by which a table is partitioned."""
    found = time or next(name for name in TIMES if name in frame.columns)
    frame = frame.withColumn(HOUR, sql.date_format(found, HOUR_FORMAT))
    return frame, [name for name in PARTITIONS if name in frame.columns]


def triggered(writer: DataStreamWriter, wanted: Materialization) -> DataStreamWriter:
    """Return the writer with the trigger of a query: until its end, or every few seconds."""
    if wanted.stops_at_end:
        return writer.trigger(availableNow=True)
    milliseconds = round(wanted.trigger_seconds * 1_000)
    return writer.trigger(processingTime=f"{milliseconds} milliseconds")


def streaming_rows(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization
) -> DataFrame:
    """Return the rows of a view as a stream.

    Raises KafkaError, UnknownViewError, also for rows that a stream cannot have, and
    SchemaFileError.
    """
    if wanted.query is not None:
        return rows_of_query(session, aggregate, wanted, wanted.query)
    found = find_view(aggregate, wanted.view, wanted.decoding)
    if found.is_streamed:
        options = _stream_options(wanted)
        return streamed_view(session, aggregate, found, wanted.late_seconds, **options)
    if not found.is_direct:
        raise UnknownViewError(
            f"{wanted.view} has rows per batch, so it is no stream; `heliograph spark materialize "
            f"{wanted.view} PATH` keeps it as a table"
        )
    return rows_of_view(session, aggregate, wanted, found._replace(closed=None))


def rows_of_view(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization, found: FoundView
) -> DataFrame:
    """Return the stream that a view is made of; see `rows_per_batch`.

    Raises KafkaError and SchemaFileError.
    """
    options = _stream_options(wanted)
    if found.windows is not None:
        options |= {"columns": ",".join(INPUT_COLUMNS), "carry_completeness": "true"}
    if found.closed is not None:
        columns = CLOSED_QUESTIONS[found.closed][1].columns
        options |= {"columns": ",".join(columns), "carry_completeness": "true"}
    if found.question is not None and found.closed is None:
        needed = columns_of_question(session, found.question)
        records = stream_records(session, aggregate, topic=found.topic, **options | needed)
        records = with_all_columns(records)
        return found.question(records.withWatermark("timestamp", f"{wanted.late_seconds} seconds"))
    records = stream_records(session, aggregate, topic=found.topic, **options)
    if found.is_decoded:
        assert wanted.decoding is not None, wanted.view
        samples = load_table(session, aggregate, RECORDS_TABLE, topic=found.topic)
        return decode_view(wanted.view, found.topic, wanted.decoding, records, samples)
    return records  # also for windows, which are of whole batches


def columns_of_question(session: SparkSession, question: Question) -> dict[str, str]:
    """Return the option by which a stream builds only the columns that a question needs."""
    rehearsal = Rehearsal(session)
    needs = rehearsal.needs_of_frame(question(rehearsal.records(RECORDS_TABLE)))
    columns = needs[RECORDS_TABLE].columns if RECORDS_TABLE in needs else ()
    return {COLUMNS: ",".join(columns)} if columns else {}


def _stream_options(wanted: Materialization) -> dict[str, str | int]:
    options: dict[str, str | int] = {}
    if wanted.records_max is not None:
        options["max_records_per_trigger"] = wanted.records_max
    if wanted.group is not None:
        options["group"] = wanted.group
    return options


_REFUSALS: Final[tuple[type[Exception], ...]] = (
    PySparkException,
    KafkaError,
    UnknownViewError,
    SchemaFileError,
)


def run_materializing(
    aggregate: Aggregate,
    wanted: Materialization,
    *,
    master: str = LOCAL_MASTER,
    conf: Mapping[str, str] | None = None,
    start: StartQuery = start_materializing,
    refusals: tuple[type[Exception], ...] = (),
    compacting: Compacting | None = None,
    say: Say = say_nothing,
) -> str | None:
    """Keep a view until Ctrl-C or, with `stops_at_end`, until its end; return what went wrong.

    `start` starts the query, by default that of a Parquet table, and may raise `refusals`. `say`
    gets lines about its batches.
    """
    try:
        with open_session(master, settings=conf) as session, beside(compacting):
            # The messages of errors must be read while the JVM lives, so inside the session.
            try:
                query = start(session, aggregate, wanted)
                with telling(wanted.view, say) as lines:
                    await_query(query, lines)
            except _REFUSALS + refusals as error:
                return f"{wanted.view} of {aggregate.name}: {explain_error(error)}"
    except SparkStartError as error:
        return str(error)
    return None
