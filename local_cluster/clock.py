"""The clock as a port: cores take times as arguments, shells read them here."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a shell reads the time."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, for timeouts."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
