"""The records of a view: key, value, headers and time of each row, and its lane.

- A view of records: as produced, with headers that name the origin.
- Any other view: the row as a JSON object; the key is the column `key`, if there is one.

The lane depends on nothing but the row, and for records on nothing but their partition at the
source. So a batch that runs again has the same lanes, also on another aggregate. Records of one
source partition are in one lane, in order.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spark_global.source.tables import RECORDS

ORIGIN_HEADERS: Final = {
    "heliograph.datacenter": "datacenter",
    "heliograph.topic": "topic",
    "heliograph.partition": "partition",
    "heliograph.offset": "offset",
}
"""Column by name of the header; the value is text. A column that is null has no header."""


def as_records(rows: DataFrame, lanes: int) -> DataFrame:
    """Return `lane`, `key`, `value`, `headers` and `timestamp_ms`, each lane as one partition."""
    return (_records(rows, lanes) if are_records(rows.columns) else _documents(rows, lanes)).drop(
        "place", "sequence"
    )


def are_records(columns: list[str]) -> bool:
    """Return whether these are the columns of a view of records.

    A query from before `topic_id` may name the others, and its records stay records.
    """
    return columns in (RECORDS.names, [name for name in RECORDS.names if name != "topic_id"])


def _records(rows: DataFrame, lanes: int) -> DataFrame:
    origin = [
        sql.struct(
            sql.lit(name).alias("key"), rows[column].cast("string").cast("binary").alias("value")
        )
        for name, column in ORIGIN_HEADERS.items()
    ]
    known = sql.filter(sql.array(*origin), lambda header: header["value"].isNotNull())
    shaped = rows.select(
        _lane(("datacenter", "topic", "partition"), lanes),
        rows["key"],
        rows["value"],
        sql.concat(rows["headers"], known).alias("headers"),
        sql.unix_millis("timestamp").alias("timestamp_ms"),
        sql.concat_ws(" ", "datacenter", "aggregate_topic", "partition").alias("place"),
        rows["aggregate_offset"].alias("sequence"),
    )
    return _by_lane(shaped, lanes)


def _documents(rows: DataFrame, lanes: int) -> DataFrame:
    key = rows["key"] if "key" in rows.columns else sql.lit(None).cast("binary")
    document = sql.to_json(sql.struct(*rows.columns))
    headers = "array<struct<key: string, value: binary>>"
    shaped = rows.select(document.alias("place"), key.cast("binary").alias("key")).select(
        _lane(("place",), lanes),
        "key",
        sql.col("place").cast("binary").alias("value"),
        sql.array().cast(headers).alias("headers"),
        sql.lit(None).cast("long").alias("timestamp_ms"),
        "place",
        sql.lit(0).cast("long").alias("sequence"),
    )
    return _by_lane(shaped, lanes)


def _lane(columns: tuple[str, ...], lanes: int) -> Column:
    return sql.pmod(sql.xxhash64(*columns), sql.lit(lanes)).cast("int").alias("lane")


def _by_lane(shaped: DataFrame, lanes: int) -> DataFrame:
    return shaped.repartitionById(lanes, sql.col("lane")).sortWithinPartitions("place", "sequence")
