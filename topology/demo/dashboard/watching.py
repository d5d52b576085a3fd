"""Takes a sample twice a second, in a thread of its own, until it is closed. Shell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from spark_global.streaming.lag import DatacenterLag
from topology.demo.dashboard.charts import Band
from topology.demo.dashboard.document import Table, View
from topology.demo.dashboard.samples import DatacenterSample, History, Sample

SAMPLE_SECONDS: Final = 0.5
BANDS_MAX: Final = 20


class Watching:
    """What the page shows. Every method may be called from any thread."""

    def __init__(
        self,
        deployment: str,
        topic: str,
        datacenters: Sequence[str],
        completeness: Callable[[], Mapping[str, Any] | None],
    ) -> None:
        """`completeness` asks the aggregator; None if it does not answer."""
        self._deployment = deployment
        self._topic = topic
        self._datacenters = tuple(datacenters)
        self._completeness = completeness
        self._lock = threading.Lock()
        self._history = History()
        self._stage = "deploying"
        self._bands: list[Band] = []
        self._tables: list[Table] = []
        self._counts: dict[str, dict[str, int]] = {
            name: {} for name in ("produced", "mirrored", "rows")
        }
        self._lags: Callable[[], Sequence[DatacenterLag]] = tuple
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-watching", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the start, as samples have them."""
        return time.monotonic() - self._started

    @property
    def samples(self) -> list[Sample]:
        with self._lock:
            return self._history.samples

    def set_stage(self, stage: str) -> None:
        """Say what the demo does."""
        with self._lock:
            self._stage = stage

    def set_count(self, kind: str, datacenter: str, count: int) -> None:
        """Set how many flights of a datacenter are `produced`, `mirrored` or `rows`."""
        with self._lock:
            self._counts[kind][datacenter] = count

    def follow_lag(self, lags: Callable[[], Sequence[DatacenterLag]]) -> None:
        """Take the lag of the stream from here."""
        with self._lock:
            self._lags = lags

    def add_table(self, table: Table) -> None:
        with self._lock:
            self._tables.append(table)

    def add_band(self, band: Band) -> None:
        """Shade a time in the charts."""
        with self._lock:
            if len(self._bands) < BANDS_MAX:
                self._bands.append(band)

    def view(self, *, verdict: str | None = None, is_good: bool = False) -> View:
        """Return what the page shows now."""
        with self._lock:
            return View(
                deployment=f"heliograph demo: {self._deployment}",
                stage=self._stage,
                samples=self._history.samples,
                bands=tuple(self._bands),
                tables=tuple(self._tables),
                verdict=verdict,
                is_good=is_good,
            )

    def _run(self) -> None:
        while True:
            self._take()
            if self._stop.wait(SAMPLE_SECONDS):
                return

    def _take(self) -> None:
        document = self._completeness()
        topic = _of_topic(document, self._topic)
        through = {
            part["datacenter"]: part["complete_through_ms"] for part in topic.get("datacenters", ())
        }
        fast = topic.get("fast") or {}
        with self._lock:
            lags = {lag.datacenter: lag for lag in self._lags()}
            datacenters = {
                name: DatacenterSample(
                    produced=self._counts["produced"].get(name, 0),
                    mirrored=self._counts["mirrored"].get(name, 0),
                    rows=self._counts["rows"].get(name, 0),
                    lag_records=lags[name].records if name in lags else None,
                    lag_seconds=lags[name].seconds if name in lags else None,
                    complete_through_ms=through.get(name),
                )
                for name in self._datacenters
            }
            self._history.add(
                Sample(
                    at_seconds=self.elapsed_seconds,
                    now_ms=time.time_ns() // 1_000_000,
                    datacenters=datacenters,
                    strict_ms=(topic.get("strict") or {}).get("complete_through_ms"),
                    fast_ms=fast.get("complete_through_ms"),
                    missing=tuple(each["datacenter"] for each in fast.get("missing", ())),
                )
            )


def _of_topic(document: Mapping[str, Any] | None, topic: str) -> Mapping[str, Any]:
    for each in (document or {}).get("topics", ()):
        if any(part["source_topic"] == topic for part in each["datacenters"]):
            found: Mapping[str, Any] = each
            return found
    return {}
