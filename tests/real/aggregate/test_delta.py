"""`spark materialize --to delta`: rows, commits, kills, a run again, readers without Spark."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_global.delta.keeping import start_keeping
from spark_global.delta.maintaining import compact_table
from spark_global.delta.table_writer import TableRefusedError
from spark_global.materialize import Materialization
from spark_global.streamable import UnknownViewError
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.delta_job import kept
from tests.support.delta_tables import row_counts
from tests.support.iceberg_job import SOURCES, aggregate_of
from tests.support.spark_job import SparkJob
from topology.spark.compaction import compacting_of
from topology.spark.options import Format

KILLS = int(os.environ.get("DELTA_KILLS", "12"))
SEED = int(os.environ.get("DELTA_SEED", "1"))
SECONDS_MAX = 600.0

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("delta-broker")) as nyc:
        yield nyc


def keep(spark: SparkSession, nyc: Aggregated, wanted: Materialization) -> None:
    start_keeping(spark, aggregate_of(nyc.bootstrap), wanted).awaitTermination()


@pytest.mark.long
def test_one_commit_per_batch_and_each_row_once(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    for topic in ("ewr.h", "jfk.h"):
        nyc.run(nyc.create(topic))
    nyc.run(nyc.publish_map("ewr", "h", 20))
    nyc.run(nyc.state_complete("ewr", "h", SHIFT + 20, 1_000_000_000_000))
    nyc.run(nyc.copy("ewr.h", range(3_590, 3_610)))  # seconds of 1970, over the end of an hour
    path = tmp_path / "h"
    wanted = kept("global_h", str(path), 8, once=True)
    keep(spark, nyc, wanted)
    expected = Counter(("EWR", SHIFT + i, f"ewr.h {3_590 + i}".encode()) for i in range(20))
    assert row_counts(path) == expected

    # The query stops and goes on; a datacenter has its first records.
    nyc.run(nyc.publish_map("jfk", "h", 5))
    nyc.run(nyc.copy("jfk.h", range(5)))
    keep(spark, nyc, replace(wanted, records_max=None))
    expected.update(("JFK", SHIFT + i, f"jfk.h {i}".encode()) for i in range(5))
    assert row_counts(path) == expected

    # Each commit says which offsets it adds: together all of them, once.
    table = DeltaTable(str(path))
    said = [each for each in reversed(table.history()) if each.get("heliograph.kind") == "batch"]
    spans = [
        span
        for each in said
        for span in json.loads(each["heliograph.aggregate-offsets"]).get("ewr.h", {}).values()
    ]
    assert spans == [[0, 8], [8, 16], [16, 20]]
    added = [entry for each in said for entry in json.loads(each["heliograph.source-offsets"])]
    assert sum(entry["records"] for entry in added) == 25
    through = json.loads(said[-1]["heliograph.complete-through"])
    assert through["EWR"]["through"].startswith("2001-09-09T01:46:40")
    parts = Counter[tuple[str, str]]()
    for each in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        parts[each["partition.datacenter"], each["partition.hour"]] += each["num_records"]
    assert parts == {
        ("EWR", "1970-01-01-00"): 10,
        ("EWR", "1970-01-01-01"): 10,
        ("JFK", "1970-01-01-00"): 5,
    }

    # A batch runs again, as after a kill between Delta's commit and that of Spark.
    checkpoint = path / "_checkpoint"
    last = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    version = table.version()
    keep(spark, nyc, wanted)
    assert DeltaTable(str(path)).version() == version
    assert row_counts(path) == expected

    before = len(DeltaTable(str(path)).file_uris())
    said_by_job = compacting_of(Format.delta, str(path), (), 0).compact()  # what a job does
    assert len(DeltaTable(str(path)).file_uris()) < before, said_by_job
    nyc.run(nyc.copy("jfk.h", range(5, 9)))
    nyc.run(nyc.publish_map("jfk", "h", 9))
    old = tmp_path / "old"
    shutil.copytree(checkpoint, old)
    keep(spark, nyc, wanted)
    expected.update(("JFK", SHIFT + i, f"jfk.h {i}".encode()) for i in range(5, 9))
    assert row_counts(path) == expected
    filtered = DeltaTable(str(path)).to_pyarrow_table(filters=[("datacenter", "=", "JFK")])
    assert filtered.num_rows == 9

    # An old copy of the checkpoint plans its next batch anew, over other offsets.
    shutil.rmtree(checkpoint)
    old.rename(checkpoint)
    nyc.run(nyc.copy("jfk.h", range(9, 12)))
    nyc.run(nyc.publish_map("jfk", "h", 12))
    with pytest.raises(PySparkException, match="does not begin there"):
        keep(spark, nyc, wanted)
    assert row_counts(path) == expected
    shutil.rmtree(checkpoint)
    with pytest.raises(TableRefusedError, match="has no checkpoint"):
        keep(spark, nyc, wanted)


@pytest.mark.long
def test_a_question_with_state(spark: SparkSession, nyc: Aggregated, tmp_path: Path) -> None:
    nyc.run(nyc.create("ewr.w"))
    nyc.run(nyc.publish_map("ewr", "w", 40))
    for start in (0, 310, 650, 1_000):
        nyc.run(nyc.copy("ewr.w", range(start, start + 10)))
    path = tmp_path / "w"
    wanted = kept("global_w_windows", str(path), 10, once=True)
    keep(spark, nyc, wanted)
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=["datacenter", "records"]).to_pydict()
    assert set(rows["datacenter"]) == {"EWR"} and len(rows["records"]) >= 2
    checkpoint = path / "_checkpoint"
    last = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    nyc.run(nyc.copy("ewr.w", range(4_000, 4_001)))
    nyc.run(nyc.publish_map("ewr", "w", 41))
    keep(spark, nyc, wanted)
    columns = ["window_start", "records"]
    after = DeltaTable(str(path)).to_pyarrow_table(columns=columns).to_pydict()
    assert len(set(after["window_start"])) == len(after["window_start"]) == 4
    assert sum(after["records"]) == 40


@pytest.mark.long
def test_conflicts_with_their_spread(spark: SparkSession, nyc: Aggregated, tmp_path: Path) -> None:
    for source, seconds in (("ewr", range(10)), ("jfk", range(20, 30))):
        nyc.run(nyc.create(f"{source}.x"))
        nyc.run(nyc.copy(f"{source}.x", seconds, keys=2))
        nyc.run(nyc.copy(f"{source}.x", range(4_000, 4_001), keys=2))  # it closes the first minute
        nyc.run(nyc.publish_map(source, "x", 11))
    path = tmp_path / "x"
    keep(spark, nyc, kept("global_x_conflicts", str(path), once=True))
    columns = ["key", "datacenters", "winner", "spread_ms"]
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=columns).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        (b"k0", ["EWR", "JFK"], "JFK", 28_000),
        (b"k1", ["EWR", "JFK"], "JFK", 28_000),
    ]


@pytest.mark.long
def test_windows_that_wait_for_datacenters(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    copied = dict.fromkeys(SOURCES, 0)
    path = tmp_path / "s"
    wanted = replace(kept("global_s_strict_windows", str(path), once=True), late_seconds=0)

    def copy(source: str, seconds: range, through: int) -> None:
        nyc.run(nyc.copy(f"{source}.s", seconds, keys=3))
        copied[source] += len(seconds)
        nyc.run(nyc.publish_map(source, "s", copied[source]))
        nyc.run(nyc.state_complete(source, "s", SHIFT + copied[source], through * 1_000))

    def rows() -> list[tuple[float, int, list[str], bool]]:
        table = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return sorted(
            (row["window_start"].timestamp(), row["records"], row["datacenters"], row["is_late"])
            for row in table
        )

    def kill(*, in_commit: bool) -> None:
        """Leave what a kill leaves after the commit, or between the state of windows and it."""
        checkpoint = path / "_checkpoint"
        last = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
        for name in (str(last), f".{last}.crc"):
            (checkpoint / "commits" / name).unlink()
        assert (checkpoint / "windows" / "strict_windows" / str(last)).exists()
        if in_commit:
            max((path / "_delta_log").glob("*.json")).unlink()

    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.s"))
    copy("ewr", range(10), through=700)
    copy("jfk", range(4), through=200)
    keep(spark, nyc, wanted)
    assert rows() == []  # JFK is behind
    copy("ewr", range(650, 651), through=700)
    copy("jfk", range(290, 293), through=700)
    kill(in_commit=False)
    keep(spark, nyc, wanted)
    both = [(0.0, 17, ["EWR", "JFK"], False)]
    assert rows() == both
    kill(in_commit=True)
    assert rows() == []
    keep(spark, nyc, wanted)
    assert rows() == both
    copy("jfk", range(5, 7), through=700)
    keep(spark, nyc, wanted)
    assert rows() == [(0.0, 2, ["JFK"], True), *both]
    # The commits say what the rows do not: which records of the sources were read for them.
    read = [
        (each["first"], each["end"])
        for commit in DeltaTable(str(path)).history()
        for each in json.loads(commit.get("heliograph.source-offsets", "[]"))
        if each["datacenter"] == "JFK"
    ]
    assert sorted(read) == [(SHIFT + a, SHIFT + b) for a, b in ((0, 4), (4, 7), (7, 9))]
    numbers = DeltaTable(str(path)).to_pyarrow_table(columns=["batch"])["batch"].to_pylist()
    assert len(set(numbers)) == 2

    # The last row of each fast window, and a question that is asked of closed windows only.
    others = {name: tmp_path / name for name in ("fast_windows", "top_keys")}
    for name, at in others.items():
        keep(spark, nyc, replace(wanted, view=f"global_s_{name}", path=str(at)))
    fast = DeltaTable(str(others["fast_windows"])).to_pyarrow_table().to_pylist()
    last = {row["window_start"].timestamp(): row for row in sorted(fast, key=itemgetter("batch"))}
    assert {start: (row["records"], row["is_complete"]) for start, row in last.items()} == {
        0.0: (19, True),
        600.0: (1, False),
    }
    top = DeltaTable(str(others["top_keys"])).to_pyarrow_table()
    assert {row["window_start"].timestamp() for row in top.to_pylist()} == {0.0}
    assert {"key", "late_records", "batch", "hour"} <= set(top.column_names)


def test_a_query_over_a_stream(spark: SparkSession, nyc: Aggregated, tmp_path: Path) -> None:
    nyc.run(nyc.create("jfk.p"))
    nyc.run(nyc.publish_map("jfk", "p", 9))
    nyc.run(nyc.copy("jfk.p", range(9)))
    query = "SELECT topic, offset, timestamp FROM stream_global_p WHERE `offset` % 2 = 0"
    own = replace(kept("even", str(tmp_path / "own"), once=True), query=query)
    for _ in range(2):
        keep(spark, nyc, own)
    table = DeltaTable(own.path)
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted(row["offset"] - SHIFT for row in rows) == [0, 2, 4, 6, 8]
    assert {row["hour"] for row in rows} == {"1970-01-01-00"}
    read = [json.loads(each.get("heliograph.source-offsets", "[]")) for each in table.history()]
    spans = [(one["first"], one["end"]) for each in read for one in each]
    assert spans == [(SHIFT, SHIFT + 9)], "what was read, not what was kept"
    with pytest.raises(UnknownViewError, match="need a time"):
        keep(spark, nyc, replace(own, query="SELECT offset FROM stream_global_p"))


class Campaign:
    """A job that keeps two sources as a table, and is killed."""

    def __init__(self, nyc: Aggregated, directory: Path) -> None:
        self.nyc = nyc
        self.path = directory / "z"
        self.records = 0
        self._directory = directory
        self._jobs = 0

    def start(self) -> SparkJob:
        self._jobs += 1
        log = self._directory / f"job-{self._jobs}.log"
        arguments = [self.nyc.bootstrap, "z", str(self.path), "20"]
        return SparkJob("tests.support.delta_job", arguments, log)

    def produce(self) -> None:
        more = range(self.records, self.records + 60)
        for source in SOURCES:
            self.nyc.run(self.nyc.publish_map(source, "z", more.stop))
            self.nyc.run(self.nyc.copy(f"{source}.z", more))
        self.records = more.stop

    def found(self) -> int:
        if not DeltaTable.is_deltatable(str(self.path)):
            return 0
        return sum(row_counts(self.path).values())

    def wait_for(self, count: int, job: SparkJob) -> SparkJob:
        """Wait for so many rows; a job that ended is started again."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.found() < count:
            assert time.monotonic() < deadline, job.log_file.read_text()[-3_000:]
            if job.process.poll() is not None:
                job.kill()  # what is left of its session
                job = self.start()
            time.sleep(0.05)
        return job


@pytest.mark.long
@pytest.mark.timeout(1_200 + 300 * KILLS)
def test_kills_lose_nothing_and_double_nothing(nyc: Aggregated, tmp_path: Path) -> None:
    """kill -9 of the driver with its workers, or of the workers alone, at any moment."""
    campaign = Campaign(nyc, tmp_path)
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.z"))
    chance = random.Random(SEED)
    campaign.produce()
    job = campaign.start()
    try:
        for index in range(KILLS):
            before = campaign.found()
            campaign.produce()
            job = campaign.wait_for(before + 1, job)
            time.sleep(chance.random())
            if index % 3 == 2:
                job.kill_workers()
            else:
                job.kill()
                job = campaign.start()
            if KILLS > 1:
                compact_table(str(campaign.path), 1 << 20)
        job = campaign.wait_for(campaign.records * len(SOURCES), job)
    finally:
        job.kill()
    found = row_counts(campaign.path)
    expected: Counter[tuple[str, int, bytes | None]] = Counter(
        (source.upper(), SHIFT + i, f"{source}.z {i}".encode())
        for source in SOURCES
        for i in range(campaign.records)
    )
    print(
        f"{KILLS} kills, {expected.total()} records: {(expected - found).total()} lost, "
        f"{(found - expected).total()} doubled or foreign"
    )
    assert found == expected
