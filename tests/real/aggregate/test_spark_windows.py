"""Windows as a stream: strict ones wait for a dead datacenter, fast ones and its peers go on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from local_cluster.client.model import TopicPartition
from spark_global.materialize import Materialization, start_materializing
from spark_global.source.reading import read_ranges
from spark_global.source.rows import record_rows
from spark_global.streaming.discovery import MAP_SECONDS_MAX
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import StreamPositions
from spark_global.streaming.sharing import Limits
from spark_global.views import load_table, read_options, stream_records
from spark_global.windowing.answering import Asking, answer_rows
from spark_global.windowing.closed_questions import CLOSED_QUESTIONS
from spark_global.windowing.closing import Closing, WindowKind
from spark_global.windowing.keeping import Windowing, window_rows, write_batch
from spark_global.windowing.latest import latest_windows
from tests.support.aggregated import Aggregated, running_aggregated
from tests.support.merging_mirrors import MergingMirrors
from tests.support.stating_mirrors import Mirrors

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 200.0
BOTH = ["JFK", "LGA"]


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("windows-broker")) as nyc:
        yield nyc


class Query:
    """A query that writes the three kinds of windows, each to a folder of its own."""

    def __init__(
        self, spark: SparkSession, nyc: Aggregated, folder: Path, topic: str = "w"
    ) -> None:
        self._spark, self._nyc, self._folder, self._topic = spark, nyc, folder, topic
        self._checkpoint = folder / "checkpoint"
        self._running: StreamingQuery | None = None

    def start(self) -> None:
        rows_of = {
            kind: window_rows(
                Windowing(topic=self._topic, how=Closing(kind, 0), checkpoint=str(self._checkpoint))
            )
            for kind in WindowKind
        }

        def write(records: DataFrame, batch: int) -> None:
            for kind, rows in rows_of.items():
                write_batch(rows(records, batch), batch, str(self._folder / kind))

        frame = stream_records(
            self._spark,
            self._nyc.aggregate("jfk", "lga"),
            topic=self._topic,
            carry_completeness="true",
        )
        self._running = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime="1 second")
            .start()
        )

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def forget_last_batch(self, *, without_rows: WindowKind) -> None:
        """Leave a checkpoint as a kill -9 does: the batch has run, and Spark does not know it.

        The rows of one kind are not written yet; its state is.
        """
        with_state = {int(each.name) for each in self._states().glob("[0-9]*")}
        last = max(with_state)
        for name in (str(last), f".{last}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)
        shutil.rmtree(self._folder / without_rows / f"batch={last}", ignore_errors=True)

    def _states(self) -> Path:
        return self._checkpoint / "windows" / WindowKind.DATACENTER

    def rows(self, kind: WindowKind, *columns: str) -> list[tuple[Any, ...]]:
        if not list((self._folder / kind).glob("batch=*/_SUCCESS")):
            return []
        rows = self._spark.read.parquet(str(self._folder / kind))
        chosen = rows.selectExpr("unix_seconds(window_start)", *columns, "batch").collect()
        return [tuple(row)[:-1] for row in sorted(chosen, key=lambda row: (row[-1], *row[:2]))]

    def strict(self) -> list[tuple[Any, ...]]:
        return self.rows(WindowKind.STRICT, "records", "datacenters", "is_late")

    def fast(self) -> dict[Any, tuple[Any, ...]]:
        """Return the last row of each window."""
        rows = self.rows(WindowKind.FAST, "records", "missing", "is_complete", "is_late")
        return {row[0]: row[1:4] for row in rows if not row[4]}

    def datacenter(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows(WindowKind.DATACENTER, "datacenter", "records", "is_late"))

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not is_done():
            running = self._running
            assert running is not None and running.isActive, running and running.exception()
            assert time.monotonic() < deadline, (self.strict(), self.fast(), self.datacenter())
            time.sleep(0.5)


class Questions:
    """A query that asks the questions of closed windows, each into a folder of its own."""

    def __init__(self, spark: SparkSession, nyc: Aggregated, folder: Path) -> None:
        self._spark, self._nyc, self._folder = spark, nyc, folder
        self._checkpoint = folder / "checkpoint"

    def run(self) -> None:
        """Read what is there."""
        rows_of = {
            name: answer_rows(Asking(topic="q", name=name, checkpoint=str(self._checkpoint)))
            for name in CLOSED_QUESTIONS
        }

        def write(records: DataFrame, batch: int) -> None:
            records.persist()
            for name, rows in rows_of.items():
                write_batch(rows(records, batch), batch, str(self._folder / name))
            records.unpersist()

        stream = stream_records(
            self._spark,
            self._nyc.aggregate("jfk", "lga"),
            topic="q",
            carry_completeness="true",
        )
        writer = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self._checkpoint)).start().awaitTermination()

    def forget_last_batch(self) -> None:
        """Leave a checkpoint as a kill -9 does: state and records are there, no row is."""
        last = max(int(each.name) for each in (self._checkpoint / "commits").glob("[0-9]*"))
        for name in (str(last), f".{last}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)
        for question in CLOSED_QUESTIONS:
            shutil.rmtree(self._folder / question / f"batch={last}", ignore_errors=True)

    def rows(self, name: str) -> DataFrame:
        return self._spark.read.parquet(str(self._folder / name)).drop("batch")

    def answers(self, name: str, *columns: str) -> list[str]:
        found = self.rows(name).where("late_records = 0").select(*columns).collect()
        return sorted(map(str, found))

    def late(self, name: str) -> list[tuple[Any, ...]]:
        columns = ("unix_seconds(window_start)", "late_records")
        found = self.rows(name).where("late_records > 0").selectExpr(*columns).collect()
        return sorted(map(tuple, found))


@pytest.mark.long
def test_questions_of_closed_windows_answer_as_the_batch_views(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    mirrors, questions = Mirrors(nyc, "q"), Questions(spark, nyc, tmp_path)
    mirrors.copy("lga", range(40), through=100, keys=7)
    mirrors.copy("jfk", range(50), range(280, 320), through=700, keys=5)
    questions.run()
    # LGA is dead: only the first minute is closed.
    assert {row.window_start.timestamp() for row in questions.rows("conflicts").collect()} == {0}
    assert not list(tmp_path.glob("top_keys/batch=*"))
    questions.forget_last_batch()
    mirrors.copy("lga", range(290, 330), through=10_000, keys=7)
    mirrors.copy("jfk", through=10_000)
    questions.run()
    records = load_table(spark, nyc.aggregate("jfk", "lga"), "records", topic="q").cache()
    for name, (question, _) in CLOSED_QUESTIONS.items():
        batch = question(records)
        expected = sorted(map(str, batch.collect()))
        assert expected and questions.answers(name, *batch.columns) == expected
        assert questions.late(name) == []
    # What comes too late is counted. For pairs it is also too late for the window before its own,
    # if it lies within 30 s of it: windows are closed that never had a record.
    mirrors.copy("jfk", range(20, 23), range(9_910, 9_911), through=20_000, keys=5)
    mirrors.copy("lga", through=20_000)
    questions.run()
    assert questions.late("top_keys") == [(0, 3)]
    assert questions.late("conflicts") == [(0, 3), (9_900, 1)]
    assert questions.late("cross_datacenter_pairs") == [(-300, 3), (0, 3), (9_600, 1)]
    # As `spark materialize` keeps one of them, all records in one batch.
    wanted = Materialization(
        view="global_q_conflicts",
        path=str(tmp_path / "kept"),
        trigger_seconds=0,
        stops_at_end=True,
        late_seconds=0,
    )
    start_materializing(spark, nyc.aggregate("jfk", "lga"), wanted).awaitTermination()
    records = load_table(spark, nyc.aggregate("jfk", "lga"), "records", topic="q")
    batch = CLOSED_QUESTIONS["conflicts"][0](records)
    kept = spark.read.parquet(wanted.path).where("late_records = 0").select(*batch.columns)
    assert kept.count() > 2 and sorted(map(str, kept.collect())) == sorted(
        map(str, batch.collect())
    )


def test_a_dead_datacenter_freezes_no_answer_and_falsifies_none(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    mirrors, query = Mirrors(nyc), Query(spark, nyc, tmp_path)
    mirrors.copy("lga", range(4), through=200)
    mirrors.copy("jfk", range(10), range(300, 305), through=600, gaps=1)
    query.start()
    try:
        # LGA is dead from 200 s on.
        mirrors.copy("jfk", range(600, 606), through=900, gaps=1)
        of_jfk = [(0, "JFK", 10, False), (300, "JFK", 5, False), (600, "JFK", 6, False)]
        lacking = {each: (n, ["LGA"], False) for each, n in ((0, 14), (300, 5), (600, 6))}
        query.wait_for(lambda: query.datacenter() == of_jfk and query.fast() == lacking)
        assert query.strict() == []
        query.stop()
        query.forget_last_batch(without_rows=WindowKind.FAST)
        # LGA is back, with records of windows that others have closed long ago.
        mirrors.copy("lga", range(290, 293), range(310, 312), through=700)
        query.start()
        waited = [(0, 17, BOTH, False), (300, 7, BOTH, False)]
        query.wait_for(lambda: query.strict() == waited)
        exact = {0: (17, [], True), 300: (7, [], True), 600: (6, ["LGA"], False)}
        query.wait_for(lambda: query.fast() == exact)
        of_both = sorted([*of_jfk, (0, "LGA", 7, False), (300, "LGA", 2, False)])
        query.wait_for(lambda: query.datacenter() == of_both)
        # A statement closes a window, though no record comes.
        mirrors.copy("lga", through=1_000)
        waited.append((600, 6, ["JFK"], False))
        query.wait_for(lambda: query.strict() == waited)
        # A producer gives an old timestamp: the record is in a row of its own.
        mirrors.copy("jfk", range(5, 7), through=1_000)
        query.wait_for(lambda: query.strict() == [*waited, (0, 2, ["JFK"], True)])
        query.wait_for(lambda: query.datacenter() == sorted([*of_both, (0, "JFK", 2, True)]))
        # The journal of JFK had an entry once.
        strict = query.rows(WindowKind.STRICT, "with_gaps")
        fast = query.rows(WindowKind.FAST, "with_gaps", "is_complete")
        assert {tuple(row[1]) for row in strict} == {("JFK",)}
        assert {tuple(row[1]) for row in fast if row[2]} == {("JFK",)}
        of_one = query.rows(WindowKind.DATACENTER, "datacenter", "with_gaps")
        assert {row[1:] for row in of_one} == {("JFK", True), ("LGA", False)}
    finally:
        query.stop()
    # A reader has one row per window, late records and all.
    latest = latest_windows(spark.read.parquet(str(tmp_path / WindowKind.FAST)))
    columns = ("unix_seconds(window_start)", "records", "late_records", "missing", "is_complete")
    assert sorted(map(tuple, latest.selectExpr(*columns).collect())) == [
        (0, 19, 2, [], True),
        (300, 7, 0, [], True),
        (600, 6, 0, [], True),
    ]
    # Whoever begins later reads the same records, and none of them is late.
    wanted = Materialization(
        view="global_w_strict_windows",
        path=str(tmp_path / "later"),
        stops_at_end=True,
        late_seconds=0,
    )
    start_materializing(spark, nyc.aggregate("jfk", "lga"), wanted).awaitTermination()
    later = spark.read.parquet(wanted.path).orderBy("window_start").collect()
    assert [(row.records, row.datacenters, row.is_late) for row in later] == [
        (19, BOTH, False),
        (7, BOTH, False),
        (6, ["JFK"], False),
    ]


def test_the_tail_of_a_link_that_died_holds_no_other_back_for_long(nyc: Aggregated) -> None:
    """Links merge, and the worker of JFK dies before it writes the map of its last records."""
    mirrors = MergingMirrors(nyc, "tail")
    mirrors.copy("jfk", range(5), through=10)
    mirrors.copy("jfk", range(5, 8), through=10, is_mapped=False)
    mirrors.copy("lga", range(4), through=10)
    at, now = TopicPartition("tail", 0), 0.0
    options = replace(read_options(nyc.aggregate("jfk", "lga")), topic="tail")
    planner = StreamPlanner(options, lambda: now)

    def advance(held: StreamPositions, most: int | None = None) -> StreamPositions:
        limits = Limits(records_max=most)
        end: StreamPositions = nyc.run(
            planner.advance(held, limits, None, is_first_batch=not held.offsets)
        )
        return StreamPositions.decode(end.encode())

    def read(planner: StreamPlanner, *span: StreamPositions) -> list[tuple[str, int, int | None]]:
        rows = pa.Table.from_batches(
            [
                rows
                for split in nyc.run(planner.splits(*span))
                for rows in read_ranges(split.ranges, record_rows, 1_000_000)
            ]
        ).to_pylist()
        return sorted((row["datacenter"], row["aggregate_offset"], row["offset"]) for row in rows)

    begun = advance(StreamPositions(topic_ids={}, offsets={}))
    waiting = advance(begun)
    assert waiting.offsets == {at: 5} and advance(waiting) == waiting
    assert nyc.run(planner.target_ends()) == {at: 12}, "a query with an end waits too"
    now = MAP_SECONDS_MAX
    passed = advance(waiting)
    assert (passed.offsets, passed.passed) == ({at: 12}, {at: 12})
    assert advance(passed).offsets == passed.offsets
    expected: list[tuple[str, int, int | None]]
    expected = [("JFK", 5, None), ("JFK", 6, None), ("JFK", 7, None)]
    expected += [("LGA", 8 + i, i) for i in range(4)]
    assert read(planner, waiting, passed) == expected
    begun = advance(waiting, most=2)
    assert (begun.offsets, begun.passed) == ({at: 7}, {at: 12})
    nyc.run(planner.close())
    # A driver that starts again does not wait, also in the middle of these records.
    planner = StreamPlanner(options)
    assert read(planner, waiting, passed) == expected
    nyc.run(planner.close())
    planner = StreamPlanner(options)
    end = advance(begun)
    assert (end.offsets, end.passed) == ({at: 12}, {at: 12})
    nyc.run(planner.close())
    # A map that comes after all is used.
    mirrors.publish("jfk", through=10)
    planner = StreamPlanner(options)
    assert read(planner, begun, end) == [("JFK", 7, 7), *expected[3:]]
    nyc.run(planner.close())


@pytest.mark.long
def test_windows_over_a_merged_topic_whose_source_and_worker_died(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    mirrors, query = MergingMirrors(nyc, "m"), Query(spark, nyc, tmp_path, "m")
    mirrors.copy("jfk", range(10), through=200)
    mirrors.copy("lga", range(4), through=200)
    query.start()
    try:
        mirrors.copy("jfk", range(310, 313), through=200, is_mapped=False)  # and JFK is dead
        mirrors.copy("lga", range(300, 305), through=900)
        # The records of LGA lie behind those that nobody can map.
        lacking = {0: (14, ["JFK"], False), 300: (8, ["JFK"], False)}
        of_lga = [(0, "LGA", 4, False), (300, "LGA", 5, False)]
        query.wait_for(lambda: query.fast() == lacking and query.datacenter() == of_lga)
        assert query.strict() == []
        mirrors.publish("jfk", through=900)
        query.wait_for(lambda: len(query.strict()) == 2)
        assert query.strict() == [(0, 14, BOTH, False), (300, 8, BOTH, False)]
        exact: dict[int, tuple[int, list[str], bool]] = {0: (14, [], True), 300: (8, [], True)}
        query.wait_for(lambda: query.fast() == exact)
    finally:
        query.stop()
