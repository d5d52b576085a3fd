"""A Spark stream over the aggregate that counts the flights of each datacenter as they arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_global.streaming.lag import DatacenterLag
from spark_global.views import Aggregate, follow_streams, stream_records

TRIGGER: Final = "500 milliseconds"
POLL_SECONDS: Final = 0.1
WAIT_SECONDS_MAX: Final = 120.0

OnRows = Callable[[str, int], None]
"""Called with (datacenter, rows counted so far)."""


class StreamStalledError(Exception):
    """The stream did not count all flights."""


class FlightStream:
    """The query, from `with` to the end of the block."""

    def __init__(
        self,
        session: SparkSession,
        aggregate: Aggregate,
        topic: str,
        checkpoint: Path,
        on_rows: OnRows,
    ) -> None:
        self._session = session
        self._aggregate = aggregate
        self._topic = topic
        self._checkpoint = checkpoint
        self._on_rows = on_rows
        self._listener = follow_streams(session, aggregate)
        self._query: StreamingQuery | None = None
        self._lock = threading.Lock()
        self._batch_id = -1
        self._before: dict[str, int] = {}
        self._rows: dict[str, int] = {}

    def __enter__(self) -> Self:
        records = stream_records(self._session, self._aggregate, topic=self._topic)
        self._query = (
            records.select("datacenter")
            .writeStream.queryName("demo")
            .foreachBatch(self._count)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=TRIGGER)
            .start()
        )
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._query is not None:
            self._query.stop()
        self._session.streams.removeListener(self._listener)

    @property
    def rows(self) -> dict[str, int]:
        """Rows counted so far, by datacenter."""
        with self._lock:
            return dict(self._rows)

    def lags(self) -> list[DatacenterLag]:
        """Return how far the query was behind after its last batch; empty before the first one."""
        return [] if self._query is None else self._listener.lag(str(self._query.id))

    def wait(self, wanted: Mapping[str, int]) -> None:
        """Return when so many rows are counted. Raises StreamStalledError."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while any(self.rows.get(name, 0) < count for name, count in wanted.items()):
            error = None if self._query is None else self._query.exception()
            if error is not None:
                raise StreamStalledError(f"the stream ended: {error}")
            if time.monotonic() > deadline:
                raise StreamStalledError(f"the stream has counted {self.rows}, not {dict(wanted)}")
            time.sleep(POLL_SECONDS)

    def _count(self, batch: DataFrame, batch_id: int) -> None:
        """Add a batch. One that runs again after a failure replaces its first run."""
        found = {
            row["datacenter"]: row["count"] for row in batch.groupBy("datacenter").count().collect()
        }
        with self._lock:
            if batch_id != self._batch_id:
                self._batch_id, self._before = batch_id, self._rows
            names = self._before.keys() | found.keys()
            self._rows = {name: self._before.get(name, 0) + found.get(name, 0) for name in names}
            rows = dict(self._rows)
        for name, count in rows.items():
            self._on_rows(name, count)
