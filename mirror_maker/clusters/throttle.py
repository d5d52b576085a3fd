"""How fast a link may go: bytes are taken when they come, and waited for before the next. Pure.

What was taken is a debt that time pays off; nothing more is taken while there is one. A fetch or a
batch is never cut for it, so that for a moment more may pass than the rate; over time it does not.
"""

from __future__ import annotations


class Throttle:
    """One direction of a link, on one worker."""

    def __init__(self) -> None:
        self._bytes_per_second = 0.0
        self._debt_bytes = 0.0
        self._paid_at_ms = 0

    def set_rate(self, bytes_per_second: float, now_ms: int) -> None:
        """From now on; 0 is without a limit."""
        self._pay(now_ms)
        self._bytes_per_second = bytes_per_second
        if not bytes_per_second:
            self._debt_bytes = 0.0

    def spend(self, size_bytes: int, now_ms: int) -> None:
        """So much was taken."""
        if self._bytes_per_second:
            self._pay(now_ms)
            self._debt_bytes += size_bytes

    def delay_ms(self, now_ms: int) -> int:
        """How long until something may be taken; 0 is now."""
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
