"""kill -9 of a job that keeps an Iceberg table, and of its catalogue, again and again.

    producer -> two source clusters -> real mirrors -> two aggregates
    job      -> the table, by a REST catalogue or by SQLite itself

Between two kills the job commits at least one batch, while records arrive. The kills:

- the driver, its JVM and its workers, at any moment;
- the workers alone, which ends the job too;
- the same in the middle of a commit: its manifests are written, and the catalogue may not have it;
- the catalogue in the middle of a commit, before it is applied or after it;
- a driver that is stopped while a second one takes over, and then goes on: a zombie;
- besides, the worker that mirrors both sources, before every fourth of these.

Between kills the table changes its aggregate, and later changes back. The job of the old aggregate
still runs then, or is dead. The links into the new one may be behind.

Every tenth time small files are put together beside the job, and old snapshots expire. In the end
the exact audit reads the logs of the sources and of the aggregate. Each record that it finds on
both is in the table once, and nothing else is; these are all that were produced. With
MATERIALIZE_UPSERT=key the table has the latest record of each key. The suite has the first three
kills and one change.

`make materialize-kills` runs it for longer (200 kills and 20 changes, or as KILLS and CHANGES say).
"""

from __future__ import annotations

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
from spark_global.audit import audit_topic
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.compacting import compact_table
from spark_global.iceberg.keeping import keep_table
from spark_global.iceberg.maintaining import expire_snapshots, referenced_files
from spark_global.iceberg.moving import move_table
from spark_global.iceberg.table_state import TableState
from spark_global.source.tables import FINGERPRINTS_TABLE
from spark_global.views import Aggregate, load_table
from tests.support.iceberg_job import NAMESPACE, SOURCES, aggregate_of, kept_table
from tests.support.iceberg_tables import row_counts
from tests.support.mirrored import Mirrored, mirrored
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
def world(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    with mirrored(zookeeper, tmp_path_factory.mktemp("kills"), TOPIC) as world:
        yield world


class Campaign:
    """The job, its catalogue, and what the sources have."""

    def __init__(self, world: Mirrored, directory: Path) -> None:
        self.world = world
        self.aggregates = list(world.aggregates)
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
        """Produce more records in each source; the mirrors copy them."""
        more = range(self.records, self.records + RECORDS_PER_STEP)
        self.world.produce(more, KEYS)
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
        _, read = self.progress()
        self.produce()

        wait_for(lambda: self.progress()[1] > read, job)

    def wait_for_epoch(self, epoch: int, job: SparkJob) -> None:
        wait_for(lambda: self.progress()[0] > epoch, job)

    def progress(self) -> tuple[int, int]:
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

    def kill_mirror(self) -> None:
        """Kill the mirror of the table's aggregate while it copies, and start another one."""
        self.done["mirrors"] += 1
        self.produce()
        time.sleep(self.chance.random() / 4)
        self.aggregates[0].kill_mirror()
        self.aggregates[0].start_mirror()

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
        if is_behind:
            new.kill_mirror()
        self.produce()
        if is_behind:
            self.done["changes before the links were there"] += 1
            read = len(SOURCES) * (old.first + self.records)
            wait_for(lambda: self.progress()[1] >= read, job)
        with ThreadPoolExecutor(1) as pool:
            here, there = (ClusterAddress(each.bootstrap) for each in self.aggregates)
            place = str(self.tables)
            moving = pool.submit(move_table, place, self.name, here=here, to=there)
            if is_behind:
                time.sleep(1)
                new.start_mirror()
            moving.result()
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


def replicated(spark: SparkSession, aggregate: Aggregate) -> set[tuple[str, int]]:
    """(datacenter, source offset) of each record that both logs have, by the map and the bytes."""
    rows = load_table(spark, aggregate, FINGERPRINTS_TABLE, topic=TOPIC)
    of = {"source": set[tuple[str, int, int]](), "aggregate": set[tuple[str, int, int]]()}
    for row in rows.where("offset IS NOT NULL").collect():
        of[row.side].add((row.datacenter, row.offset, row.fingerprint))
    return {(datacenter, offset) for datacenter, offset, _ in of["source"] & of["aggregate"]}


def test_kills_lose_nothing_and_double_nothing(
    spark: SparkSession, world: Mirrored, tmp_path: Path
) -> None:
    campaign = Campaign(world, tmp_path)
    campaign.produce()
    campaign.server.start()
    job = campaign.start()
    try:
        for index in range(KILLS):
            if index % 4 == 0:
                campaign.kill_mirror()
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
        everything = len(SOURCES) * (campaign.aggregates[0].first + campaign.records)
        wait_for(lambda: campaign.progress()[1] >= everything, job)
    finally:
        job.kill()
        campaign.server.stop()
    followed = campaign.aggregates[0]
    wanted = kept_table(TOPIC, str(campaign.tables), 10_000, once=True, upsert_by=UPSERT)
    keep_table(spark, aggregate_of(followed.bootstrap), wanted)
    found = row_counts(campaign.catalogue.load_table(campaign.name))

    audited = world.audited(followed.bootstrap)
    audit = audit_topic(spark, audited, TOPIC)
    print(audit.line)
    assert audit.mirrored == audit.produced == len(SOURCES) * campaign.records, audit.findings
    # What filled the aggregate before the first copy is in no source, and not in the table.
    assert audit.counts == Counter({"foreign": len(SOURCES) * followed.first}) + Counter()
    audited_records = replicated(spark, audited)
    places = {(datacenter, offset) for datacenter, offset, _ in found}
    # The last source is the greatest by name, so it wins all ties.
    latest = campaign.records - KEYS
    expected = Counter[tuple[str, int, bytes | None]](
        (source.upper(), i, f"{source}.{TOPIC} {i}".encode())
        for source in (SOURCES[-1:] if UPSERT == "key" else SOURCES)
        for i in range(latest if UPSERT else 0, campaign.records)
    )
    doubled = sum(count - 1 for count in found.values())
    print(
        f"{KILLS} kills, {CHANGES} changes, {expected.total()} records: "
        f"{len(places - audited_records)} in the table and not in the audit, "
        f"{len(audited_records - places)} in the audit and not in the table, "
        f"{(expected - found).total()} lost, {doubled} doubled"
    )
    assert places <= audited_records if UPSERT else places == audited_records
    assert found == expected
