"""Windows that wait for datacenters as streaming DataFrames, for SQL over streams. Shell.

Tasks count their part of a batch by window. Then a stateful operator of Spark has one group, the
topic. It closes windows by the rows that say how complete the batch is (`source/stated.py`).
Its state lies in Spark's state store, so every sink of a stream has the rows as it has others.

Every row is appended, also those of fast windows: `batch` says which of them is the newest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_global.catalogue.records import TOP_KEYS
from spark_global.source.stated import STATED_PARTITION
from spark_global.windowing.closing import (
    ALL,
    Closing,
    Complete,
    Count,
    Counted,
    Span,
    WindowKind,
    WindowState,
    close_windows,
)
from spark_global.windowing.keeping import WINDOW, columns_of, epoch_time, window_schema
from spark_global.windowing.ranking import (
    CountedKey,
    RankingState,
    decode_ranking,
    encode_ranking,
    rank_keys,
)
from spark_global.windowing.stored import decode_complete, decode_state, encode_state

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.state import GroupState

BATCH: Final = "batch"
"""Column of fast windows: how many batches the query had run before the one of the row."""
_COLUMNS: Final = ("datacenter", "topic", "partition", "timestamp")
_STATED: Final = "stated"
_SPAN: Final = ("start_ms", "end_ms", "datacenter")
_PARTS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("start_ms", LongType()),
        StructField("end_ms", LongType()),
        StructField("datacenter", StringType()),
        StructField("key", BinaryType()),
        StructField("records", LongType()),
        StructField("value_bytes", LongType()),
        StructField(_STATED, BinaryType()),
    ]
)
"""What a task counted; or a statement, with the datacenter in `datacenter`."""
_TOP_KEYS_SCHEMA: Final = StructType(
    [
        StructField("window_start", TimestampType()),
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("records", LongType()),
        StructField("datacenters", LongType()),
        StructField("place", IntegerType()),
        StructField("late_records", LongType()),
    ]
)
"""The columns of the batch view, and what `windowing/answering.py` adds to them."""
_STATE: Final = StructType([StructField("state", StringType()), StructField(BATCH, LongType())])

Row = Mapping[str, Any]
Step = Callable[[str, str | None, int, list[Row]], tuple[str, list[dict[str, Any]]]]
"""From topic, state, batch and parts to the next state and the rows to write."""


def windows_schema(kind: WindowKind) -> StructType:
    """Return the columns of `streamed_windows`."""
    schema = window_schema(kind)
    is_replaced = kind is WindowKind.FAST
    return StructType([*schema.fields, *([StructField(BATCH, LongType())] if is_replaced else [])])


def top_keys_schema() -> StructType:
    """Return the columns of `streamed_top_keys`."""
    return _TOP_KEYS_SCHEMA


def stream_options(*, with_keys: bool) -> dict[str, str]:
    """Return the options of the streams that `streamed_windows` or `streamed_top_keys` takes."""
    return {
        "columns": ",".join([*_COLUMNS, "key" if with_keys else "value"]),
        "carry_completeness": "true",
        "completeness_rows": "true",
    }


def streamed_windows(records: DataFrame, how: Closing) -> DataFrame:
    """Return the windows of a stream of records with `stream_options`, as they close."""
    parts = _parts(records, WINDOW, with_keys=False)
    return _closed(parts, _WindowStep(how), windows_schema(how.kind))


def streamed_top_keys(records: DataFrame, lateness_ms: int) -> DataFrame:
    """Return the most frequent keys of strict windows, with the parameters of the batch view."""
    window = str(TOP_KEYS.parameters["window"])
    parts = _parts(records, window, with_keys=True)
    step = _RankingStep(lateness_ms, int(TOP_KEYS.parameters["limit"]))
    return _closed(parts, step, _TOP_KEYS_SCHEMA)


def _parts(records: DataFrame, window: str, *, with_keys: bool) -> DataFrame:
    is_stated = sql.col("partition") == STATED_PARTITION
    said = sql.col("key" if with_keys else "value")
    if with_keys:
        records = records.where("key IS NOT NULL")
    span = sql.window("timestamp", window)
    shaped = records.withColumn("span", span).select(
        "topic",
        sql.unix_millis("span.start").alias("start_ms"),
        sql.unix_millis("span.end").alias("end_ms"),
        "datacenter",
        (said if with_keys else sql.lit(None).cast("binary")).alias("key"),
        sql.lit(1).cast("long").alias("records"),
        sql.coalesce(sql.length(said), sql.lit(0)).cast("long").alias("value_bytes"),
        sql.when(is_stated, said).alias(_STATED),
    )
    return shaped.mapInArrow(count_parts, _PARTS)


def count_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a task counted, one row per topic, window, datacenter and key; and statements."""
    names = [each for each in _PARTS.names if each not in ("records", "value_bytes", _STATED)]
    counted: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        is_record = pc.is_null(table[_STATED])
        statements = table.filter(pc.invert(is_record))
        yield from statements.to_batches()
        added = table.filter(is_record).select([*names, "records", "value_bytes"])
        both = added if counted is None else pa.concat_tables([counted, added])
        sums = both.group_by(names).aggregate([("records", "sum"), ("value_bytes", "sum")])
        counted = sums.rename_columns([*names, "records", "value_bytes"])
    if counted is not None:
        nothing = pa.nulls(counted.num_rows, pa.binary())
        yield from counted.append_column(_STATED, nothing).to_batches()


def _closed(parts: DataFrame, step: Step, schema: StructType) -> DataFrame:
    return parts.groupBy("topic").applyInPandasWithState(
        _Operator(step, schema), schema, _STATE, "append", "NoTimeout"
    )


@dataclass(frozen=True)
class _Operator:
    """What Spark calls once per batch and topic."""

    step: Step
    schema: StructType

    def __call__(
        self, group: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        parts = to_arrow_schema(_PARTS, timezone="UTC")
        found = [
            row
            for frame in frames
            for row in pa.Table.from_pandas(frame, schema=parts, preserve_index=False).to_pylist()
        ]
        before, batch = state.get if state.exists else (None, 0)
        after, rows = self.step(group[0], before, batch, found)
        state.update((after, batch + 1))
        if rows:
            arrow = to_arrow_schema(self.schema, timezone="UTC")
            yield pa.Table.from_pylist(rows, schema=arrow).to_pandas()


@dataclass(frozen=True)
class _WindowStep:
    """Closes windows."""

    how: Closing

    def __call__(
        self, topic: str, text: str | None, batch: int, parts: list[Row]
    ) -> tuple[str, list[dict[str, Any]]]:
        kind = self.how.kind
        before = WindowState() if text is None else decode_state(text.encode(), kind)[0]
        counted = [
            Counted(_span(each), each["datacenter"] or ALL, _count(each)) for each in _counts(parts)
        ]
        after, rows = close_windows(before, counted, complete_of(parts), self.how)
        found = columns_of(topic, kind, rows)
        if BATCH in windows_schema(kind).names:
            found = [{**each, BATCH: batch} for each in found]
        return encode_state(kind, after, []).decode(), found


@dataclass(frozen=True)
class _RankingStep:
    """Ranks the keys of windows that close."""

    lateness_ms: int
    limit: int

    def __call__(
        self, topic: str, text: str | None, batch: int, parts: list[Row]
    ) -> tuple[str, list[dict[str, Any]]]:
        counted = [
            CountedKey(_span(each), each["datacenter"] or ALL, each["key"], each["records"])
            for each in _counts(parts)
        ]
        state, rows = rank_keys(
            RankingState() if text is None else decode_ranking(text),
            counted,
            complete_of(parts),
            lateness_ms=self.lateness_ms,
            limit=self.limit,
        )
        found = [
            {"window_start": epoch_time(row.start_ms), "topic": topic, **row._asdict()}
            for row in rows
        ]
        return encode_ranking(state), found


def _counts(parts: Sequence[Row]) -> list[Row]:
    return [each for each in parts if each[_STATED] is None]


def _span(part: Row) -> Span:
    return Span(part["start_ms"], part["end_ms"])


def _count(part: Row) -> Count:
    return Count(part["records"], part["value_bytes"])


def complete_of(parts: Iterable[Row]) -> dict[str, Complete]:
    """Return how complete a batch is, by datacenter."""
    found = {}
    for each in parts:
        if each[_STATED] is not None:
            found[each["datacenter"]] = decode_complete(json.loads(each[_STATED]))
    return found
