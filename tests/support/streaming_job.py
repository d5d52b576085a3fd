"""A Spark driver in a process of its own that streams an aggregate into Parquet until it is killed.

python -m tests.support.streaming_job BOOTSTRAP TOPIC DIRECTORY RECORDS_PER_BATCH
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spark_global.session import SHORT_JOB, open_session
from spark_global.views import Aggregate, stream_records

MASTER: Final = "local[2,4]"
"""Two slots; a task may fail three times."""


def write_parquet(frame: DataFrame, directory: Path, *, available_now: bool) -> StreamingQuery:
    """Start the query whose rows and checkpoint lie in a directory."""
    writer = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


class StreamingJob:
    """The process, its JVM and its Python workers."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, records_per_batch: int) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "tests.support.streaming_job", bootstrap, topic]
        with (directory / "job.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(directory), str(records_per_batch)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def batches(self, name: str) -> set[int]:
        """Return the batches in the folder `offsets` (planned) or `commits` (done)."""
        folder = self.directory / "checkpoint" / name
        return {int(each.name) for each in folder.glob("[0-9]*")}

    def kill(self) -> None:
        """Kill -9 the driver, its JVM and its Python processes."""
        for pid, _, _ in self._processes():
            _kill(pid)
        self.process.wait()

    def kill_workers(self) -> int:
        """Kill -9 the Python workers that run tasks; return how many there were."""
        processes = self._processes()
        daemons = [pid for pid, _, command in processes if b"pyspark.daemon" in command]
        workers = [pid for pid, parent, _ in processes if parent in daemons]
        for pid in workers:
            _kill(pid)
        return len(workers)

    def _processes(self) -> list[tuple[int, int, bytes]]:
        """Return (pid, parent, command line) of every process of the job's session."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            _, parent, _, session = (int(each) if each.isdigit() else 0 for each in fields[:4])
            if session == self.process.pid:
                found.append((int(entry.name), parent, command))
        return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def main(bootstrap: str, topic: str, directory: str, records_per_batch: str) -> None:
    aggregate = Aggregate(name="nyc", bootstrap=bootstrap, links=())
    with open_session(MASTER, settings=SHORT_JOB) as session:
        frame = stream_records(
            session, aggregate, topic=topic, maxRecordsPerTrigger=records_per_batch
        )
        write_parquet(frame, Path(directory), available_now=False).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
