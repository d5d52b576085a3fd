"""`spark compact` of a Parquet table beside its running query, over kills of the command."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_global.parquet.compacting import now_ms, read_compact
from spark_global.parquet.maintaining import delete_unnamed, named_files, run_upkeep
from tests.support.cluster import PRESENT_CODE
from topology.spark.compaction import compacting_of
from topology.spark.options import Format

pytestmark = pytest.mark.real

KILLS = int(os.environ.get("COMPACT_KILLS", "3"))
SEED = int(os.environ.get("COMPACT_SEED", "1"))
SMALL_BYTES = 64 * 1024 * 1024
BATCHES_PER_COMPACT = 10
"""Spark's own: spark.sql.streaming.fileSink.log.compactInterval."""
WAIT_SECONDS_MAX = 120.0
DAY_MS = 86_400_000

COLUMNS = (
    "value",
    "timestamp",
    "concat('dc', value % 2) AS datacenter",
    "'2026-11-28-17' AS hour",
    "CAST(timestamp AS timestamp_ntz) AS local",
    "CAST(timestamp AS date) AS day",
    "CAST(value AS decimal(20, 4)) AS price",
    "CAST(CAST(value AS string) AS binary) AS bytes",
    "array(named_struct('key', 'h', 'value', CAST('x' AS binary), 'at', timestamp)) AS headers",
    "map('k', timestamp) AS times",
    "named_struct('gate', if(value % 3 = 0, NULL, 'B7'), 'at', timestamp) AS nested",
    "if(value % 5 = 0, NULL, value) AS maybe",
)


def started(spark: SparkSession, table: Path) -> StreamingQuery:
    """A query with small files of every type of column, and a batch in a tenth of a second."""
    source = spark.readStream.format("rate-micro-batch")
    rows = source.options(rowsPerBatch=4, numPartitions=1).load().selectExpr(*COLUMNS)
    writer = rows.writeStream.format("parquet").partitionBy("datacenter", "hour")
    writer = writer.option("checkpointLocation", str(table / "_checkpoint"))
    return writer.trigger(processingTime="100 milliseconds").start(str(table))


def wait_for_batches(query: StreamingQuery, count: int) -> None:
    begin = -1
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        assert query.exception() is None
        last = query.lastProgress
        if last is not None:
            begin = last.batchId if begin < 0 else begin
            if last.batchId >= begin + count:
                return
        time.sleep(0.1)
    raise AssertionError(f"no {count} batches in {WAIT_SECONDS_MAX} s")


def values_in(spark: SparkSession, table: Path) -> list[int]:
    return sorted(row.value for row in spark.read.parquet(str(table)).select("value").collect())


def test_a_job_leaves_what_has_no_list_of_files_alone(tmp_path: Path) -> None:
    done = compacting_of(Format.parquet, str(tmp_path), (), 0).compact()
    assert done == f"{tmp_path}: nothing to compact"


def upkeep(table: Path) -> str:
    problem, said = run_upkeep(str(table), files_min=2, small_bytes=SMALL_BYTES, keep_hours=24)
    assert problem is None
    return said


def test_rows_and_columns_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    query = started(spark, tmp_path)
    try:
        wait_for_batches(query, BATCHES_PER_COMPACT + 2)
    finally:
        query.stop()
    before = spark.read.parquet(str(tmp_path))
    schema, rows = before.schema, {row.value: row for row in before.collect()}
    many = len(named_files(tmp_path))
    assert "files became 2;" in upkeep(tmp_path)
    after = spark.read.parquet(str(tmp_path))
    assert after.schema == schema
    assert {row.value: row for row in after.collect()} == rows
    assert len(named_files(tmp_path)) < many
    # Spark, as any reader, can select by the times that were INT96.
    assert after.where("timestamp < now() AND headers[0].at = timestamp").count() == len(rows)

    # The query goes on, and its next list of files has those of the compaction.
    compacted = {path for path in named_files(tmp_path) if "compacted" in path.name}
    query = started(spark, tmp_path)
    try:
        wait_for_batches(query, BATCHES_PER_COMPACT + 2)
    finally:
        query.stop()
    assert compacted <= {Path(each.path) for each in read_compact(tmp_path)[1]}
    found = values_in(spark, tmp_path)
    assert found == list(range(len(found)))
    assert len(found) > len(rows)
    # After a day a reader that takes every file of the folder sees each row once, too.
    assert "files became" in compacting_of(Format.parquet, str(tmp_path), (), 0).compact()
    assert delete_unnamed(tmp_path, 24, now_ms() + DAY_MS + 60_000) > 0
    assert set(tmp_path.rglob("*.parquet")) == named_files(tmp_path)
    assert values_in(spark, tmp_path) == found


def test_each_row_once_over_kills_beside_a_running_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    program = (
        "import sys; from spark_global.parquet.maintaining import run_upkeep; "
        f"sys.exit(run_upkeep(sys.argv[1], files_min=2, small_bytes={SMALL_BYTES}, keep_hours=24)"
        "[0])"
    )
    query = started(spark, tmp_path)
    kills, read = 0, 0
    try:
        wait_for_batches(query, BATCHES_PER_COMPACT + 1)
        while kills < KILLS:
            command = subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path)], cwd=PRESENT_CODE
            )
            try:
                assert command.wait(chance.uniform(0.3, 2.5)) == 0
            except subprocess.TimeoutExpired:
                command.kill()
                command.wait()
                kills += 1
            found = values_in(spark, tmp_path)
            assert found == list(range(len(found)))
            assert len(found) >= read
            read = len(found)
            assert query.exception() is None
    finally:
        query.stop()
    upkeep(tmp_path)
    found = values_in(spark, tmp_path)
    assert found == list(range(len(found)))
