"""The time in which a connection is not read because of a quota, as Kafka mutes a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Mute:
    """Off at first. All methods are called on the loop."""

    __slots__ = ("_on_end", "_timer", "_until_s", "is_on")

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.is_on = False
        self._on_end = on_end
        self._until_s = 0.0
        """By the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None

    def extend(self, throttle_ms: int) -> None:
        """Stay on for at least so long. Of several such times the last end holds."""
        loop = asyncio.get_running_loop()
        self._until_s = max(self._until_s, loop.time() + throttle_ms / 1000)
        if self._timer is None:
            self._timer = loop.call_at(self._until_s, self._fire)
        self.is_on = True

    def cancel(self) -> None:
        """Forget the time: the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._until_s:
            self._timer = loop.call_at(self._until_s, self._fire)
            return
        self._timer = None
        self.is_on = False
        self._on_end()
