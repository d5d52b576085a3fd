"""The table `records`, read by Spark's Kafka connector and joined with its origins.

The plan is that of `format("heliograph")`, so both read the same offsets. What the connector would
do by default is not what the table promises:

- It reads aborted records; here `read_committed` is set.
- A pattern of topics is not anchored, and topics that the broker calls internal are left out
  without a word. Here each partition is assigned by its name, and internal topics are refused.
- Offsets that are not given begin at the latest in streams and end at the newest in batches. Here
  each partition has both, as planned.

Streams are in `streams.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark_global.connector.jars import ConnectorRefusedError
from spark_global.connector.logins import security_options
from spark_global.connector.segments import segment_table
from spark_global.source.options import ReadOptions
from spark_global.source.planning import plan_read
from spark_global.source.splits import PartitionRange
from spark_global.source.tables import (
    RECORDS,
    RECORDS_TABLE,
    TIME_MS_MAX,
    TIME_MS_MIN,
    spark_schema,
)

FORMAT: Final = "kafka"
INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__share_group_state", "__transaction_state"}
)
"""Kafka's `Topic.INTERNAL_TOPICS`."""
BROADCAST_ROWS_MAX: Final = 1_000_000
"""Most segments that every executor gets whole. With more, Spark decides, and may sort records."""
_HEADERS: Final = "array<struct<key:string,value:binary>>"


def connector_records(session: SparkSession, options: ReadOptions) -> DataFrame:
    """Return the records that the options select.

    Raises ConnectorRefusedError, KafkaError, and CutRefusedError as `plan_read`.
    """
    refuse_options(options)
    plan = asyncio.run(plan_read(options))
    refuse_internal(plan.topics)
    ranges = [each for each in plan.ranges if each.start < each.end]
    if not ranges:
        return session.createDataFrame([], spark_schema(RECORDS_TABLE))
    reader = session.read.format(FORMAT).options(**kafka_options(options, ranges))
    return with_origins(reader.load(), ranges)


def refuse_options(options: ReadOptions) -> None:
    """Raise ConnectorRefusedError for what the connector cannot read."""
    if options.table != RECORDS_TABLE:
        raise ConnectorRefusedError(f"the connector reads {RECORDS_TABLE!r}, not {options.table!r}")


def refuse_internal(topics: Iterable[str]) -> None:
    """Raise ConnectorRefusedError for topics that the connector leaves out without a word."""
    internal = sorted(INTERNAL_TOPICS.intersection(topics))
    if internal:
        raise ConnectorRefusedError(f"the connector does not read internal topics: {internal[0]}")


def with_origins(read: DataFrame, ranges: Sequence[PartitionRange]) -> DataFrame:
    """Return the table `records` of what the connector has read within ranges."""
    session = read.sparkSession
    if not ranges:
        return session.createDataFrame([], spark_schema(RECORDS_TABLE))
    segments, bits = segment_table(ranges)
    origins = session.createDataFrame(segments)
    if segments.num_rows <= BROADCAST_ROWS_MAX:
        origins = sql.broadcast(origins)
    records = read.withColumnsRenamed({"topic": "aggregate_topic", "offset": "aggregate_offset"})
    offset = sql.col("aggregate_offset")
    joined = records.join(
        origins,
        (sql.col("aggregate_topic") == sql.col("segment_topic"))
        & (sql.col("partition") == sql.col("segment_partition"))
        & (sql.shiftright(offset, bits) == sql.col("bucket"))
        & (offset >= sql.col("segment_first"))
        & (offset < sql.col("segment_end")),
    )
    least, greatest = (sql.lit(ms).cast("long") for ms in (TIME_MS_MIN, TIME_MS_MAX))
    columns = {
        "topic": sql.col("source_topic"),
        "offset": offset + sql.col("shift"),
        "timestamp": sql.timestamp_millis(
            sql.least(sql.greatest(sql.unix_millis("timestamp"), least), greatest)
        ),
        "headers": sql.coalesce(sql.col("headers"), sql.array().cast(_HEADERS)),
    }
    return joined.select(*(columns.get(name, sql.col(name)).alias(name) for name in RECORDS.names))


def kafka_options(options: ReadOptions, ranges: Iterable[PartitionRange]) -> dict[str, str]:
    """Return the connector's options for ranges, none of which is empty.

    Raises ConnectorRefusedError.
    """
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        at = str(each.partition)
        start = starts.setdefault(each.aggregate_topic, {})
        start[at] = min(each.start, start.get(at, each.start))
        end = ends.setdefault(each.aggregate_topic, {})
        end[at] = max(each.end, end.get(at, each.end))
    tasks = sum(
        -(-(end - starts[topic][at]) // options.split_records_max)
        for topic, of_topic in ends.items()
        for at, end in of_topic.items()
    )
    assigned = {topic: sorted(map(int, of_topic)) for topic, of_topic in starts.items()}
    return {
        **security_options(options.security),
        "kafka.bootstrap.servers": options.bootstrap,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "minPartitions": str(tasks),
    }
