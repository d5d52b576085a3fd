"""Questions of the catalogue, asked of windows that every datacenter has completed. Shell.

A batch writes its records into the checkpoint, by window. When a window closes, the question is
asked of all of its records. It is the statement of the batch view, so the answers are the same.
Records and state lie in `windows/QUESTION-WINDOW/` of the checkpoint. A batch that runs again finds
both, and so has the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from spark_global.catalogue.question import Question
from spark_global.source.tables import RECORDS_TABLE, spark_schema
from spark_global.windowing.closed_questions import CLOSED_QUESTIONS, ClosedQuestion
from spark_global.windowing.closing import (
    Closing,
    Counted,
    WindowKind,
    close_windows,
    former_names,
)
from spark_global.windowing.files import SmallFiles
from spark_global.windowing.keeping import (
    STATE_FOLDER,
    STATES_KEPT,
    WINDOW,
    count_windows,
    epoch_time,
    read_before,
    read_complete,
    small_frame,
)
from spark_global.windowing.parts import (
    AskedState,
    after_batch,
    closed_starts,
    decode_asked,
    encode_asked,
    open_records,
    parts_to_read,
    too_late,
)

OPEN_RECORDS_MAX: Final = 50_000_000
"""Default of the records with a key that may wait in the checkpoint for their windows to close."""

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_LATE_COLUMNS: Final = StructType(
    [
        StructField("window_start", TimestampType()),
        StructField("topic", StringType()),
        StructField("late_records", LongType()),
    ]
)


class OpenRecordsError(Exception):
    """More records wait for their windows to close than may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Which question of `CLOSED_QUESTIONS`, of what."""

    topic: str
    name: str
    checkpoint: str
    """URI or directory of the query's checkpoint."""
    lateness_ms: int = 0
    """How long after the end of its window a record may be committed."""
    open_records_max: int = OPEN_RECORDS_MAX
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Those of the question that are not its defaults."""

    @property
    def asked(self) -> tuple[Question, ClosedQuestion]:
        return CLOSED_QUESTIONS[self.name]

    @property
    def values(self) -> Mapping[str, Any]:
        """Every parameter of the question."""
        return {**self.asked[0].parameters, **self.parameters}

    @property
    def window(self) -> str:
        """How answers are closed, also where the question has no parameter `window`."""
        return str(self.values.get("window", WINDOW))

    @property
    def reach_ms(self) -> int:
        """How long after a window the records of its answers may lie."""
        reach = self.asked[1].reach
        return 0 if reach is None else int(self.values[reach] * 1_000)

    @property
    def folder(self) -> str:
        length = self.window.replace(" ", "-")
        return f"{self.checkpoint}/{STATE_FOLDER}/{self.name}-{length}"


def answer_rows(wanted: Asking) -> Callable[[DataFrame, int], DataFrame]:
    """Return what gives the rows of a batch to write: the same ones if the batch runs again.

    The batches must be of `stream_records` with `carry_completeness`. Raises CheckpointError and
    OpenRecordsError.
    """

    def of_batch(records: DataFrame, batch: int) -> DataFrame:
        session = records.sparkSession
        states = SmallFiles(session, wanted.folder)
        stored = states.read(str(batch))
        complete = read_complete(session, wanted.checkpoint, batch)
        if stored is None:
            text = read_before(states, batch)
            before = AskedState() if text is None else decode_asked(text)
            counted, earlier = _keep_records(records, wanted, batch)
            how = Closing(WindowKind.STRICT, wanted.lateness_ms + wanted.reach_ms)
            windows, rows = close_windows(before.windows, counted, complete, how)
            rows += too_late(before, earlier, how)
            state = after_batch(before, batch, counted, windows, rows)
            _check_open(state, wanted)
            states.write(str(batch), encode_asked(state))
            _forget(states, batch - STATES_KEPT)
        else:
            state = decode_asked(stored)
        answers = _with_late_rows(session, wanted, state, former_names(complete))
        # Nothing is closed: no rows without asking, and the same columns as ever.
        return answers if state.rows else small_frame(session, [], answers.schema)

    return of_batch


def answer_schema(session: SparkSession, wanted: Asking) -> StructType:
    """Return the columns of the rows of every batch. Nothing is read or run."""
    return _with_late_rows(session, wanted, AskedState()).schema


def _with_late_rows(
    session: SparkSession, wanted: Asking, state: AskedState, names: Mapping[str, str] = NO_NAMES
) -> DataFrame:
    late = _late_rows(session, wanted, state)
    return _answers(session, wanted, state, names).unionByName(late, allowMissingColumns=True)


def _keep_records(
    records: DataFrame, wanted: Asking, batch: int
) -> tuple[list[Counted], list[Counted]]:
    """Write the records of a batch by window, and count them.

    The second counts are of records that answers of earlier windows need, by the first of these.
    """
    keyed = records.where("key IS NOT NULL").select(*wanted.asked[1].columns)
    place = f"{wanted.folder}/{_part(batch)}"
    by_window = keyed.withColumn("window_ms", sql.unix_millis(_window_start("timestamp", wanted)))
    # One file per window, because each trigger writes files.
    by_window = by_window.repartition("window_ms")
    by_window.write.mode("overwrite").partitionBy("window_ms").parquet(place)
    kept = records.sparkSession.read.schema(_kept_schema(wanted)).parquet(place)
    kept = kept.select("datacenter", "timestamp", sql.lit(None).cast("binary").alias("value"))
    counted = list(count_windows(kept, wanted.window))
    if not wanted.reach_ms:
        return counted, []
    shifted = kept.withColumn("start", _window_start("timestamp", wanted)).withColumn(
        "timestamp", sql.timestamp_millis(sql.unix_millis("timestamp") - wanted.reach_ms)
    )
    return counted, list(count_windows(shifted.where("timestamp < start"), wanted.window))


def _window_start(column: str, wanted: Asking) -> Column:
    return sql.window(column, wanted.window)["start"]


def _kept_schema(wanted: Asking) -> StructType:
    schema = spark_schema(RECORDS_TABLE)
    return StructType([schema[name] for name in wanted.asked[1].columns])


def _answers(
    session: SparkSession, wanted: Asking, state: AskedState, names: Mapping[str, str]
) -> DataFrame:
    """Ask the question; records that are kept under a former name of a datacenter get today's."""
    question, how = wanted.asked
    schema = _kept_schema(wanted)
    paths = [
        f"{wanted.folder}/{_part(batch)}/window_ms={span.start_ms}"
        for batch, span in parts_to_read(state, wanted.reach_ms)
    ]
    if paths:
        records = session.read.schema(schema).parquet(*paths)
    else:
        records = session.createDataFrame([], schema)
    if names:
        former: dict[Any, Any] = dict(names)
        records = records.replace(former, subset=["datacenter"])
    answers = question(records, **wanted.parameters)
    if how.time != "window_start":
        answers = answers.withColumn("window_start", _window_start(how.time, wanted))
    is_closed = sql.unix_millis("window_start").isin(closed_starts(state))
    return answers.where(is_closed).withColumn("late_records", sql.lit(0).cast("long"))


def _late_rows(session: SparkSession, wanted: Asking, state: AskedState) -> DataFrame:
    """Return how many records of the batch are in no answer, because their window was closed."""
    rows = [
        {
            "window_start": epoch_time(row.start_ms),
            "topic": wanted.topic,
            "late_records": row.records,
        }
        for row in state.rows
        if row.is_late
    ]
    return small_frame(session, rows, _LATE_COLUMNS)


def _check_open(state: AskedState, wanted: Asking) -> None:
    found = open_records(state)
    if found <= wanted.open_records_max:
        return
    complete = state.windows.complete
    slowest = min(complete, key=lambda name: (complete[name].through_ms or 0, name), default=None)
    raise OpenRecordsError(
        f"{found} records of {wanted.topic} wait for their windows to close, more than "
        f"{wanted.open_records_max}"
        + (f"; {slowest} is the least complete datacenter" if slowest else "")
        + ". Nothing is lost: start again with a greater open_records_max (--open-records-max)"
    )


def _forget(states: SmallFiles, batch: int) -> None:
    """Delete the state of a batch that does not run again, and records that only it needs."""
    old, later = states.read(str(batch)), states.read(str(batch + 1))
    if old is None or later is None:
        return
    for each in decode_asked(old).parts.keys() - decode_asked(later).parts.keys():
        states.delete_folder(_part(each))
    states.delete(str(batch))


def _part(batch: int) -> str:
    return f"records/batch={batch}"
