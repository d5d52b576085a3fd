"""What one flow measures of the records that pass: latencies, ages and rates. Pure.

The latency of a batch is the time of its acknowledgement minus its largest timestamp, counted for
each of its records. Timestamps are the producers': an old backlog has a high latency, and a
producer whose clock is ahead counts as 0. MirrorMaker 2's replication-latency-ms is defined alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Inclusive upper bounds of the buckets; one more bucket holds larger values."""
WINDOW_MS: Final = 30_000
"""Length of a window of `WindowedRate`."""


class LatencyStats:
    """The last, least, largest and mean latency: the attributes of MirrorMaker 2's MBeans."""

    __slots__ = ("count", "last_ms", "max_ms", "min_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        """Records, or other units that are counted."""
        self.sum_ms = 0
        self.last_ms: int | None = None
        self.min_ms: int | None = None
        self.max_ms: int | None = None

    def observe(self, latency_ms: int, records_count: int) -> None:
        """Count records with this latency; a negative one (a clock ahead) counts as 0."""
        latency_ms = max(0, latency_ms)
        self.count += records_count
        self.sum_ms += latency_ms * records_count
        self.last_ms = latency_ms
        self.min_ms = latency_ms if self.min_ms is None else min(self.min_ms, latency_ms)
        self.max_ms = latency_ms if self.max_ms is None else max(self.max_ms, latency_ms)

    @property
    def mean_ms(self) -> float | None:
        """Return the mean; None before the first record."""
        return self.sum_ms / self.count if self.count else None

    def as_json(self) -> dict[str, float | None]:
        """Return the statistics for `/status`; null before the first record."""
        return {
            "last_ms": self.last_ms,
            "min_ms": self.min_ms,
            "max_ms": self.max_ms,
            "mean_ms": self.mean_ms,
        }


class LatencyHistogram(LatencyStats):
    """Latency statistics with counts by bucket."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        super().__init__()
        self.counts = [0] * (len(BOUNDS_MS) + 1)

    def observe(self, latency_ms: int, records_count: int) -> None:
        """See `LatencyStats.observe`."""
        self.counts[bisect_left(BOUNDS_MS, latency_ms)] += records_count
        super().observe(latency_ms, records_count)


class WindowedRate:
    """A rate per second over two windows, the present one and the last, like Kafka's `Rate`.

    A rate that began a moment ago is divided by a whole window, so the first record is no burst.
    """

    __slots__ = ("_previous", "_started_ms", "_sum")

    def __init__(self) -> None:
        self._started_ms: int | None = None
        self._sum = 0
        self._previous = 0

    def observe(self, count: int, now_ms: int) -> None:
        """Count events of this moment; `now_ms` never goes back."""
        self._roll(now_ms)
        if self._started_ms is None:
            self._started_ms = now_ms
        self._sum += count

    def per_second(self, now_ms: int) -> float | None:
        """Return the rate; None before the first event."""
        self._roll(now_ms)
        if self._started_ms is None:
            return None
        # The previous window counts as a whole one, even if there was none.
        elapsed_ms = WINDOW_MS + now_ms - self._started_ms
        return (self._previous + self._sum) * 1000 / elapsed_ms

    def _roll(self, now_ms: int) -> None:
        if self._started_ms is None or now_ms - self._started_ms < WINDOW_MS:
            return
        windows = (now_ms - self._started_ms) // WINDOW_MS
        self._previous = self._sum if windows == 1 else 0
        self._sum = 0
        self._started_ms += windows * WINDOW_MS


class FlowMeasures:
    """The measures of one flow."""

    __slots__ = ("age", "byte_rate", "latency", "record_rate")

    def __init__(self) -> None:
        self.latency = LatencyHistogram()
        self.age = LatencyStats()
        """Age of records when they are sent."""
        self.record_rate = WindowedRate()
        self.byte_rate = WindowedRate()

    def sent(self, age_ms: int, records_count: int) -> None:
        """Count a batch that was sent to the target."""
        self.age.observe(age_ms, records_count)

    def acknowledged(
        self, latency_ms: int, records_count: int, size_bytes: int, now_ms: int
    ) -> None:
        """Count a batch that the target acknowledged; `now_ms` is monotonic."""
        self.latency.observe(latency_ms, records_count)
        self.record_rate.observe(records_count, now_ms)
        self.byte_rate.observe(size_bytes, now_ms)


def summed_counts(histograms: Iterable[list[int]]) -> list[int]:
    """Return the sum of the buckets of several histograms."""
    total = [0] * (len(BOUNDS_MS) + 1)
    for counts in histograms:
        for index, count in enumerate(counts):
            total[index] += count
    return total
