"""Producer ids from reserved blocks: one ZooKeeper write per thousand ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """Hands out each id once, and calls `reserve` for the next block when one is exhausted."""

    def __init__(self, reserve: Callable[[], Awaitable[range]]) -> None:
        self._reserve = reserve
        self._block = iter(range(0))
        self._reserving = asyncio.Lock()

    async def next(self) -> int:
        """Return the next id. Raises KafkaError if no block can be reserved."""
        async with self._reserving:
            producer_id = next(self._block, None)
            if producer_id is None:
                self._block = iter(await self._reserve())
                producer_id = next(self._block)
            return producer_id
