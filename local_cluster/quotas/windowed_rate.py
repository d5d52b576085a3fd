"""A rate over the last windows, and how long a client must wait to come down to its quota. Pure.

The arithmetic is that of Kafka's `Rate` over a `WindowedSum` (KIP-13):

- Values are summed in windows. A window ends once its span has passed and another value comes.
- A window counts until its last value is as old as all windows together.
- The rate is taken over the time since the oldest window began. That time counts at least one
  window less than the configured number, so that a first burst is not a high rate.
- Above the quota the wait is the time that would bring this rate down to it.
"""

from __future__ import annotations

from typing import Final

WINDOWS_DEFAULT: Final = 11
"""Kafka's default of quota.window.num."""
WINDOW_MS_DEFAULT: Final = 1_000
"""Kafka's default of quota.window.size.seconds."""


class _Window:
    """Values that came together."""

    __slots__ = ("began_ms", "last_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.total = 0.0
        self.began_ms = now_ms
        self.last_ms = now_ms


class WindowedRate:
    """What one client did lately. All times are in ms by one clock."""

    def __init__(
        self, *, windows: int = WINDOWS_DEFAULT, window_ms: int = WINDOW_MS_DEFAULT
    ) -> None:
        assert windows >= 1, "at least one window"
        assert window_ms >= 1, "a window takes time"
        self._count = windows
        self._window_ms = window_ms
        self._windows: list[_Window] = []
        """At most one more than the configured number: the oldest may have expired in part."""
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value. A negative one takes back what was added at the same time."""
        if not self._windows:
            self._windows.append(_Window(now_ms))
        window = self._windows[self._current]
        if now_ms - window.began_ms >= self._window_ms:
            window = self._advance(now_ms)
        window.total += value
        window.last_ms = now_ms

    def rate(self, now_ms: int) -> float:
        """Return the values per second."""
        span_ms = self._span_ms(now_ms)
        return sum(window.total for window in self._windows) / (span_ms / 1000)

    def wait_ms(self, quota: float, now_ms: int) -> int:
        """Return how long to wait until the rate is `quota` per second; 0 if it is not above it.

        A quota of 0 lets nothing pass: the wait is that of one whole span.
        """
        rate = self.rate(now_ms)
        if rate <= quota:
            return 0
        if quota <= 0:
            return self._count * self._window_ms
        # As Java's Math.round: half up.
        return int((rate - quota) / quota * self._span_ms(now_ms) + 0.5)

    def _advance(self, now_ms: int) -> _Window:
        self._current = (self._current + 1) % (self._count + 1)
        if self._current >= len(self._windows):
            self._windows.append(_Window(now_ms))
        else:
            self._windows[self._current] = _Window(now_ms)
        return self._windows[self._current]

    def _span_ms(self, now_ms: int) -> int:
        expired_ms = self._count * self._window_ms
        for index, window in enumerate(self._windows):
            if now_ms - window.last_ms >= expired_ms:
                self._windows[index] = _Window(now_ms)
        oldest_ms = min((window.began_ms for window in self._windows), default=now_ms)
        span_ms = now_ms - oldest_ms
        whole = span_ms // self._window_ms
        if whole < self._count - 1:
            span_ms += (self._count - 1 - whole) * self._window_ms
        return max(span_ms, 1)
