"""kill -9 of executors of a standalone cluster of Spark, while a job keeps an Iceberg table."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.keeping import keep_table
from spark_global.iceberg.table_state import TableState
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.iceberg_job import NAMESPACE, SOURCES, aggregate_of, kept_table
from tests.support.iceberg_tables import row_counts
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_job import SparkJob

KILLS = int(os.environ.get("EXECUTOR_KILLS", "4"))
SEED = int(os.environ.get("EXECUTOR_SEED", "1"))
TOPIC = "x"
RECORDS_PER_STEP = 400
WAIT_SECONDS_MAX = 300.0

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600 + 120 * KILLS)]


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("executor-broker")) as nyc:
        yield nyc


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    running = SparkCluster(tmp_path_factory.mktemp("spark-cluster"))
    try:
        yield running
    finally:
        running.stop()


def wait_for(is_done: Callable[[], object], job: SparkJob) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_done():
        assert job.process.poll() is None, job.log_file.read_text()[-10_000:]
        assert time.monotonic() < deadline, job.log_file.read_text()[-10_000:]
        time.sleep(0.1)


def test_executors_that_die_lose_nothing_and_double_nothing(
    spark: SparkSession, nyc: Aggregated, cluster: SparkCluster, tmp_path: Path
) -> None:
    """Their tasks run again on others. The files of the dead tasks are in no snapshot."""
    chance = random.Random(SEED)
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.{TOPIC}", 2))
    sent = 0

    def produce() -> None:
        nonlocal sent
        more = range(sent, sent + RECORDS_PER_STEP)
        for source in SOURCES:
            for partition in range(2):
                nyc.run(nyc.publish_map(source, TOPIC, more.stop, partition))
                nyc.run(nyc.copy(f"{source}.{TOPIC}", more, partition))
        sent = more.stop

    tables = tmp_path / "tables"
    catalogue = open_catalogue(str(tables), create=True)
    name = NAMESPACE, f"global_{TOPIC}"

    def records_read() -> int:
        if not catalogue.table_exists(name):
            return 0
        state = TableState.decode(catalogue.load_table(name).properties)
        return sum(state.positions.offsets.values())

    def has_read_more_than(before: int) -> bool:
        return records_read() > before

    produce()
    job = SparkJob(
        "tests.support.iceberg_job",
        [nyc.bootstrap, TOPIC, str(tables), "100", "", cluster.master],
        tmp_path / "job.log",
        {"PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    killed = set[int]()
    try:
        for _ in range(KILLS):
            read = records_read()
            produce()
            wait_for(partial(has_read_more_than, read), job)
            time.sleep(chance.random() / 2)
            wait_for(lambda: set(cluster.executors()) - killed, job)
            victim = chance.choice(sorted(set(cluster.executors()) - killed))
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
        wait_for(lambda: records_read() >= 2 * len(SOURCES) * sent, job)
    finally:
        job.kill()
    wanted = kept_table(TOPIC, str(tables), 10_000, once=True)
    keep_table(spark, aggregate_of(nyc.bootstrap), wanted)
    expected = Counter[tuple[str, int, bytes | None]]()
    for source in SOURCES:
        for number in range(sent):
            expected[source.upper(), SHIFT + number, f"{source}.{TOPIC} {number}".encode()] += 2
    assert row_counts(catalogue.load_table(name)) == expected
    assert len(killed) == KILLS
