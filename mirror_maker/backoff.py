"""Growing pauses between attempts, bounded and jittered. Pure but for the given random source."""

from __future__ import annotations

from random import Random


class Backoff:
    """Pauses that double from `ms_min` up to `ms_max`, each shortened by up to half."""

    def __init__(self, ms_min: int, ms_max: int, random: Random) -> None:
        self._ms_min = ms_min
        self._ms_max = ms_max
        self._random = random
        self._ms = ms_min

    def next_ms(self) -> int:
        """Return the pause before the next attempt."""
        pause = self._ms * self._random.uniform(0.5, 1.0)
        self._ms = min(self._ms_max, self._ms * 2)
        return max(1, round(pause))

    def reset(self) -> None:
        """Start over from the shortest pause, after a success."""
        self._ms = self._ms_min
