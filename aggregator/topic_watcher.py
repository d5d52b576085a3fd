"""Asks the aggregate for its topics now and then, so that no request has to wait for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aggregator.aggregate import Aggregate
from aggregator.ports import ClusterReader
from local_cluster.wire.errors import KafkaError

REFRESH_SECONDS: Final = 2.0
"""A new topic shows in the catalog after this long at the latest."""

logger = logging.getLogger(__name__)


class TopicWatcher:
    """Keeps the topics of an `Aggregate` fresh; `run` until cancelled."""

    def __init__(self, client: ClusterReader, aggregate: Aggregate) -> None:
        self._client = client
        self._aggregate = aggregate

    async def run(self) -> None:
        """Ask for ever; trouble is kept as the aggregate's problem and logged when it begins."""
        while True:
            await self.step()
            await asyncio.sleep(REFRESH_SECONDS)

    async def step(self) -> None:
        """Ask once."""
        try:
            cluster = await self._client.metadata()
        except KafkaError as error:
            if self._aggregate.problem is None:
                logger.warning("the aggregate did not tell its topics: %s", error)
            self._aggregate.problem = str(error)
            return
        self._aggregate.set_topics(cluster)
