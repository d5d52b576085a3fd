"""How long records take from the source to the target, as a histogram. Pure.

Of a batch when it is acknowledged: the present time minus its largest timestamp, counted for each
of its records. Timestamps are the producers': what is copied of an old backlog is old, and a
producer whose clock is ahead counts as 0. MirrorMaker 2's replication-latency-ms is the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Upper bounds of the buckets, included; one more bucket is for what takes longer."""


class LatencyHistogram:
    """Counts by bucket, and what MirrorMaker 2 tells beside: last, least, largest, mean."""

    __slots__ = ("count", "counts", "last_ms", "max_ms", "min_ms", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.count = 0
        """Records."""
        self.sum_ms = 0
        self.last_ms: int | None = None
        self.min_ms: int | None = None
        self.max_ms: int | None = None

    def observe(self, latency_ms: int, records_count: int) -> None:
        """So many records took so long."""
        latency_ms = max(0, latency_ms)
        self.counts[bisect_left(BOUNDS_MS, latency_ms)] += records_count
        self.count += records_count
        self.sum_ms += latency_ms * records_count
        self.last_ms = latency_ms
        self.min_ms = latency_ms if self.min_ms is None else min(self.min_ms, latency_ms)
        self.max_ms = latency_ms if self.max_ms is None else max(self.max_ms, latency_ms)

    @property
    def mean_ms(self) -> float | None:
        """None before the first record."""
        return self.sum_ms / self.count if self.count else None


def summed_counts(histograms: Iterable[list[int]]) -> list[int]:
    """The buckets of several histograms together."""
    total = [0] * (len(BOUNDS_MS) + 1)
    for counts in histograms:
        for index, count in enumerate(counts):
            total[index] += count
    return total
