"""PORT: the clock. Cores take times as arguments, shells read them here."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Reads the time, in milliseconds."""

    def now_ms(self) -> int:
        """Return the wall clock, since the Unix epoch. It may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, for timeouts."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
