"""A Spark driver in a process of its own that streams an aggregate into Parquet until it is killed.

python -m tests.support.streaming_job BOOTSTRAP TOPIC DIRECTORY RECORDS_PER_BATCH
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spark_global.session import SHORT_JOB, open_session
from spark_global.views import Aggregate, stream_records
from tests.support.spark_job import SparkJob

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
    """The process, and what its checkpoint says."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, records_per_batch: int) -> None:
        self.directory = directory
        arguments = [bootstrap, topic, str(directory), str(records_per_batch)]
        self._job = SparkJob("tests.support.streaming_job", arguments, directory / "job.log")

    def batches(self, name: str) -> set[int]:
        """Return the batches in the folder `offsets` (planned) or `commits` (done)."""
        folder = self.directory / "checkpoint" / name
        return {int(each.name) for each in folder.glob("[0-9]*")}

    def kill(self) -> None:
        """Kill -9 the driver, its JVM and its Python processes."""
        self._job.kill()

    def kill_workers(self) -> int:
        """Kill -9 the Python workers that run tasks; return how many there were."""
        return self._job.kill_workers()


def main(bootstrap: str, topic: str, directory: str, records_per_batch: str) -> None:
    aggregate = Aggregate(name="nyc", bootstrap=bootstrap, links=())
    with open_session(MASTER, settings=SHORT_JOB) as session:
        frame = stream_records(
            session, aggregate, topic=topic, maxRecordsPerTrigger=records_per_batch
        )
        write_parquet(frame, Path(directory), available_now=False).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
