"""Writes of one producer that wait for its coordinator go on in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ProducerTurns:
    """A queue per producer id, there only while somebody waits in it."""

    def __init__(self) -> None:
        self._locks: dict[int, asyncio.Lock] = {}
        self._counts: dict[int, int] = {}

    def is_waiting(self, producer_id: int) -> bool:
        """Whether a write of this producer is waiting: one that comes now must not overtake it."""
        return producer_id in self._counts

    @asynccontextmanager
    async def turn(self, producer_id: int) -> AsyncIterator[None]:
        """Waits until every turn of the producer that was asked for before is over."""
        lock = self._locks.setdefault(producer_id, asyncio.Lock())
        self._counts[producer_id] = self._counts.get(producer_id, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._counts[producer_id] -= 1
            if not self._counts[producer_id]:
                del self._counts[producer_id], self._locks[producer_id]
