"""Strict, fast and per-datacenter windows as a streaming query. Shell.

A batch is counted on the executors. The driver closes windows by what the checkpoint says of the
batch's completeness, and stores the state with the rows in `windows/KIND/N` of the checkpoint.
Then it writes the rows. A batch that runs again finds its state, and so has the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_global.streaming.positions import CheckpointError
from spark_global.windowing.closing import (
    ALL,
    Closing,
    Complete,
    Count,
    Counted,
    Span,
    WindowKind,
    WindowRow,
    WindowState,
    close_windows,
)
from spark_global.windowing.files import SmallFiles
from spark_global.windowing.stored import complete_of_batch, decode_state, encode_state

INPUT_COLUMNS: Final = ("datacenter", "topic", "timestamp", "value")
STATE_FOLDER: Final = "windows"
"""In the checkpoint, so that a copy of a checkpoint has the state."""
STATES_KEPT: Final = 10
"""Spark runs at most the last batch again."""

_NAMES: Final = ArrayType(StringType(), containsNull=False)
_COLUMNS: Final = {
    "window_start": TimestampType(),
    "topic": StringType(),
    "datacenter": StringType(),
    "records": LongType(),
    "value_bytes": LongType(),
    "datacenters": _NAMES,
    "missing": _NAMES,
    "with_gaps": _NAMES,
    "is_complete": BooleanType(),
    "is_late": BooleanType(),
}
_LEFT_OUT: Final = {
    WindowKind.STRICT: {"datacenter", "missing", "is_complete"},
    WindowKind.FAST: {"datacenter"},
    WindowKind.DATACENTER: {"datacenters", "missing", "is_complete"},
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW: Final = "5 minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowing:
    """Which windows, of what."""

    topic: str
    how: Closing
    checkpoint: str
    """URI or directory of the query's checkpoint."""
    window: str = WINDOW


def window_rows(wanted: Windowing) -> Callable[[DataFrame, int], DataFrame]:
    """Return what gives the rows of a batch to write: the same ones if the batch runs again.

    The batches must be of `stream_records` with `carry_completeness`. Raises CheckpointError.
    """

    def of_batch(records: DataFrame, batch: int) -> DataFrame:
        session = records.sparkSession
        states = SmallFiles(session, f"{wanted.checkpoint}/{STATE_FOLDER}/{wanted.how.kind}")
        stored = states.read(str(batch))
        if stored is None:
            before = _state_before(states, batch, wanted.how.kind)
            complete = read_complete(session, wanted.checkpoint, batch)
            counted = list(count_windows(records, wanted.window))
            after, rows = close_windows(before, counted, complete, wanted.how)
            states.write(str(batch), encode_state(wanted.how.kind, after, rows))
            states.delete(str(batch - STATES_KEPT))
        else:
            _, rows = decode_state(stored, wanted.how.kind)
        return as_frame(session, wanted, rows)

    return of_batch


def _state_before(states: SmallFiles, batch: int, kind: WindowKind) -> WindowState:
    stored = read_before(states, batch)
    return WindowState() if stored is None else decode_state(stored, kind)[0]


def read_before(states: SmallFiles, batch: int) -> bytes | None:
    """Return the state before a batch; None before the first one. Raises CheckpointError."""
    if batch == 0:
        return None
    stored = states.read(str(batch - 1))
    if stored is None:
        raise CheckpointError(
            f"the checkpoint lacks the state of windows after batch {batch - 1}; start again with "
            "a new path"
        )
    return stored


def read_complete(session: SparkSession, checkpoint: str, batch: int) -> Mapping[str, Complete]:
    """Return how complete a batch is, by datacenter."""
    offsets = SmallFiles(session, f"{checkpoint}/offsets").read(str(batch))
    assert offsets is not None, "Spark writes the offsets of a batch before it runs"
    return complete_of_batch(offsets.decode())


def count_windows(records: DataFrame, window: str) -> Iterator[Counted]:
    """Yield the windows of a batch by datacenter."""
    span = sql.window("timestamp", window)
    value_bytes = sql.coalesce(sql.length("value"), sql.lit(0))
    counted = records.groupBy(span.alias("span"), "datacenter").agg(
        sql.count("*").alias("records"), sql.sum(value_bytes).alias("value_bytes")
    )
    found: Sequence[Row] = counted.select(
        sql.unix_millis("span.start"),
        sql.unix_millis("span.end"),
        "datacenter",
        "records",
        "value_bytes",
    ).collect()
    for start_ms, end_ms, datacenter, count, size in found:
        yield Counted(Span(start_ms, end_ms), datacenter or ALL, Count(count, size))


def window_schema(kind: WindowKind) -> StructType:
    """Return the columns of the rows of windows."""
    names = [name for name in _COLUMNS if name not in _LEFT_OUT[kind]]
    is_of_one = kind is WindowKind.DATACENTER
    types = _COLUMNS | ({"with_gaps": BooleanType()} if is_of_one else {})
    return StructType([StructField(name, types[name]) for name in names])


def as_frame(session: SparkSession, wanted: Windowing, rows: Sequence[WindowRow]) -> DataFrame:
    """Return the rows as a DataFrame with the columns of their kind."""
    kind = wanted.how.kind
    return small_frame(session, columns_of(wanted.topic, kind, rows), window_schema(kind))


def columns_of(topic: str, kind: WindowKind, rows: Sequence[WindowRow]) -> list[dict[str, Any]]:
    """Return the rows as values by column of their kind."""
    names = window_schema(kind).names
    is_of_one = kind is WindowKind.DATACENTER
    found = []
    for row in rows:
        columns: dict[str, Any] = {
            "window_start": epoch_time(row.start_ms),
            "topic": topic,
            "datacenter": row.datacenters[0] if row.datacenters else None,
            "records": row.records,
            "value_bytes": row.value_bytes,
            "datacenters": row.datacenters,
            "missing": row.missing,
            "with_gaps": bool(row.with_gaps) if is_of_one else row.with_gaps,
            "is_complete": not row.missing,
            "is_late": row.is_late,
        }
        found.append({name: columns[name] for name in names})
    return found


def epoch_time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def small_frame(
    session: SparkSession, rows: Sequence[Mapping[str, Any]], schema: StructType
) -> DataFrame:
    """Return rows as a DataFrame, as Arrow: plain rows would need a Python worker."""
    table = pa.Table.from_pylist(list(rows), to_arrow_schema(schema, timezone="UTC"))
    return session.createDataFrame(table, schema)


def write_batch(rows: DataFrame, batch: int, folder: str) -> None:
    """Write the rows of a batch as one Parquet file, once; a batch without rows has none."""
    place = f"{folder}/batch={batch}"
    if SmallFiles(rows.sparkSession, place).read("_SUCCESS") is None and not rows.isEmpty():
        rows.coalesce(1).write.mode("overwrite").parquet(place)
