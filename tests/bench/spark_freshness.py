"""How fresh an Iceberg table is: from a produce at a source to what a reader of the table sees.

    producer -> broker of a source -> mirror -> broker of an aggregate -> materialize -> table

`heliograph up` and `heliograph spark materialize` run as processes. The producer sends one frame
at a time, with a batch for every partition. A reader loads the table again and again. The copies
have the offsets of the source, so the table's positions tell which frames it has.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.table_state import TableState
from tests.bench import raw_frames
from tests.bench.processes import cpu_seconds
from tests.bench.raw_client import connected
from tests.bench.spark_deployment import AGGREGATE, START_SECONDS_MAX, TOPIC, Deployed, deployed
from tests.bench.spark_load import RECORDS_PER_BATCH, VALUE_BYTES, make_batches
from tests.bench.spark_model import TRIGGER_SECONDS, Freshness, SparkScale

CODEC: Final = "lz4"
TABLE: Final = (AGGREGATE, f"global_{TOPIC}")
POLL_SECONDS: Final = 0.1
"""Between two loads of the table: a frame is seen so much later at most."""
BEHIND_SECONDS_MAX: Final = 60.0
"""How long the table may take, after the last frame of a rate, to have all."""


@dataclass
class Frames:
    """The frames that were sent so far."""

    per_partition: int = 0
    sent: list[tuple[float, int]] = field(default_factory=list)
    """When one was sent, and the offset behind it in every partition."""


class Reader:
    """Loads the table, as a reader of it does."""

    def __init__(self, place: Path, partitions: int) -> None:
        self._place = str(place)
        self._partitions = partitions
        self._catalogue: Catalog | None = None

    def position(self) -> int:
        """Return the offset that the table has reached in every partition."""
        try:
            if self._catalogue is None:
                self._catalogue = open_catalogue(self._place)
            table = self._catalogue.load_table(TABLE)
        except (NoSuchTableError, FileNotFoundError):
            return 0  # the job has not created it yet
        offsets = TableState.decode(table.properties).positions.offsets
        return min(offsets.values()) if len(offsets) == self._partitions else 0


@dataclass(frozen=True, slots=True)
class Running:
    """The deployment, the job that keeps the table, and a reader of it."""

    deployed: Deployed
    reader: Reader
    job: subprocess.Popen[bytes]
    log: Path

    def check_job(self) -> None:
        """Raises RuntimeError with the end of its log where the job has ended."""
        if self.job.poll() is not None:
            raise RuntimeError(f"the job ended by itself:\n{self.log.read_text()[-4000:]}")


def measure_freshness(directory: Path, scale: SparkScale) -> list[Freshness]:
    """Measure one rate after the other. Raises RuntimeError where a record does not arrive."""
    batches = make_batches("json", CODEC, RECORDS_PER_BATCH)
    numbers = range(scale.partitions)
    frames = [raw_frames.produce_frame(TOPIC, dict.fromkeys(numbers, each)) for each in batches]
    bytes_per_frame = scale.partitions * RECORDS_PER_BATCH * VALUE_BYTES
    done = Frames()
    found = []
    with (
        deployed(directory, scale.partitions) as processes,
        _job(processes, directory, scale.partitions) as running,
    ):
        for rate in (min(scale.freshness_megabytes), *scale.freshness_megabytes):
            pause = bytes_per_frame / (rate * 1e6)
            found.append(_at_a_rate(running, frames, done, pause, scale, rate))
    return found[1:]  # the first one was to warm up


def _at_a_rate(
    running: Running,
    frames: list[bytes],
    done: Frames,
    pause: float,
    scale: SparkScale,
    rate: float,
) -> Freshness:
    """Send frames at a pace and watch the table, until it has all."""
    first = len(done.sent)
    seen: list[tuple[float, int]] = []
    cpu_before = [cpu_seconds(each) for each in _groups(running)]
    began = time.time()
    ends = began + scale.freshness_seconds
    with connected("127.0.0.1", running.deployed.source_port) as (connection,):
        due, looked = began, began
        while (now := time.time()) < ends:
            if now >= due:
                done.per_partition += RECORDS_PER_BATCH
                raw_frames.produced(connection.call(frames[len(done.sent) % len(frames)]))
                done.sent.append((now, done.per_partition))
                due += pause
            elif now - looked >= POLL_SECONDS:
                looked = now
                seen.append((time.time(), running.reader.position()))
            else:
                time.sleep(max(0.0, min(due, looked + POLL_SECONDS) - now))
    seconds = time.time() - began
    cpu = [cpu_seconds(each) for each in _groups(running)]
    limit = START_SECONDS_MAX if first == 0 else BEHIND_SECONDS_MAX
    while not seen or seen[-1][1] < done.per_partition:
        running.check_job()
        if time.time() > ends + limit:
            raise RuntimeError(f"{rate} MB/s: {seen[-1:]} of {done.per_partition} after {limit} s")
        time.sleep(POLL_SECONDS)
        seen.append((time.time(), running.reader.position()))
    sent = done.sent[first:]
    broker, mirror, job = (after - before for after, before in zip(cpu, cpu_before, strict=True))
    return Freshness(
        wanted_megabytes=rate,
        megabytes=len(sent) / seconds * scale.partitions * RECORDS_PER_BATCH * VALUE_BYTES / 1e6,
        delays=_delays(sent, seen),
        behind_seconds=seen[-1][0] - ends,
        cpu_per_second={
            "brokers": broker / seconds,
            "mirror": mirror / seconds,
            "job": job / seconds,
        },
    )


def _delays(sent: list[tuple[float, int]], seen: list[tuple[float, int]]) -> list[float]:
    """Return the seconds from when a frame was sent until the table had it."""
    delays = []
    looks = iter(seen)
    at, position = next(looks)
    for when, end in sent:
        while position < end:
            at, position = next(looks)
        delays.append(at - when)
    return delays


def _groups(running: Running) -> tuple[list[int], list[int], list[int]]:
    return running.deployed.broker_pids, running.deployed.mirror_pids, [running.job.pid]


@contextlib.contextmanager
def _job(processes: Deployed, directory: Path, partitions: int) -> Iterator[Running]:
    """Run the job that keeps the table."""
    tables, log = directory / "tables", directory / "job.log"
    command = processes.command
    with log.open("wb") as output:
        job = subprocess.Popen(
            [
                *(sys.executable, "-m", "topology", "spark", "materialize", TABLE[1], str(tables)),
                *("--to", "iceberg", "--trigger", str(TRIGGER_SECONDS)),
                *("--master", "local[2]", "--state-dir", str(command.state_dir)),
                str(command.file),
            ],
            stdout=output,
            stderr=output,
        )
    try:
        yield Running(processes, Reader(tables, partitions), job, log)
    finally:
        job.terminate()
        job.wait()
