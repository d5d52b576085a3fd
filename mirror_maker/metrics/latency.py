"""How long records take from the source to the target, as a histogram. Pure.

Of a batch when it is acknowledged: the present time minus its largest timestamp, counted for each
of its records. Timestamps are the producers': what is copied of an old backlog is old, and a
producer whose clock is ahead counts as 0. MirrorMaker 2's replication-latency-ms is the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from mirror_maker.metrics.rates import WindowedRate

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Upper bounds of the buckets, included; one more bucket is for what takes longer."""


class LatencyStats:
    """What MirrorMaker 2 tells of its latencies: last, least, largest, mean."""

    __slots__ = ("count", "last_ms", "max_ms", "min_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        """Records, or whatever is counted."""
        self.sum_ms = 0
        self.last_ms: int | None = None
        self.min_ms: int | None = None
        self.max_ms: int | None = None

    def observe(self, latency_ms: int, records_count: int) -> None:
        """So many records took so long; below 0, for a clock that is ahead, counts as 0."""
        latency_ms = max(0, latency_ms)
        self.count += records_count
        self.sum_ms += latency_ms * records_count
        self.last_ms = latency_ms
        self.min_ms = latency_ms if self.min_ms is None else min(self.min_ms, latency_ms)
        self.max_ms = latency_ms if self.max_ms is None else max(self.max_ms, latency_ms)

    @property
    def mean_ms(self) -> float | None:
        """None before the first record."""
        return self.sum_ms / self.count if self.count else None


class LatencyHistogram(LatencyStats):
    """Counts by bucket beside."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        super().__init__()
        self.counts = [0] * (len(BOUNDS_MS) + 1)

    def observe(self, latency_ms: int, records_count: int) -> None:
        """See `LatencyStats.observe`."""
        self.counts[bisect_left(BOUNDS_MS, latency_ms)] += records_count
        super().observe(latency_ms, records_count)


class FlowMeasures:
    """What one flow measures of the records that pass."""

    __slots__ = ("age", "byte_rate", "latency", "record_rate")

    def __init__(self) -> None:
        self.latency = LatencyHistogram()
        self.age = LatencyStats()
        """How old records are when they are sent."""
        self.record_rate = WindowedRate()
        self.byte_rate = WindowedRate()

    def sent(self, age_ms: int, records_count: int) -> None:
        """A batch is on its way to the target."""
        self.age.observe(age_ms, records_count)

    def acknowledged(
        self, latency_ms: int, records_count: int, size_bytes: int, now_ms: int
    ) -> None:
        """The target has it; `now_ms` is of the monotonic clock."""
        self.latency.observe(latency_ms, records_count)
        self.record_rate.observe(records_count, now_ms)
        self.byte_rate.observe(size_bytes, now_ms)


def summed_counts(histograms: Iterable[list[int]]) -> list[int]:
    """The buckets of several histograms together."""
    total = [0] * (len(BOUNDS_MS) + 1)
    for counts in histograms:
        for index, count in enumerate(counts):
            total[index] += count
    return total
