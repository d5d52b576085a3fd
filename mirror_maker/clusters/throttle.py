"""Byte rates of a link: bytes count when they arrive, the next request waits. Pure.

The bytes taken are a debt that time pays off; nothing more is taken while there is a debt. A fetch
or a batch is never split for it, so the rate holds over time and not at every moment.
"""

from __future__ import annotations


class Throttle:
    """One direction of a link, on one worker."""

    def __init__(self) -> None:
        self._bytes_per_second = 0.0
        self._debt_bytes = 0.0
        self._paid_at_ms = 0

    def set_rate(self, bytes_per_second: float, now_ms: int) -> None:
        """Set the rate from now on; 0 is unlimited."""
        self._pay(now_ms)
        self._bytes_per_second = bytes_per_second
        if not bytes_per_second:
            self._debt_bytes = 0.0

    def spend(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were taken."""
        if self._bytes_per_second:
            self._pay(now_ms)
            self._debt_bytes += size_bytes

    def delay_ms(self, now_ms: int) -> int:
        """Return how long to wait before the next bytes; 0 is now."""
        self._pay(now_ms)
        if self._debt_bytes <= 0 or not self._bytes_per_second:
            return 0
        return max(1, round(self._debt_bytes / self._bytes_per_second * 1000))

    def _pay(self, now_ms: int) -> None:
        paid = self._bytes_per_second * max(0, now_ms - self._paid_at_ms) / 1000
        self._debt_bytes = max(0.0, self._debt_bytes - paid)
        self._paid_at_ms = now_ms


class Rates:
    """Both directions of a link."""

    def __init__(self) -> None:
        self.source = Throttle()
        self.target = Throttle()
