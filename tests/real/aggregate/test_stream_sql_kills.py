"""kill -9 of a job that keeps windows and top keys by SQL over streams, again and again.

The windows are closed by an operator with a state in Spark's checkpoint. In every other round LGA
is dead: its records and its statement come a round later. The kills: the driver with its JVM and
its workers, at any moment and in the middle of a batch; the workers alone; on a standalone cluster
of Spark an executor.

In the end each table has exactly the rows that follow from all records.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.windowing.closing import WindowKind
from spark_global.windowing.streamed import top_keys_schema, windows_schema
from tests.support.aggregated import Aggregated, running_aggregated
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_job import SparkJob
from tests.support.stating_mirrors import Mirrors
from tests.support.stream_sql_job import MASTER, NAMESPACE, VIEWS, checkpoint_of

KILLS = int(os.environ.get("STREAM_SQL_KILLS", "6"))
SEED = int(os.environ.get("STREAM_SQL_SEED", "1"))
WAIT_SECONDS_MAX = 600.0
KEYS: Final = 3
WINDOW: Final = 300
TOP_WINDOW: Final = 600

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900 + 120 * KILLS)]


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("stream-sql-kills")) as nyc:
        yield nyc


class Campaign:
    """The job, its tables, and what was produced."""

    def __init__(
        self, nyc: Aggregated, topic: str, to: str, directory: Path, cluster: SparkCluster | None
    ) -> None:
        self.nyc, self.topic, self.to, self.directory = nyc, topic, to, directory
        self.cluster = cluster
        self.chance = random.Random(SEED)
        self.mirrors = Mirrors(nyc, topic)
        self.records = Counter[tuple[str, int]]()
        """By datacenter and second."""
        self.rounds = 0
        self._owed: list[range] = []
        self._jobs = 0
        self._killed = set[int]()

    def start(self) -> SparkJob:
        self._jobs += 1
        arguments = [self.nyc.bootstrap, self.topic, str(self.directory), self.to]
        log = self.directory / f"job-{self._jobs}.log"
        if self.cluster is None:
            return SparkJob("tests.support.stream_sql_job", [*arguments, MASTER], log)
        return SparkJob(
            "tests.support.stream_sql_job",
            [*arguments, self.cluster.master],
            log,
            {"PYSPARK_PYTHON": str(self.cluster.python), "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def produce(self, *, is_last: bool = False) -> None:
        """Fill two windows. In every other round LGA is dead, and its part comes in the next."""
        here = self.rounds * TOP_WINDOW
        spans = [range(here, here + 25), range(here + WINDOW, here + WINDOW + 10)]
        self._copy("jfk", spans, here + TOP_WINDOW)
        self._owed += spans
        if self.rounds % 2 == 0 or is_last:
            self._copy("lga", self._owed, here + TOP_WINDOW)
            self._owed = []
        self.rounds += 1

    def _copy(self, source: str, spans: list[range], through: int) -> None:
        self.mirrors.copy(source, *spans, through=through, keys=KEYS)
        self.records.update((source.upper(), second) for span in spans for second in span)

    def batches(self, name: str) -> set[tuple[str, int]]:
        """Return the batches in the folder `offsets` (planned) or `commits` (done)."""
        return {
            (view, int(each.name))
            for view in VIEWS
            for each in (checkpoint_of(str(self.directory), view, self.to) / name).glob("[0-9]*")
        }

    def wait_for_batch(self, job: SparkJob) -> None:
        """Wait until every view has done a batch after this moment."""
        before = len(self.batches("commits"))
        self.produce()

        def has_gone_on() -> bool:
            return len(self.batches("commits")) >= before + len(VIEWS)

        wait_for(has_gone_on, job)

    def kill(self, kind: str, job: SparkJob) -> SparkJob:
        """Kill once, and return the job that runs then."""
        self.produce()
        match kind:
            case "workers":
                wait_for(job.kill_workers, job, pause=0.01)
                return job
            case "executor":
                assert self.cluster is not None
                executors = self.cluster.executors
                wait_for(lambda: set(executors()) - self._killed, job)
                time.sleep(self.chance.random())
                victim = self.chance.choice(sorted(set(executors()) - self._killed))
                os.kill(victim, signal.SIGKILL)
                self._killed.add(victim)
                return job
            case "driver":
                time.sleep(2 * self.chance.random())
            case "mid-batch":
                wait_for(lambda: self.batches("offsets") - self.batches("commits"), job, pause=0.01)
                time.sleep(self.chance.choice((0, 0.05, 0.2)))
        job.kill()
        return self.start()

    def rows(self, spark: SparkSession, view: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the start of the window in seconds and these columns of each row."""
        path = self.directory / view
        found: list[dict[str, Any]] = []
        if self.to == "delta" and DeltaTable.is_deltatable(str(path)):
            found = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        elif self.to == "iceberg":
            found = self._iceberg_rows(view)
        elif (path / "_spark_metadata").is_dir():
            rows = spark.read.schema(schema_of(view)).parquet(str(path)).toArrow()
            found = rows.to_pylist()
        return sorted(
            (
                (int(row["window_start"].timestamp()), *(row[name] for name in columns))
                for row in found
            ),
            key=str,
        )

    def _iceberg_rows(self, view: str) -> list[dict[str, Any]]:
        catalogue = open_catalogue(str(self.directory), create=True)
        if not catalogue.table_exists((NAMESPACE, view)):
            return []
        rows: list[dict[str, Any]]
        rows = catalogue.load_table((NAMESPACE, view)).scan().to_arrow().to_pylist()
        return rows

    # -- what must be there -------------------------------------------------------------------

    def by_window(self, length: int) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = {}
        for (name, second), n in self.records.items():
            found.setdefault(second // length * length, Counter())[name] += n
        return found

    def expected(self, view: str) -> list[tuple[Any, ...]]:
        windows = self.by_window(WINDOW)
        rows: list[tuple[Any, ...]]
        match view:
            case "strict_windows":
                rows = [
                    (start, counts.total(), sorted(counts), False)
                    for start, counts in windows.items()
                ]
            case "datacenter_windows":
                rows = [
                    (start, name, n, False)
                    for start, counts in windows.items()
                    for name, n in counts.items()
                ]
            case _:
                rows = self._expected_keys()
        return sorted(rows, key=str)

    def _expected_keys(self) -> list[tuple[Any, ...]]:
        rows = []
        for start in self.by_window(TOP_WINDOW):
            counts = Counter[bytes]()
            for (_, second), n in self.records.items():
                if second // TOP_WINDOW * TOP_WINDOW == start:
                    counts[b"k%d" % (second % KEYS)] += n
            best = sorted(counts, key=lambda key: (-counts[key], key))
            rows += [(start, key, counts[key], place) for place, key in enumerate(best, 1)]
        return rows


COLUMNS: Final = {
    "strict_windows": ("records", "datacenters", "is_late"),
    "datacenter_windows": ("datacenter", "records", "is_late"),
    "top_keys": ("key", "records", "place"),
}


def schema_of(view: str) -> StructType:
    return top_keys_schema() if view == "top_keys" else windows_schema(WindowKind(view))


def wait_for(is_done: Callable[[], object], job: SparkJob, pause: float = 0.2) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_done():
        is_over = time.monotonic() > deadline or job.process.poll() is not None
        assert not is_over, job.log_file.read_text()[-10_000:]
        time.sleep(pause)


def check(campaign: Campaign, spark: SparkSession, kinds: tuple[str, ...]) -> None:
    campaign.produce()
    job = campaign.start()
    try:
        for index in range(KILLS):
            campaign.wait_for_batch(job)
            job = campaign.kill(kinds[index % len(kinds)], job)
        campaign.produce(is_last=True)

        def is_whole() -> bool:
            return all(
                len(campaign.rows(spark, view, *columns)) >= len(campaign.expected(view))
                for view, columns in COLUMNS.items()
            )

        wait_for(is_whole, job, pause=1.0)
        time.sleep(2)  # whatever would be there twice
    finally:
        job.kill()
    for view, columns in COLUMNS.items():
        assert campaign.rows(spark, view, *columns) == campaign.expected(view), view
    # The newest row of each fast window has all of its records; each row is there once.
    fast = campaign.rows(spark, "fast_windows", "batch", "records", "missing", "is_late")
    assert len({row[:2] for row in fast}) == len(fast) and not any(row[4] for row in fast)
    newest = {row[0]: row[2:4] for row in sorted(fast, key=lambda row: row[1])}
    windows = campaign.by_window(WINDOW)
    assert newest == {start: (counts.total(), []) for start, counts in windows.items()}
    print(f"{KILLS} kills, {len(windows)} windows, {campaign.records.total()} records")


@pytest.mark.parametrize("to", ["parquet", "delta", "iceberg"])
def test_each_row_is_there_once_over_kills(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, to: str
) -> None:
    campaign = Campaign(nyc, to, to, tmp_path, None)
    check(campaign, spark, ("mid-batch", "driver", "workers"))


def test_each_row_is_there_once_on_a_standalone_cluster(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = SparkCluster(tmp_path_factory.mktemp("spark-cluster"))
    try:
        campaign = Campaign(nyc, "cluster", "parquet", tmp_path, cluster)
        check(campaign, spark, ("executor", "driver"))
    finally:
        cluster.stop()
