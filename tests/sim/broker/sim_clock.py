"""The clock of a simulated broker."""

from __future__ import annotations

import asyncio

START_OF_TIME_MS = 1_700_000_000_000


class SimClock:
    """The virtual time of the loop, and a wall clock that may be wrong."""

    def __init__(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_OF_TIME_MS + self.monotonic_ms() + self.skew_ms

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)
