"""Tokens that refill at the rate of a quota, for mutations that come in bursts (KIP-599). Pure.

The arithmetic is that of Kafka's `TokenBucket`. A bucket holds what the rate gives in all windows
together. Taking more than it holds is allowed once, and leaves a debt that must be refilled first.
"""

from __future__ import annotations


class TokenBucket:
    """The tokens of one client. All times are in ms by one clock."""

    def __init__(self, *, windows: int, window_ms: int) -> None:
        self._span_s = windows * window_ms / 1000
        self._tokens = 0.0
        self._refilled_ms: int | None = None
        """None: full."""

    def tokens(self, rate: float, now_ms: int) -> float:
        """Return how many there are, below 0 for a debt, at `rate` tokens per second."""
        burst = self._span_s * rate
        if self._refilled_ms is None:
            self._tokens = burst
        else:
            gained = rate * (now_ms - self._refilled_ms) / 1000
            self._tokens = min(burst, self._tokens + gained)
        self._refilled_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, also more than there are."""
        self._tokens = min(self._span_s * rate, self.tokens(rate, now_ms) - count)

    def wait_ms(self, rate: float, now_ms: int) -> int:
        """Return how long to wait until a debt is refilled; 0 without one."""
        tokens = self.tokens(rate, now_ms)
        if tokens >= 0:
            return 0
        if rate <= 0:
            return int(self._span_s * 1000)
        return int(-tokens / rate * 1000 + 0.5)
