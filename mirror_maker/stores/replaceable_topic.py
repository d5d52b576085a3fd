"""A topic of the audit on the target, written and read. Shell.

Nothing that is copied depends on it. Where it was deleted or cut back it is begun again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.model import LinkFailedError
from mirror_maker.stores.state_topic import Pair, StateTopic

logger = logging.getLogger(__name__)


class ReplaceableTopic:
    """Creates the topic if need be. Methods raise KafkaError on trouble."""

    def __init__(self, make: Callable[[], StateTopic]) -> None:
        """`make` gives a topic that was not read yet, with an empty state behind it."""
        self._make = make
        self.records = make()
        self._is_ensured = False
        self._ensuring = asyncio.Lock()
        self._is_well = True
        """Whether something was read or written since it was begun again."""

    async def catch_up(self) -> None:
        """Read everything acknowledged before this call."""
        await self._on_topic(StateTopic.catch_up)

    async def append(self, pairs: Sequence[Pair]) -> None:
        """Write records; done when acknowledged."""
        await self._on_topic(lambda records: records.append(pairs))

    async def _on_topic(self, work: Callable[[StateTopic], Awaitable[None]]) -> None:
        """Do it, and once more on a topic that is begun again where that one was gone."""
        records = self.records
        try:
            await self._attempt(records, work)
            if records is self.records:
                return
            # Others have begun it again meanwhile: it was done on what nobody looks at any more.
        except LinkFailedError as error:
            self._replace(records, error)
        except KafkaError as error:
            if error.code != ErrorCode.unknown_topic_or_partition:
                raise
            self._replace(records, error)
        try:
            await self._attempt(self.records, work)
        except LinkFailedError as error:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, str(error)) from error

    async def _attempt(
        self, records: StateTopic, work: Callable[[StateTopic], Awaitable[None]]
    ) -> None:
        async with self._ensuring:
            if records is self.records and not self._is_ensured:
                await records.ensure()
                self._is_ensured = records is self.records
        await work(records)
        self._is_well = self._is_well or records is self.records

    def _replace(self, records: StateTopic, error: Exception) -> None:
        if records is not self.records:
            return
        if self._is_well:
            logger.warning("%s is begun again: %s", records.name, error)
        self._is_well = self._is_ensured = False
        self.records = self._make()
