"""How much per second, over a window that moves, as Kafka's own metrics count it. Pure.

Two windows of 30 seconds, the present one and the last; what began a moment ago is divided by a
whole window, so that the first record is no burst (Kafka's `Rate` with its defaults).
"""

from __future__ import annotations

from typing import Final

WINDOW_MS: Final = 30_000


class WindowedRate:
    """Sums of the present window and of the one before."""

    __slots__ = ("_previous", "_started_ms", "_sum")

    def __init__(self) -> None:
        self._started_ms: int | None = None
        self._sum = 0
        self._previous = 0

    def observe(self, count: int, now_ms: int) -> None:
        """So much happened just now; `now_ms` never goes back."""
        self._roll(now_ms)
        if self._started_ms is None:
            self._started_ms = now_ms
        self._sum += count

    def per_second(self, now_ms: int) -> float | None:
        """None before anything has happened."""
        self._roll(now_ms)
        if self._started_ms is None:
            return None
        # The window before counts as a whole one, whether it was or not.
        elapsed_ms = WINDOW_MS + now_ms - self._started_ms
        return (self._previous + self._sum) * 1000 / elapsed_ms

    def _roll(self, now_ms: int) -> None:
        if self._started_ms is None or now_ms - self._started_ms < WINDOW_MS:
            return
        windows = (now_ms - self._started_ms) // WINDOW_MS
        self._previous = self._sum if windows == 1 else 0
        self._sum = 0
        self._started_ms += windows * WINDOW_MS
