"""Latencies of probe records from sending to arrival: a histogram, and quantiles. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from typing import Final

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Inclusive upper bounds of the buckets; one more bucket has no bound."""
RECENT_MAX: Final = 1_000
"""Number of recent records from which quantiles are computed."""


class Latencies:
    """The latencies of one link, in milliseconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        """Records by bucket, since the start."""
        self._recent: deque[float] = deque(maxlen=RECENT_MAX)

    def observe(self, latency_ms: float) -> None:
        """Add the latency of one record."""
        self.counts[bisect_left(BOUNDS_MS, latency_ms)] += 1
        self._recent.append(latency_ms)

    @property
    def last_ms(self) -> float | None:
        """The last latency; None before the first record."""
        return self._recent[-1] if self._recent else None

    def quantile_ms(self, share: float) -> float | None:
        """Return the smallest latency that this share of the recent records does not exceed."""
        if not self._recent:
            return None
        return sorted(self._recent)[math.ceil(share * len(self._recent)) - 1]
