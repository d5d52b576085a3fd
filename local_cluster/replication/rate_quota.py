"""A rate in bytes per second over the last seconds, and whether it exceeds a quota. Pure.

As in Kafka's replication quotas (KIP-73), bytes are counted in windows of one second. The rate is
that of the last eleven windows, the present one included, and never over less than one whole
window. A response is as large as it is: it may exceed the quota, and then nothing moves until the
rate has come down.
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
    """The bytes that moved lately, against a quota in bytes per second."""

    def __init__(
        self, *, windows: int = WINDOWS_DEFAULT, window_ms: int = WINDOW_MS_DEFAULT
    ) -> None:
        assert windows >= 1, "at least one window"
        assert window_ms >= 1, "a window takes time"
        self.bytes_per_second_max = UNLIMITED
        self._span_ms = windows * window_ms
        self._window_ms = window_ms
        self._windows: deque[tuple[int, int]] = deque()
        """(start in ms, bytes), oldest first; no more than the number of windows."""
        self._bytes = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that moved. `now_ms` is monotonic."""
        self._drop_old_windows(now_ms)
        self._bytes += size_bytes
        if self._windows and now_ms - self._windows[-1][0] < self._window_ms:
            start_ms, before = self._windows.pop()
            self._windows.append((start_ms, before + size_bytes))
        else:
            self._windows.append((now_ms, size_bytes))

    def rate(self, now_ms: int) -> float:
        """Return the bytes per second."""
        self._drop_old_windows(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0][0], self._window_ms)
        return self._bytes * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: int) -> bool:
        return (
            self.bytes_per_second_max < UNLIMITED and self.rate(now_ms) > self.bytes_per_second_max
        )

    def _drop_old_windows(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._span_ms:
            self._bytes -= self._windows.popleft()[1]
