"""Exponential backoff with jitter: growing pauses between the attempts of one retried action."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mirror_maker.ports import Clock


class Backoff:
    """Pauses that double from `ms_min` up to `ms_max`, each shortened randomly by up to half."""

    def __init__(self, ms_min: int, ms_max: int, random: Random, clock: Clock) -> None:
        self._ms_min = ms_min
        self._ms_max = ms_max
        self._random = random
        self._clock = clock
        self._ms = ms_min

    def next_ms(self) -> int:
        """Return the pause before the next attempt, and let the following one grow."""
        pause = self._ms * self._random.uniform(0.5, 1.0)
        self._ms = min(self._ms_max, self._ms * 2)
        return max(1, round(pause))

    async def wait(self) -> None:
        """Sleep until the next attempt."""
        await self._clock.sleep(self.next_ms())

    def reset(self) -> None:
        """Start over with the shortest pause: an attempt succeeded."""
        self._ms = self._ms_min


NewBackoff = Callable[[], Backoff]
"""Makes a backoff with the limits of the worker."""
