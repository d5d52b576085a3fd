"""kill -9 of a job that keeps windows as an Iceberg table, again and again.

Records arrive in windows of 300 seconds, from two sources, and each one says that it is complete.
Between two kills the job commits a batch. The kills: the driver with its JVM and its workers at any
moment; the same when a commit has begun; a driver that is stopped while a second one takes over,
and then goes on. In the end each window has its records in one row.

`make spark-kills` runs it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.table_state import TableState
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.iceberg_job import NAMESPACE, SOURCES
from tests.support.spark_job import SparkJob

KILLS = int(os.environ.get("QUESTION_KILLS", "9"))
SEED = int(os.environ.get("QUESTION_SEED", "1"))
KINDS = ("driver", "mid-commit", "zombie")
"""In this order, again and again."""
WINDOW_SECONDS = 300
WAIT_SECONDS_MAX = 900.0

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(1_200 + 600 * KILLS)]


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("question-kills")) as nyc:
        yield nyc


class Campaign:
    """The job, its table, and how many windows the sources have filled."""

    def __init__(self, nyc: Aggregated, directory: Path) -> None:
        self.nyc = nyc
        self.tables = directory / "tables"
        self.name = NAMESPACE, "global_z_strict_windows"
        self.catalogue = open_catalogue(str(self.tables), create=True)
        self.chance = random.Random(SEED)
        self.windows = 0
        self.folder = self.tables / self.name[0] / self.name[1] / "metadata"
        self._directory = directory
        self._jobs = 0

    def start(self) -> SparkJob:
        self._jobs += 1
        arguments = [self.nyc.bootstrap, "z_strict_windows", str(self.tables), "1000"]
        log = self._directory / f"job-{self._jobs}.log"
        return SparkJob("tests.support.iceberg_job", arguments, log)

    def produce(self) -> None:
        """Fill one more window, and close it by the statements of both sources."""
        seconds = range(self.windows * WINDOW_SECONDS, (self.windows + 1) * WINDOW_SECONDS)
        for source in SOURCES:
            self.nyc.run(self.nyc.copy(f"{source}.z", seconds))
            self.nyc.run(self.nyc.publish_map(source, "z", seconds.stop))
        for source in SOURCES:
            through = seconds.stop * 1_000
            self.nyc.run(self.nyc.state_complete(source, "z", SHIFT + seconds.stop, through))
        self.windows += 1

    def state(self) -> TableState | None:
        if not self.catalogue.table_exists(self.name):
            return None
        return TableState.decode(self.catalogue.load_table(self.name).properties)

    def batch(self) -> int:
        state = self.state()
        return -1 if state is None or state.query is None else state.query.batch

    def epoch(self) -> int:
        state = self.state()
        return 0 if state is None or state.writer is None else state.writer.epoch

    def wait_for_batch(self, job: SparkJob) -> None:
        """Wait until this job has the table, and has committed a batch."""
        before = self.batch()
        self.produce()
        wait_for(lambda: self.batch() > before, job)

    def kill(self, kind: str, job: SparkJob) -> SparkJob:
        """Kill once, and return the job that runs then."""
        match kind:
            case "driver":
                time.sleep(self.chance.random())
            case "mid-commit":
                seen = set(self.folder.glob("*.avro"))
                self.produce()
                wait_for(lambda: set(self.folder.glob("*.avro")) - seen, job, pause=0.001)
                time.sleep(self.chance.choice((0, 0, 0.005, 0.02)))
            case "zombie":
                return self._wake_zombie(job)
        job.kill()
        return self.start()

    def _wake_zombie(self, job: SparkJob) -> SparkJob:
        epoch = self.epoch()
        self.produce()
        time.sleep(self.chance.random())
        job.signal(signal.SIGSTOP)
        successor = self.start()
        wait_for(lambda: self.epoch() > epoch, successor)
        job.signal(signal.SIGCONT)
        self.produce()
        assert job.process.wait(WAIT_SECONDS_MAX) == 1, "it has noticed"
        job.kill()  # what is left of its session
        # Spark of the successor may have met a file that the zombie wrote into the checkpoint.
        if successor.process.poll() is None:
            return successor
        successor.kill()
        return self.start()

    def rows(self) -> list[tuple[int, int, bool]]:
        found = self.catalogue.load_table(self.name).scan().to_arrow().to_pylist()
        return sorted(
            (int(row["window_start"].timestamp()), row["records"], row["is_late"]) for row in found
        )


def wait_for(is_done: Callable[[], object], job: SparkJob, pause: float = 0.2) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_done():
        is_over = time.monotonic() > deadline or job.process.poll() is not None
        assert not is_over, job.log_file.read_text()[-10_000:]
        time.sleep(pause)


def test_each_window_is_there_once_over_kills(nyc: Aggregated, tmp_path: Path) -> None:
    campaign = Campaign(nyc, tmp_path)
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.z"))
    campaign.produce()
    job = campaign.start()
    try:
        for index in range(KILLS):
            campaign.wait_for_batch(job)
            job = campaign.kill(KINDS[index % len(KINDS)], job)
        campaign.produce()
        wait_for(lambda: campaign.batch() >= 0 and len(campaign.rows()) >= campaign.windows, job)
    finally:
        job.kill()
    found = campaign.rows()
    expected = [
        (index * WINDOW_SECONDS, len(SOURCES) * WINDOW_SECONDS, False)
        for index in range(campaign.windows)
    ]
    print(f"{KILLS} kills, {len(expected)} windows, {len(set(expected) - set(found))} lost")
    assert found == expected
