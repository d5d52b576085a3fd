"""A rate in bytes per second over the last seconds, and whether it is more than allowed. Pure.

As Kafka's replication quotas (KIP-73): what was moved is counted in windows of one second, the
rate is that of the last eleven of them, the one that is being filled included, and never taken over
less than one whole window. What exceeds the quota is moved all the same, and then nothing until the
rate has come down: an answer is as big as it is.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOWS_DEFAULT: Final = 11
"""Kafka's default of replication.quota.window.num."""
WINDOW_MS_DEFAULT: Final = 1_000
"""Kafka's default of replication.quota.window.size.seconds."""
UNLIMITED: Final = (1 << 63) - 1
"""Kafka's default of both rates, in bytes per second."""


class RateQuota:
    """What was moved lately, against a limit in bytes per second."""

    def __init__(
        self, *, windows: int = WINDOWS_DEFAULT, window_ms: int = WINDOW_MS_DEFAULT
    ) -> None:
        assert windows >= 1, "at least one window"
        assert window_ms >= 1, "a window takes time"
        self.bytes_per_second_max = UNLIMITED
        self._span_ms = windows * window_ms
        self._window_ms = window_ms
        self._windows: deque[tuple[int, int]] = deque()
        """(start in ms, bytes), oldest first; at most as many as there may be windows."""
        self._bytes = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count what was moved; `now_ms` is monotonic."""
        self._forget(now_ms)
        self._bytes += size_bytes
        if self._windows and now_ms - self._windows[-1][0] < self._window_ms:
            start_ms, before = self._windows.pop()
            self._windows.append((start_ms, before + size_bytes))
        else:
            self._windows.append((now_ms, size_bytes))

    def rate(self, now_ms: int) -> float:
        """Bytes per second."""
        self._forget(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0][0], self._window_ms)
        return self._bytes * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: int) -> bool:
        return (
            self.bytes_per_second_max < UNLIMITED and self.rate(now_ms) > self.bytes_per_second_max
        )

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._span_ms:
            self._bytes -= self._windows.popleft()[1]
