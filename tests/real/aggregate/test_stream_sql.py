"""SQL over streams: the views `stream_<view>`, and a query that is kept as a table."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from spark_global.materialize import Materialization, start_materializing, streaming_rows
from spark_global.stream_sql import create_stream_views, stream_query
from spark_global.streamable import UnknownViewError
from spark_global.values.declaring import Decoding, PartDecoding, TopicDecoding
from spark_global.views import create_views
from tests.support.aggregated import SHIFT, Aggregated
from tests.support.cluster import running_broker
from tests.support.stating_mirrors import Mirrors
from tests.support.streaming_job import write_parquet

pytestmark = pytest.mark.real

SOURCES = ("jfk", "lga")
RECORDS = 200
"""Of each source, one per second; the keys of both are k0 to k6 in turn."""
WINDOWS = """
    SELECT window(timestamp, '30 seconds').start AS window_start, datacenter, count(*) AS n
    FROM {0} GROUP BY window(timestamp, '30 seconds'), datacenter
"""
PAIRS = """
    SELECT a.datacenter AS first_datacenter, b.datacenter AS second_datacenter,
           a.timestamp AS first_timestamp, b.timestamp AS second_timestamp
    FROM {0} AS a JOIN {0} AS b
      ON a.key = b.key AND a.datacenter = 'JFK' AND b.datacenter = 'LGA'
     AND b.timestamp BETWEEN a.timestamp AND a.timestamp + INTERVAL 10 SECONDS
     AND a.timestamp > timestamp_seconds(0)
"""
"""Without the first record: Spark's watermark begins at its time, and so takes it for late."""


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with asyncio.Runner() as runner:
        context = running_broker(zookeeper, tmp_path_factory.mktemp("stream-sql-broker"))
        broker = runner.run(context.__aenter__())
        try:
            nyc = Aggregated(broker.bootstrap, runner)
            for source in SOURCES:
                nyc.run(nyc.create(f"{source}.v"))
                nyc.run(nyc.copy(f"{source}.v", range(RECORDS), keys=7))
                nyc.run(nyc.publish_map(source, "v", RECORDS))
            yield nyc
        finally:
            runner.run(context.__aexit__(None, None, None))


def drained(frame: DataFrame, out: Path) -> list[Row]:
    """Let a stream run over all that there is; return its rows in order."""
    write_parquet(frame, out, available_now=True).awaitTermination()
    rows = frame.sparkSession.read.schema(frame.schema).parquet(f"{out}/rows")
    return sorted(rows.select(*frame.columns).collect(), key=str)


def asked(spark: SparkSession, nyc: Aggregated, query: str) -> list[Row]:
    """Ask the batch views."""
    create_views(spark, nyc.aggregate(*SOURCES), query)
    return sorted(spark.sql(query).collect(), key=str)


def test_stream_views_are_sql_views_of_streams(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    aggregate = nyc.aggregate(*SOURCES)
    names = create_stream_views(spark, aggregate, late_seconds=5, maxRecordsPerTrigger=150)
    waiting = ("strict_windows", "fast_windows", "datacenter_windows", "top_keys")
    assert set(names) == {
        "stream_global_v",
        *(f"stream_global_v_{each}" for each in ("windows", "conflicts", *waiting)),
    }
    # Two uses of one view are two uses of its rows.
    twice = spark.sql(
        "SELECT datacenter, offset FROM stream_global_v WHERE partition = 0 UNION ALL "
        "SELECT datacenter, offset FROM stream_global_v WHERE datacenter = 'JFK'"
    )
    assert twice.isStreaming
    found = Counter(map(tuple, drained(twice, tmp_path / "twice")))
    offsets = range(SHIFT, SHIFT + RECORDS)
    assert found == Counter(
        {(name, at): uses for name, uses in (("JFK", 2), ("LGA", 1)) for at in offsets}
    )
    # A window is written when the watermark passes its end: 199 s less 5.
    conflicts = spark.sql(
        "SELECT key, window_start, winner FROM stream_global_v_conflicts WHERE key <> 'k1'"
    )
    expected = asked(
        spark, nyc, "SELECT key, window_start, winner FROM global_v_conflicts WHERE key <> 'k1'"
    )
    closed = [row for row in expected if row.window_start.timestamp() + 60 <= 194]
    assert drained(conflicts, tmp_path / "conflicts") == closed
    assert len(closed) == 6 * 3 < len(expected)


def test_a_question_reads_the_columns_that_it_needs(spark: SparkSession, nyc: Aggregated) -> None:
    wanted = Materialization(view="global_v_windows", path="unused")
    rows = streaming_rows(spark, nyc.aggregate(*SOURCES), wanted)
    plan = str(rows._jdf.queryExecution().analyzed().toString())
    assert "columns=datacenter,topic,timestamp,value]" in plan.replace(" ", "")


def test_a_query_over_streams_has_the_answer_of_the_batch(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """Windows and a join, with watermarks of the query's own."""
    view = "stream_global_v WATERMARK timestamp DELAY OF INTERVAL 20 SECONDS"
    windows = stream_query(spark, nyc.aggregate(*SOURCES), WINDOWS.format(view))
    # It builds the columns that it needs.
    plan = str(windows._jdf.queryExecution().analyzed().toString())
    assert "columns=datacenter,timestamp" in plan
    expected = asked(spark, nyc, WINDOWS.format("global_v"))
    closed = [row for row in expected if row.window_start.timestamp() + 30 <= 179]
    assert drained(windows, tmp_path / "windows") == closed
    assert [row.n for row in closed] == 10 * [30] and len(expected) == 14

    pairs = stream_query(
        spark, nyc.aggregate(*SOURCES), PAIRS.format(view), maxRecordsPerTrigger=150
    )
    found = drained(pairs, tmp_path / "pairs")
    assert found == asked(spark, nyc, PAIRS.format("global_v"))
    assert len(found) == RECORDS - 1 + RECORDS - 8


@pytest.mark.long
def test_a_query_is_kept_as_a_table_and_goes_on(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    query = """
        SELECT datacenter, timestamp, offset, upper(decode(value, 'UTF-8')) AS said
        FROM stream_global_w WHERE `offset` % 2 = 0
    """

    part = PartDecoding(format="json", schema=str(tmp_path / "j.json"))
    decoding = Decoding(topics={"j": TopicDecoding(value=part)})

    def keep(query: str, path: Path, decoding: Decoding | None = None) -> DataFrame:
        wanted = Materialization(
            view="even", path=str(path), stops_at_end=True, query=query, decoding=decoding
        )
        start_materializing(spark, nyc.aggregate(*SOURCES), wanted).awaitTermination()
        return spark.read.parquet(str(path))

    nyc.run(nyc.create("jfk.w"))
    for end in (10, 16):
        nyc.run(nyc.copy("jfk.w", range(end - 10 if end == 10 else 10, end)))
        nyc.run(nyc.publish_map("jfk", "w", end))
        rows = keep(query, tmp_path / "even").collect()
        assert sorted((row.offset, row.said) for row in rows) == [
            (SHIFT + n, f"JFK.W {n}") for n in range(0, end, 2)
        ]
    assert (tmp_path / "even" / "datacenter=JFK" / "hour=1970-01-01-00").is_dir()
    # Columns by which a table is partitioned may be all that there is, or none of them.
    nyc.run(nyc.create("jfk.j"))
    nyc.run(nyc.append("jfk.j", [b'{"id": 1}', b"no", b'{"id": 2}']))
    nyc.run(nyc.publish_map("jfk", "j", 3))
    ids = keep("SELECT value.id FROM stream_decoded_j", tmp_path / "ids", decoding)
    assert sorted(row.id for row in ids.collect()) == [1, 2]
    names = keep("SELECT datacenter FROM stream_global_w", tmp_path / "names")
    assert Counter(row.datacenter for row in names.collect()) == {"JFK": 16}


def test_queries_that_are_no_streams_are_refused(spark: SparkSession, nyc: Aggregated) -> None:
    aggregate = nyc.aggregate(*SOURCES)
    for query, message in (
        ("SELECT * FROM global_v", r"mentions no stream of nyc; try: .*stream_global_v"),
        ("SELECT * FROM stream_global_v_cross_datacenter_pairs", r"materialize global_v_.* PATH"),
        ("SELECT * FROM stream_global_v_latest_per_key", r"--to iceberg --upsert key"),
        ("SELECT * FROM stream_global_v_gaps", r"ask it by `heliograph sql`"),
    ):
        with pytest.raises(UnknownViewError, match=message):
            stream_query(spark, aggregate, query)


WAITING = {
    "strict_windows": "records, datacenters, is_late",
    "fast_windows": "records, missing, is_complete, batch",
    "datacenter_windows": "datacenter, records, is_late, with_gaps",
    "top_keys": "decode(key, 'UTF-8') AS key, records, datacenters, place, late_records",
}
"""Columns by view."""
BOTH = ["JFK", "LGA"]
DATACENTERS = [
    (0, "JFK", 10, False, True),
    (0, "LGA", 4, False, False),
    (600, "JFK", 5, False, True),
]
TOP = [
    *((0, "k0", 8, 2, 1, 0), (0, "k1", 7, 2, 2, 0), (0, "k2", 1, 1, 3, 0)),
    *((600, "k0", 3, 1, 1, 0), (600, "k1", 3, 2, 2, 0), (600, "k2", 1, 1, 3, 0)),
]
"""In the first window k0 has 6 records of JFK and 2 of LGA, k1 6 and 1, k2 1 of LGA."""
TOP_KEYS_OF_BATCH = """
    SELECT unix_seconds(window_start) AS at, decode(key, 'UTF-8') AS key,
           records, datacenters, place, 0 AS late_records
    FROM global_{0}_top_keys WHERE window_start < timestamp_seconds(1200)
"""
PLANTED: dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "strict_windows": (
        [(0, 14, BOTH, False)],
        [(0, 14, BOTH, False), (0, 2, ["JFK"], True), (600, 7, BOTH, False)],
    ),
    "fast_windows": (
        [(0, 14, [], True, 1), (600, 5, ["LGA"], False, 1)],
        [
            *((0, 14, [], True, 1), (0, 2, [], True, 2), (1_200, 1, BOTH, False, 2)),
            *((600, 5, ["LGA"], False, 1), (600, 7, [], True, 2)),
        ],
    ),
    "datacenter_windows": (
        DATACENTERS,
        sorted([*DATACENTERS, (0, "JFK", 2, True, True), (600, "LGA", 2, False, False)], key=str),
    ),
    "top_keys": ([], TOP),
}
"""The rows of each view, while LGA is dead and when it is back."""


@pytest.mark.parametrize(
    "view",
    [
        "strict_windows",
        pytest.param("top_keys", marks=pytest.mark.long),
        pytest.param("fast_windows", marks=pytest.mark.long),
        pytest.param("datacenter_windows", marks=pytest.mark.long),
    ],
)
def test_windows_that_wait_for_datacenters_are_sql_views_of_streams(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, view: str
) -> None:
    aggregate, topic = nyc.aggregate(*SOURCES), view[0]
    table = f"stream_global_{topic}_{view}"
    query = f"SELECT unix_seconds(window_start) AS at, {WAITING[view]} FROM {table}"

    def rows() -> list[tuple[Any, ...]]:
        """Let the query read what is there; return all of its rows."""
        frame = stream_query(spark, aggregate, query, late_seconds=0)
        assert frame.isStreaming
        return [tuple(row) for row in drained(frame, tmp_path)]

    while_dead, when_back = PLANTED[view]
    mirrors = Mirrors(nyc, topic)
    # LGA is dead from 400 s on. Its peer has its answers, strict windows wait.
    mirrors.copy("lga", range(4), through=400, keys=3)
    mirrors.copy("jfk", range(10), range(600, 605), through=1_200, keys=2, gaps=1)
    assert rows() == while_dead
    # LGA is back. JFK has records of a window that is closed, if windows are of five minutes.
    mirrors.copy("lga", range(601, 603), range(1_300, 1_301), through=1_260, keys=3)
    mirrors.copy("jfk", range(5, 7), through=1_200, keys=2, gaps=1)
    assert rows() == when_back
    if view == "top_keys":
        # So says the batch view, of all windows that are closed.
        batch = asked(spark, nyc, TOP_KEYS_OF_BATCH.format(topic))
        assert list(map(tuple, batch)) == when_back
