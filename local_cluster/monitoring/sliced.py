"""Long work on the event loop in slices: other callbacks run after each.

A slice ends at the first check after `SLICE_NS`, so work between two checks must be short.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

SLICE_NS: Final = 400_000
"""Less than half of the millisecond that a scrape may hold the loop: a step may take the rest."""
T = TypeVar("T")


class Slices:
    """The slices of one piece of work, however many loops it has."""

    def __init__(self) -> None:
        self._ends_ns = 0

    async def over(self, steps: Iterable[T]) -> AsyncIterator[T]:
        """Yield each item, and let the loop run whenever a slice is over.

        The iterable must not read a collection that changes meanwhile.
        """
        for step in steps:
            yield step
            if time.perf_counter_ns() >= self._ends_ns:
                await asyncio.sleep(0)
                self._ends_ns = time.perf_counter_ns() + SLICE_NS
