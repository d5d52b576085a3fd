"""`spark materialize --to iceberg` of windows and other questions: rows, kills, refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.compacting import compact_table
from spark_global.iceberg.keeping import KeptTable, keep_table
from spark_global.iceberg.listing import SQLITE_FILE
from spark_global.iceberg.querying import run_duckdb
from spark_global.iceberg.upserts.keys import Upsert, UpsertBy
from spark_global.kept.batches import BatchRefusedError
from spark_global.kept.folders import FolderRefusedError
from spark_global.kept.said import Through
from spark_global.streamable import UnknownViewError
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.iceberg_job import SOURCES, aggregate_of, kept_table
from tests.support.rest_catalogue import RestCatalogue

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("iceberg-questions")) as nyc:
        yield nyc


def asking(wanted: KeptTable, query: str) -> KeptTable:
    """Return the table with the rows of SQL over streams."""
    return replace(wanted, rows=replace(wanted.rows, query=query))


class Kept:
    """The tables of one topic in one catalogue."""

    def __init__(
        self,
        spark: SparkSession,
        nyc: Aggregated,
        topic: str,
        place: Path,
        rest: RestCatalogue | None = None,
    ) -> None:
        self.place = place
        self._catalogue = str(place) if rest is None else rest.uri
        self._rest = rest
        self._spark, self._nyc, self._topic = spark, nyc, topic
        self._copied = dict.fromkeys(SOURCES, 0)

    def wanted(self, question: str) -> KeptTable:
        name = f"{self._topic}_{question}"
        found = kept_table(name, self._catalogue, 100, once=True)
        own = None if self._rest is None else str(self.place / "checkpoints" / name)
        return replace(found, checkpoint=own)

    def keep(self, question: str) -> dict[str, Through]:
        found = keep_table(self._spark, aggregate_of(self._nyc.bootstrap), self.wanted(question))
        return dict(found.complete)

    def copy(self, source: str, seconds: range, through: int) -> None:
        """Copy records of some seconds of 1970; the source is complete through a second."""
        nyc = self._nyc
        nyc.run(nyc.copy(f"{source}.{self._topic}", seconds, keys=3))
        self._copied[source] += len(seconds)
        position = SHIFT + self._copied[source]
        nyc.run(nyc.publish_map(source, self._topic, self._copied[source]))
        nyc.run(nyc.state_complete(source, self._topic, position, through * 1_000))

    def table(self, question: str) -> Table:
        return open_catalogue(self._catalogue).load_table(self.wanted(question).identifier)

    def rows(self, question: str) -> list[dict[str, Any]]:
        found = self.table(question).scan().to_arrow().to_pylist()
        return sorted(found, key=itemgetter("window_start", "batch"))

    def checkpoint(self, question: str) -> Path:
        wanted = self.wanted(question)
        own = self.place / "_checkpoints" / ".".join(wanted.identifier)
        return own if wanted.checkpoint is None else Path(wanted.checkpoint)

    def run_again(self, question: str) -> Path:
        """Leave what a kill leaves before Spark's commit of the last batch; return its state."""
        checkpoint = self.checkpoint(question)
        last = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
        for name in (str(last), f".{last}.crc"):
            (checkpoint / "commits" / name).unlink()
        return checkpoint / "windows" / question / str(last)


@pytest.mark.long
def test_windows_that_wait_for_datacenters(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(spark, nyc, "s", tmp_path / "tables")
    strict = "strict_windows"

    def rows() -> list[tuple[float, int, list[str], bool]]:
        return [
            (row["window_start"].timestamp(), row["records"], row["datacenters"], row["is_late"])
            for row in kept.rows(strict)
        ]

    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.s"))
    kept.copy("ewr", range(10), through=700)
    kept.copy("jfk", range(4), through=200)
    kept.keep(strict)
    assert rows() == []  # JFK is behind
    kept.copy("ewr", range(650, 651), through=700)
    kept.copy("jfk", range(290, 293), through=700)
    before = tmp_path / "before.db"
    shutil.copy(kept.place / SQLITE_FILE, before)
    complete = {
        name.upper(): Through(700_000, 700_000, 0, (f"{name}-nyc",)) for name in ("ewr", "jfk")
    }
    assert kept.keep(strict) == complete
    both = [(0.0, 17, ["EWR", "JFK"], False)]
    assert rows() == both

    # Killed between the state of windows and the commit: the batch has its rows again.
    assert kept.run_again(strict).exists()
    shutil.copy(before, kept.place / SQLITE_FILE)
    assert rows() == []
    assert kept.keep(strict) == complete
    assert rows() == both
    # Killed after the commit: the table has the batch.
    kept.run_again(strict)
    snapshots = len(kept.table(strict).snapshots())
    kept.keep(strict)
    assert len(kept.table(strict).snapshots()) == snapshots + 1, "the takeover"
    assert rows() == both

    # A row that only a statement brings is in a commit without new offsets.
    kept.copy("jfk", range(5, 7), through=700)
    kept.copy("ewr", range(0), through=1_300)
    kept.copy("jfk", range(0), through=1_300)
    kept.keep(strict)
    assert rows() == [
        (0.0, 17, ["EWR", "JFK"], False),
        (0.0, 2, ["JFK"], True),
        (600.0, 1, ["EWR"], False),
    ]
    said = [
        each.summary.additional_properties
        for each in kept.table(strict).snapshots()
        if each.summary
    ]
    spans = [json.loads(each["heliograph.aggregate-offsets"]) for each in said]
    assert [span for each in spans for span in each.get("jfk.s", {}).values()] == [
        *([0, 4], [4, 7], [7, 9]),
    ]
    read = [
        (each["first"], each["end"], each["records"])
        for one in said
        for each in json.loads(one["heliograph.source-offsets"])
        if each["datacenter"] == "JFK"
    ]
    assert read == [(SHIFT + a, SHIFT + b, b - a) for a, b in ((0, 4), (4, 7), (7, 9))]
    assert said[-1]["heliograph.kind"] == "batch" and said[-1]["heliograph.batch"].isdigit()
    assert '"JFK":{"through":"1970-01-01T00:21:40.000Z"' in said[-1]["heliograph.complete-through"]
    compacted = compact_table(
        spark,
        open_catalogue(str(kept.place)),
        kept.wanted(strict).identifier,
        files_min=2,
        small_bytes=1 << 20,
    )
    assert compacted.files_before > compacted.files_after == 1 and len(rows()) == 3

    query = "SELECT sum(records) FROM global_s_strict_windows"
    assert run_duckdb(query, catalogue=str(kept.place), output="json", limit=10) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"] == [[20]]
    assert set(answer["complete_through"]["global_s_strict_windows"]) == {"EWR", "JFK"}

    # The other windows: the last row of each fast one, and those of one datacenter.
    for question in ("fast_windows", "datacenter_windows"):
        kept.keep(question)
    last = {row["window_start"].timestamp(): row for row in kept.rows("fast_windows")}
    assert {start: (row["records"], row["is_complete"]) for start, row in last.items()} == {
        0.0: (19, True),
        600.0: (1, True),
    }
    query = "SELECT records, is_complete FROM global_s_fast_windows_latest ORDER BY window_start"
    assert run_duckdb(query, catalogue=str(kept.place), output="json", limit=10) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[19, True], [1, True]]
    of_one = kept.table("datacenter_windows")
    files = [task.file for task in of_one.scan().plan_files()]
    assert {(file.partition[0], file.partition[1]) for file in files} == {("EWR", 0), ("JFK", 0)}
    found = {(row["datacenter"], row["records"]) for row in kept.rows("datacenter_windows")}
    assert found == {("EWR", 10), ("EWR", 1), ("JFK", 9)}

    # An old copy of the checkpoint, and none.
    checkpoint, old = kept.checkpoint(strict), tmp_path / "old"
    shutil.copytree(checkpoint, old)
    kept.copy("jfk", range(1_310, 1_311), through=1_300)
    kept.keep(strict)
    shutil.rmtree(checkpoint)
    old.rename(checkpoint)
    kept.copy("jfk", range(1_311, 1_312), through=1_300)
    with pytest.raises(PySparkException, match="does not begin there"):
        kept.keep(strict)
    epoch = kept.table(strict).properties["heliograph.writer-epoch"]
    shutil.rmtree(checkpoint)
    with pytest.raises(BatchRefusedError, match="and the checkpoint is new"):
        kept.keep(strict)
    assert kept.table(strict).properties["heliograph.writer-epoch"] == epoch
    assert len(rows()) == 3


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestCatalogue]:
    server = RestCatalogue(tmp_path / "tables")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.long
def test_questions(
    spark: SparkSession,
    nyc: Aggregated,
    rest: RestCatalogue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a REST catalogue, which has no folder for checkpoints."""
    kept = Kept(spark, nyc, "q", tmp_path / "tables", rest)
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.q"))
        kept.copy(source, range(10), through=700)
    aggregate = aggregate_of(nyc.bootstrap)
    with pytest.raises(FolderRefusedError, match="give --checkpoint"):
        keep_table(spark, aggregate, replace(kept.wanted("conflicts"), checkpoint=None))
    for question in ("top_keys", "conflicts"):
        kept.keep(question)
    top = {(row["key"], row["records"]) for row in kept.rows("top_keys")}
    assert top == {(b"k0", 8), (b"k1", 6), (b"k2", 6)}
    (first, *_) = rows = kept.rows("conflicts")
    assert {row["key"] for row in rows} == {b"k0", b"k1", b"k2"}
    assert first["datacenters"] == ["EWR", "JFK"] and first["late_records"] == 0

    # A question with Spark's own state goes on with it, also after a batch that runs again.
    kept.keep("windows")
    kept.run_again("windows")
    for source in SOURCES:
        kept.copy(source, range(4_000, 4_001), through=5_000)
    kept.keep("windows")
    found = kept.table("windows").scan().to_arrow().to_pylist()
    assert {(row["datacenter"], row["records"]) for row in found} == {("EWR", 10), ("JFK", 10)}
    assert len(found) == 2
    # The rows do not say which records they are of; the snapshots do, also those of no rows.
    spans = [
        (each["datacenter"], each["first"], each["end"])
        for snapshot in kept.table("windows").snapshots()
        if snapshot.summary is not None
        for each in json.loads(snapshot.summary["heliograph.source-offsets"] or "[]")
    ]
    ends = ((SHIFT, SHIFT + 10), (SHIFT + 10, SHIFT + 11))
    assert sorted(spans) == [(name, *each) for name in ("EWR", "JFK") for each in ends]
    query = "SELECT count(*) FROM global_q_windows"
    assert run_duckdb(query, catalogue=rest.uri, output="json", limit=10) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[2]]

    with pytest.raises(UnknownViewError, match="keep global_q with --to iceberg --upsert key"):
        kept.keep("latest_per_key")
    with pytest.raises(UnknownViewError, match="ask it by `heliograph sql`"):
        kept.keep("moved_keys")
    upsert = replace(kept.wanted("top_keys"), upsert=Upsert(UpsertBy.KEY))
    with pytest.raises(UnknownViewError, match="cannot keep global_q_top_keys"):
        keep_table(spark, aggregate, upsert)


def test_a_query_over_a_stream_is_kept_like_a_question(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    kept = Kept(spark, nyc, "p", tmp_path / "tables")
    aggregate = aggregate_of(nyc.bootstrap)
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.p"))
        kept.copy(source, range(10), through=700)
    of_k0 = "SELECT datacenter, offset, timestamp FROM stream_global_p WHERE key = X'6B30'"
    own = asking(kept.wanted("k0"), of_k0)
    for _ in range(2):
        keep_table(spark, aggregate, own)
    table = kept.table("k0")
    found = table.scan().to_arrow().to_pylist()
    # Keys are in turn k0, k1, k2.
    assert sorted((row["datacenter"], row["offset"] - SHIFT) for row in found) == [
        (name, offset) for name in ("EWR", "JFK") for offset in (0, 3, 6, 9)
    ]
    assert [field.name for field in table.spec().fields] == ["datacenter", "hour"]
    for query, message in (
        ("SELECT key FROM stream_global_p", "need a time, as column timestamp or window_start"),
        ("SELECT timestamp, 1 AS hour FROM stream_global_p", "and no column hour"),
        ("SELECT * FROM stream_global_p, stream_global_p_windows", "is of one stream, and"),
    ):
        with pytest.raises(UnknownViewError, match=message):
            keep_table(spark, aggregate, asking(own, query))


@pytest.mark.long
def test_windows_of_sql_are_kept_over_a_batch_that_runs_again(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """The table skips rows that it has; the state in Spark's checkpoint goes on all the same."""
    kept, aggregate = Kept(spark, nyc, "x", tmp_path / "tables"), aggregate_of(nyc.bootstrap)
    query = "SELECT * FROM stream_global_x_fast_windows"
    own = asking(kept.wanted("waiting"), query)
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.x"))
    kept.copy("ewr", range(10), through=700)
    kept.copy("jfk", range(4), through=200)
    keep_table(spark, aggregate, own)

    def rows() -> list[tuple[float, int, list[str], bool]]:
        return [
            (row["window_start"].timestamp(), row["records"], row["missing"], row["is_complete"])
            for row in kept.rows("waiting")
        ]

    while_dead = [(0.0, 14, ["JFK"], False)]
    assert rows() == while_dead
    kept.run_again("waiting")
    keep_table(spark, aggregate, own)
    assert rows() == while_dead
    kept.copy("jfk", range(290, 293), through=700)
    keep_table(spark, aggregate, own)
    assert rows() == [*while_dead, (0.0, 17, [], True)]
