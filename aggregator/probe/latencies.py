"""How long probe records take from sending to arrival: a histogram, and quantiles. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from typing import Final

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Upper bounds of the buckets, included; one more bucket is for what takes longer."""
RECENT_MAX: Final = 1_000
"""Quantiles are those of the last so many records."""


class Latencies:
    """The latencies of one link; milliseconds throughout."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        """By bucket, since the start."""
        self._recent: deque[float] = deque(maxlen=RECENT_MAX)

    def observe(self, latency_ms: float) -> None:
        """One record has arrived."""
        self.counts[bisect_left(BOUNDS_MS, latency_ms)] += 1
        self._recent.append(latency_ms)

    @property
    def last_ms(self) -> float | None:
        """None before the first record."""
        return self._recent[-1] if self._recent else None

    def quantile_ms(self, share: float) -> float | None:
        """The smallest latency that is not exceeded by this share of the recent records."""
        if not self._recent:
            return None
        return sorted(self._recent)[math.ceil(share * len(self._recent)) - 1]
