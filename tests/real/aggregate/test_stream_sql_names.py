"""Windows by SQL over streams when links join, merge, die and get other names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import Block, FlowKey, Run, encode_record, map_topic_name
from spark_global.followed_links import write_links
from spark_global.materialize import Materialization, start_materializing
from spark_global.stream_sql import stream_query
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.producing import produce_to
from tests.support.stating_mirrors import Mirrors
from tests.support.streaming_job import write_parquet

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

SOURCES = ("jfk", "lga")
WAIT_SECONDS_MAX = 200.0
BOTH = ["JFK", "LGA"]


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("stream-sql-names")) as nyc:
        yield nyc


class Query:
    """A query over streams that reads what is there, and goes on where it stopped."""

    def __init__(
        self, spark: SparkSession, nyc: Aggregated, columns: str, view: str, out: Path
    ) -> None:
        self._spark, self._nyc, self._out = spark, nyc, out
        self._query = f"SELECT unix_seconds(window_start) AS at, {columns} FROM stream_{view}"

    def rows(self, *sources: str, late: int = 0, **options: str) -> list[tuple[Any, ...]]:
        """Run with the links of these sources; return all rows of all runs."""
        aggregate = self._nyc.aggregate(*sources)
        frame = stream_query(
            self._spark, aggregate, self._query, None, late_seconds=late, **options
        )
        write_parquet(frame, self._out, available_now=True).awaitTermination()
        rows = self._spark.read.schema(frame.schema).parquet(f"{self._out}/rows").collect()
        return sorted(map(tuple, rows), key=str)


def test_a_link_that_joined_is_not_waited_for_under_its_alias(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """The first run knows JFK only, and calls what joins `lga`; the next one calls it LGA."""
    mirrors = Mirrors(nyc, "n")
    of = {
        "strict_windows": "records, datacenters, is_late",
        "top_keys": "decode(key, 'UTF-8') AS key, records, datacenters, place",
    }
    queries = {
        view: Query(spark, nyc, columns, f"global_n_{view}", tmp_path / view)
        for view, columns in of.items()
    }
    kept = Materialization(
        view="global_n_conflicts", path=str(tmp_path / "kept"), stops_at_end=True, late_seconds=0
    )

    def keep(*sources: str) -> list[tuple[Any, ...]]:
        start_materializing(spark, nyc.aggregate(*sources), kept).awaitTermination()
        columns = "unix_seconds(window_start)", "key", "datacenters", "late_records"
        if not list((tmp_path / "kept").glob("batch=*")):
            return []
        found = spark.read.parquet(kept.path).selectExpr(*columns).collect()
        return sorted(map(tuple, found), key=str)

    mirrors.copy("jfk", range(6), range(300, 303), through=600, keys=3)
    mirrors.copy("lga", range(3), through=50, keys=3)
    assert queries["strict_windows"].rows("jfk") == []
    assert queries["top_keys"].rows("jfk") == []
    # What LGA has so far is kept under the name `lga`, and so it is one datacenter with LGA.
    conflicts = [(0, f"k{n}".encode(), BOTH, 0) for n in range(3)]
    keep("jfk")
    mirrors.copy("lga", range(3, 6), through=700, keys=3)
    strict = queries["strict_windows"].rows(*SOURCES)
    assert strict == [(0, 12, BOTH, False), (300, 3, ["JFK"], False)]
    assert queries["top_keys"].rows(*SOURCES) == [
        (0, "k0", 5, 2, 1),
        (0, "k1", 5, 2, 2),
        (0, "k2", 5, 2, 3),
    ]
    assert keep(*SOURCES) == conflicts


def test_a_running_query_learns_the_name_of_a_datacenter(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """The file of links names LGA when the query has read records of it under its alias."""
    mirrors, file = Mirrors(nyc, "f"), tmp_path / "links.json"
    write_links(file, nyc.aggregate("jfk").links)
    aggregate = replace(nyc.aggregate("jfk"), links_file=str(file))
    query = "SELECT unix_seconds(window_start) AS at, {} FROM stream_global_f_{}"
    strict = stream_query(
        spark,
        aggregate,
        query.format("records, datacenters", "strict_windows"),
        late_seconds=0,
    )
    running = write_parquet(strict, tmp_path, available_now=False)

    def wait_for(expected: list[tuple[Any, ...]]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        rows = spark.read.schema(strict.schema)
        while True:
            found = tmp_path / "rows" / "_spark_metadata"
            seen = rows.parquet(f"{tmp_path}/rows").collect() if found.is_dir() else []
            if sorted(map(tuple, seen)) == expected:
                return
            assert running.isActive and time.monotonic() < deadline, (seen, running.exception())
            time.sleep(0.5)

    try:
        mirrors.copy("lga", range(3), through=300)
        mirrors.copy("jfk", range(4), range(300, 302), through=300)
        first = (0, 7, ["JFK", "lga"])
        wait_for([first])
        mirrors.copy("lga", range(300, 304), through=400)
        write_links(file, nyc.aggregate(*SOURCES).links)
        mirrors.copy("lga", range(500, 501), through=600)
        mirrors.copy("jfk", through=600)
        wait_for([first, (300, 7, BOTH)])
    finally:
        running.stop()


def test_other_lateness_closes_no_window_twice(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    mirrors = Mirrors(nyc, "l")
    query = Query(spark, nyc, "records, is_late", "global_l_strict_windows", tmp_path)
    for source in SOURCES:
        mirrors.copy(source, range(5), range(300, 302), through=300)
    assert query.rows(*SOURCES) == [(0, 10, False)]
    mirrors.copy("lga", range(5, 6), through=650)
    mirrors.copy("jfk", through=650)
    assert query.rows(*SOURCES, late=60) == [(0, 1, True), (0, 10, False)]
    mirrors.copy("jfk", through=651)
    assert query.rows(*SOURCES, late=50) == [(0, 1, True), (0, 10, False), (300, 4, False)]


def test_a_stream_of_one_datacenter_waits_for_no_other(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    mirrors = Mirrors(nyc, "d")
    mirrors.copy("jfk", range(5), through=300)
    mirrors.copy("lga", range(7), through=100)
    query = Query(spark, nyc, "records, datacenters", "global_d_strict_windows", tmp_path)
    assert query.rows(*SOURCES, datacenters="JFK", partitions="0") == [(0, 5, ["JFK"])]


class Merged:
    """Two links that copy a topic of each source into one topic, in turn."""

    def __init__(self, nyc: Aggregated, topic: str) -> None:
        self._nyc, self._topic = nyc, topic
        self._end = 0
        self._runs: dict[str, list[Run]] = {name: [] for name in SOURCES}
        nyc.run(nyc.create(topic, partitions=2))  # the second partition stays empty

    def copy(self, source: str, seconds: range, *, through: int) -> None:
        self._nyc.run(self._nyc.copy(self._topic, seconds, keys=2, said=source))
        runs = self._runs[source]
        first = SHIFT + sum(run.records_count for run in runs)
        runs.append(Run(first, self._end, len(seconds)))
        self._end += len(seconds)
        self._nyc.run(self._publish(source, first + len(seconds)))
        position = first + len(seconds)
        self._nyc.run(self._nyc.state_complete(source, self._topic, position, through * 1_000))

    async def _publish(self, source: str, source_next: int) -> None:
        name = map_topic_name(f"{source}-nyc")
        if name not in self._nyc.published:
            self._nyc.published.add(name)
            await self._nyc.create(name, cleanup="compact")
            await self._nyc.register(source, name)
        runs = tuple(self._runs[source])
        block = Block(
            flow=FlowKey(self._topic, 0, UUID(int=0), UUID(int=0)),
            producer_id=1,
            producer_epoch=0,
            nonce=1,
            target_topic=self._topic,
            source_start=runs[0].source_offset,
            target_start=runs[0].target_offset,
            source_next=source_next,
            next_sequence=source_next - SHIFT,
            runs=runs,
        )
        async with KafkaClient(self._nyc.bootstrap) as client:
            record = NewRecord(0, *encode_record(block))
            await produce_to(client, TopicPartition(name, 0), encode_batch([record]))


def test_merged_topics_of_a_dead_datacenter_over_runs(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """One topic has the records of both links in turn. LGA is dead, and comes back."""
    merged = Merged(nyc, "m")
    of = {
        "strict_windows": "records, datacenters, is_late",
        "fast_windows": "records, missing, is_late, batch",
        "datacenter_windows": "datacenter, records, is_late",
        "top_keys": "decode(key, 'UTF-8') AS key, records, datacenters, place",
    }
    queries = {
        view: Query(spark, nyc, columns, f"global_m_{view}", tmp_path / view)
        for view, columns in of.items()
    }

    def rows(view: str) -> list[tuple[Any, ...]]:
        return queries[view].rows(*SOURCES)

    merged.copy("jfk", range(4), through=50)
    merged.copy("lga", range(3), through=100)
    merged.copy("jfk", range(300, 305), through=600)
    assert rows("strict_windows") == [] == rows("top_keys")
    assert rows("datacenter_windows") == [(0, "JFK", 4, False), (300, "JFK", 5, False)]
    assert [row[:4] for row in rows("fast_windows")] == [
        (0, 7, ["LGA"], False),
        (300, 5, ["LGA"], False),
    ]
    merged.copy("lga", range(290, 292), through=600)
    merged.copy("jfk", range(600, 601), through=700)
    assert rows("strict_windows") == [(0, 9, BOTH, False), (300, 5, ["JFK"], False)]
    assert rows("datacenter_windows") == [
        (0, "JFK", 4, False),
        (0, "LGA", 5, False),
        (300, "JFK", 5, False),
    ]
    newest = {row[0]: row[1:3] for row in sorted(rows("fast_windows"), key=lambda row: row[4])}
    assert newest == {0: (9, []), 300: (5, []), 600: (1, BOTH)}
    # k0 of JFK: 0, 2, 300, 302, 304; of LGA: 0, 2, 290. k1: 1, 3, 301, 303 and 1, 291.
    assert rows("top_keys") == [(0, "k0", 8, 2, 1), (0, "k1", 6, 2, 2)]


def test_far_times_in_a_session_of_another_zone(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """Records from before 1970 and of the year 2500, with and without keys.

    Two have microseconds and nanoseconds for milliseconds: years that Spark does not have.
    """
    mirrors = Mirrors(nyc, "t")
    far = 16_725_225_600
    limit = {"message.timestamp.after.max.ms": str(2**63 - 1)}

    async def allow_any_time() -> None:
        async with KafkaClient(nyc.bootstrap) as client:
            changed = await alter_topic_configs(client, {f"{each}.t": limit for each in SOURCES})
            assert not any(changed.values()), changed

    nyc.run(allow_any_time())
    last = 253_402_300_799  # of the year 9999
    times = [range(-400, -398), range(3), range(far, far + 2)]
    wrong = [range(at, at + 1) for at in (1_700_000_000_000, 1_700_000_000_000_000)]
    mirrors.copy("jfk", *times, *wrong, through=last + 600)
    mirrors.copy("lga", range(2), through=last + 600, keys=1)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        strict = Query(spark, nyc, "records, is_late", "global_t_strict_windows", tmp_path / "s")
        assert strict.rows(*SOURCES) == [
            (-600, 2, False),
            (0, 5, False),
            (far, 2, False),
            (last // 300 * 300, 2, False),
        ]
        columns = "decode(key, 'UTF-8') AS key, records"
        top = Query(spark, nyc, columns, "global_t_top_keys", tmp_path / "t")
        assert top.rows(*SOURCES) == [(0, "k0", 2)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
