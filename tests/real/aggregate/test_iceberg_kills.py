"""kill -9 of a job that keeps an Iceberg table, and of its catalogue, again and again.

    producer -> two copies on each of two aggregates, with their maps
    job      -> the table, by a REST catalogue or by SQLite itself

Between two kills the job commits at least one batch, while records arrive. The kills:

- the driver, its JVM and its workers, at any moment;
- the workers alone, which ends the job too;
- the same in the middle of a commit: its manifests are written, and the catalogue may not have it;
- the catalogue in the middle of a commit, before it is applied or after it;
- a driver that is stopped while a second one takes over, and then goes on: a zombie.

Between kills the table changes its aggregate, and later changes back. The job of the old aggregate
still runs then, or is dead. The links into the new one may be behind.

Every tenth time small files are put together beside the job, and old snapshots expire. In the end
the table has every record of the sources once, and nothing else. With MATERIALIZE_UPSERT=key it
has the latest record of each key. The suite has the first three kills and one change.

`make materialize-kills` runs it for longer (200 kills and 20 changes, or as KILLS and CHANGES say).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyspark.sql import SparkSession

from spark_global.addresses import ClusterAddress
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.compacting import compact_table
from spark_global.iceberg.keeping import keep_table
from spark_global.iceberg.maintaining import expire_snapshots, referenced_files
from spark_global.iceberg.moving import move_table
from spark_global.iceberg.table_state import TableState
from tests.support.aggregated import SHIFT, Aggregated
from tests.support.cluster import running_broker
from tests.support.iceberg_job import NAMESPACE, SOURCES, aggregate_of, kept_table
from tests.support.iceberg_tables import row_counts
from tests.support.rest_catalogue import RestCatalogue
from tests.support.spark_job import SparkJob

KILLS = int(os.environ.get("MATERIALIZE_KILLS", "3"))
CHANGES = int(os.environ.get("MATERIALIZE_CHANGES", "1"))
UPSERT = os.environ.get("MATERIALIZE_UPSERT", "")
KEYS = 40
SEED = int(os.environ.get("MATERIALIZE_SEED", "1"))
KINDS = (
    *("mid-commit", "driver", "catalogue after", "catalogue before", "workers"),
    *("mid-commit", "catalogue before", "zombie", "catalogue after", "mid-commit"),
    "catalogue after",
)
"""In this order, again and again."""
TOPIC = "k"
RECORDS_PER_STEP = 60
RECORDS_PER_BATCH = 100
WAIT_SECONDS_MAX = 900.0

pytestmark = [pytest.mark.real, pytest.mark.timeout(1_200 + 600 * (KILLS + CHANGES))]


@pytest.fixture(scope="module")
def aggregates(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Aggregated]]:
    """Two aggregates of the same sources, with other offsets."""
    with asyncio.Runner() as runner:
        contexts = [
            running_broker(zookeeper, tmp_path_factory.mktemp(f"kills-{name}"), cluster=name)
            for name in ("nyc", "bos")
        ]
        brokers = [runner.run(context.__aenter__()) for context in contexts]
        try:
            yield [
                Aggregated(broker.bootstrap, runner, has_sources=True, first=7 * index)
                for index, broker in enumerate(brokers)
            ]
        finally:
            for context in contexts:
                runner.run(context.__aexit__(None, None, None))


class Campaign:
    """The job, its catalogue, and what the sources have."""

    def __init__(self, aggregates: list[Aggregated], directory: Path) -> None:
        self.aggregates = aggregates
        """The first one is that of the table."""
        self.directory = directory
        self.tables = directory / "tables"
        self.name = NAMESPACE, f"global_{TOPIC}"
        self.catalogue = open_catalogue(str(self.tables), create=True)
        self.server = RestCatalogue(self.tables)
        self.chance = random.Random(SEED)
        self.done: Counter[str] = Counter()
        self.records = 0
        self._jobs = 0

    def produce(self) -> None:
        """Copy more records of each source to both aggregates."""
        more = range(self.records, self.records + RECORDS_PER_STEP)
        for each in self.aggregates:
            copy_to(each, more)
        self.records = more.stop

    def start(self, *, by_rest: bool | None = None) -> SparkJob:
        """Start a job, by one of the two ways to the catalogue."""
        if by_rest is None:
            by_rest = self.chance.random() < 0.5
        self._jobs += 1
        place = self.server.uri if by_rest else str(self.tables)
        arguments = [self.aggregates[0].bootstrap, TOPIC, place, str(RECORDS_PER_BATCH), UPSERT]
        log = self.directory / f"job-{self._jobs}.log"
        return SparkJob("tests.support.iceberg_job", arguments, log)

    def state(self) -> TableState | None:
        if not self.catalogue.table_exists(self.name):
            return None
        return TableState.decode(self.catalogue.load_table(self.name).properties)

    def wait_for_batch(self, job: SparkJob) -> None:
        """Wait until this job has the table, and has committed a batch."""
        _, read = self._progress()
        self.produce()

        wait_for(lambda: self._progress()[1] > read, job)

    def wait_for_epoch(self, epoch: int, job: SparkJob) -> None:
        wait_for(lambda: self._progress()[0] > epoch, job)

    def _progress(self) -> tuple[int, int]:
        state = self.state()
        if state is None:
            return 0, 0
        epoch = 0 if state.writer is None else state.writer.epoch
        return epoch, sum(state.positions.offsets.values())

    def kill(self, kind: str, job: SparkJob) -> SparkJob:
        """Kill once, and return the job that runs then."""
        self.done[kind] += 1
        match kind:
            case "driver":
                time.sleep(self.chance.random())
                job.kill()
                return self.start()
            case "mid-commit":
                self._kill_in_commit(job)
                return self.start()
            case "zombie":
                return self._wake_zombie(job)
            case "workers":
                return self._kill_workers(job)
        place = kind.split()[1]
        if self.server.uri not in job.process.args:  # type: ignore[operator]
            job.kill()
            job = self.start(by_rest=True)
        self.wait_for_batch(job)
        self.server.die_at_next_commit(place)
        self.produce()
        wait_for(lambda: self.server.is_dead, job)
        self.server.start()
        return job

    def _kill_in_commit(self, job: SparkJob) -> None:
        """Kill a job when a commit has begun; count those whose commit did not happen."""
        folder = self.tables / self.name[0] / self.name[1] / "metadata"
        seen = set(folder.glob("*.avro"))
        self.produce()
        wait_for(lambda: set(folder.glob("*.avro")) - seen, job, pause=0.001)
        time.sleep(self.chance.choice((0, 0, 0.005, 0.02, 0.05)))
        job.kill()
        written = {each.as_uri() for each in set(folder.glob("*.avro")) - seen}
        if written - referenced_files(self.catalogue.load_table(self.name)):
            self.done["commits cut short"] += 1

    def _kill_workers(self, job: SparkJob) -> SparkJob:
        """Kill the processes that run tasks. A local master does not run a task again."""
        self.produce()
        wait_for(job.kill_workers)

        def is_over() -> bool:
            job.kill_workers()
            return job.process.poll() is not None

        wait_for(is_over)
        job.kill()  # what is left of its session
        return self.start()

    def change_aggregate(self, job: SparkJob) -> SparkJob:
        """Let the table follow the other aggregate, and return the job that runs then."""
        is_running = self.chance.random() < 0.5
        self.done["changes beside a job" if is_running else "changes without a job"] += 1
        if not is_running:
            job.kill()
        old, new = self.aggregates
        is_behind = is_running and self.chance.random() < 0.5
        more = range(self.records, self.records + RECORDS_PER_STEP)
        copy_to(old, more)
        if is_behind:
            self.done["changes before the links were there"] += 1
            read = len(SOURCES) * (old.first + more.stop)
            wait_for(lambda: self._progress()[1] >= read, job)
        with ThreadPoolExecutor(1) as pool:
            here, there = (ClusterAddress(each.bootstrap) for each in self.aggregates)
            place = str(self.tables)
            moving = pool.submit(move_table, place, self.name, here=here, to=there)
            if is_behind:
                time.sleep(1)
            copy_to(new, more)
            moving.result()
        self.records = more.stop
        if is_running:
            self.produce()  # a writer notices at its next commit
            assert job.process.wait(WAIT_SECONDS_MAX) == 1
            assert "another writer has taken it over" in job.log_file.read_text()
            job.kill()  # what is left of its session
        self.aggregates.reverse()
        return self.start()

    def _wake_zombie(self, job: SparkJob) -> SparkJob:
        state = self.state()
        assert state is not None and state.writer is not None
        self.produce()
        time.sleep(self.chance.random() / 4)
        job.signal(signal.SIGSTOP)
        successor = self.start()
        self.wait_for_epoch(state.writer.epoch, successor)
        job.signal(signal.SIGCONT)
        assert job.process.wait(WAIT_SECONDS_MAX) == 1
        assert "another writer has taken it over" in job.log_file.read_text()
        job.kill()  # what is left of its session
        return successor

    def compact(self, spark: SparkSession) -> None:
        """Compact the table beside its writer, which may be faster each time."""
        try:
            compact_table(spark, self.catalogue, self.name, files_min=2, small_bytes=1 << 20)
        except CommitFailedException:
            self.done["compactions that lost the race"] += 1


def copy_to(aggregate: Aggregated, more: range) -> None:
    for source in SOURCES:
        aggregate.run(aggregate.publish_map(source, TOPIC, more.stop))
        aggregate.run(aggregate.copy(f"{source}.{TOPIC}", more, keys=KEYS))


def wait_for(
    is_done: Callable[[], object], job: SparkJob | None = None, pause: float = 0.2
) -> None:
    """Wait, as long as the job lives; then or in the end say what it does."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_done():
        is_over = time.monotonic() > deadline
        if job is not None and (is_over or job.process.poll() is not None):
            job.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            pytest.fail(f"job: {job.process.poll()}\n{job.log_file.read_text()[-20_000:]}")
        assert not is_over
        time.sleep(pause)


def test_kills_lose_nothing_and_double_nothing(
    spark: SparkSession, aggregates: list[Aggregated], tmp_path: Path
) -> None:
    for each in aggregates:
        for source in SOURCES:
            each.run(each.create(f"{source}.{TOPIC}"))
            each.run(each.fill(f"{source}.{TOPIC}"))
    campaign = Campaign(aggregates, tmp_path)
    campaign.produce()
    campaign.server.start()
    job = campaign.start()
    try:
        for index in range(KILLS):
            campaign.wait_for_batch(job)
            job = campaign.kill(KINDS[index % len(KINDS)], job)
            if (index + 1) * CHANGES // KILLS > index * CHANGES // KILLS:
                campaign.wait_for_batch(job)
                job = campaign.change_aggregate(job)
            if index % 10 == 9 or index + 1 == KILLS:
                campaign.compact(spark)
                table = campaign.catalogue.load_table(campaign.name)
                expire_snapshots(table, datetime.now(UTC), 1)
                print(f"{index + 1} kills: {dict(campaign.done)}", flush=True)
        campaign.produce()
    finally:
        job.kill()
        campaign.server.stop()
    wanted = kept_table(TOPIC, str(campaign.tables), 10_000, once=True, upsert_by=UPSERT)
    keep_table(spark, aggregate_of(aggregates[0].bootstrap), wanted)
    table = campaign.catalogue.load_table(campaign.name)
    found = row_counts(table)
    # The last source is the greatest by name, so it wins all ties.
    latest = campaign.records - KEYS
    expected = Counter[tuple[str, int, bytes | None]](
        (source.upper(), SHIFT + i, f"{source}.{TOPIC} {i}".encode())
        for source in (SOURCES[-1:] if UPSERT == "key" else SOURCES)
        for i in range(latest if UPSERT else 0, campaign.records)
    )
    doubled = sum(count - 1 for count in found.values())
    print(
        f"{KILLS} kills, {CHANGES} changes, {expected.total()} records: "
        f"{(found - expected).total()} in the table and not in the sources, "
        f"{(expected - found).total()} lost, {doubled} doubled"
    )
    assert found == expected
