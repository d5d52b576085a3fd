"""How long the audit waits, so that it uses no more than its share of a core. Pure."""

from __future__ import annotations

from typing import Final

FETCH_NS_PER_BYTE: Final = 0.6
"""Cost of receiving and splitting a fetch, besides what is measured: 1.6 GB per CPU-second."""
CREDIT_MS_MAX: Final = 2_000
"""Unused time that may be used later, in milliseconds of the share."""
WINDOW_MS: Final = 60_000
"""The time that `share_used` covers."""


class CpuBudget:
    """The budget that the audits of all links of a worker share."""

    def __init__(self, share: float) -> None:
        """`share` of one core; 0 turns the audit off."""
        self.share = share
        self._at_ms: int | None = None
        self._debt_ns = 0.0
        self._spent: list[tuple[int, float]] = []

    def spend(self, now_ms: int, cpu_ns: int, fetched_bytes: int) -> None:
        """Count time that was used just now."""
        self._recover(now_ms)
        spent_ns = cpu_ns + fetched_bytes * FETCH_NS_PER_BYTE
        self._debt_ns += spent_ns
        self._spent.append((now_ms, spent_ns))
        while self._spent and self._spent[0][0] < now_ms - WINDOW_MS:
            self._spent.pop(0)

    def delay_ms(self, now_ms: int) -> int:
        """Return how long to wait before more is used."""
        self._recover(now_ms)
        if self._debt_ns <= 0:
            return 0
        return 1 + int(self._debt_ns / self.share / 1e6)

    def share_used(self, now_ms: int) -> float:
        """Return the share of one core that was used in the last minute."""
        recent = sum(spent for at_ms, spent in self._spent if at_ms >= now_ms - WINDOW_MS)
        return recent / (WINDOW_MS * 1e6)

    def _recover(self, now_ms: int) -> None:
        if self._at_ms is not None:
            gained_ns = (now_ms - self._at_ms) * 1e6 * self.share
            self._debt_ns = max(self._debt_ns - gained_ns, -CREDIT_MS_MAX * 1e6 * self.share)
        self._at_ms = now_ms
