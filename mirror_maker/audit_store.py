"""The audit topic of one link, read and written.

Nothing that is copied depends on it: where the topic was deleted or cut back, it is begun anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from local_cluster.wire.errors import ErrorCode, KafkaError

from .formats.audit import AuditChunk, AuditTopic, audit_topic_name, encode_audit
from .model import LinkFailedError
from .ports import Clock, DataSink
from .state_topic import StateTopic

logger = logging.getLogger(__name__)


class AuditStore:
    """Reads and writes one link's audit. Methods make the topic if need be, and raise KafkaError on
    trouble."""

    def __init__(self, sink: DataSink, *, link: str, replication_factor: int, clock: Clock) -> None:
        self._sink = sink
        self._name = audit_topic_name(link)
        self._replication_factor = replication_factor
        self._clock = clock
        self._ensuring = asyncio.Lock()
        self._is_well = True
        """Whether something was read or written since the topic was begun anew."""
        self._begin()

    def _begin(self) -> None:
        self.state = AuditTopic()
        self.records = StateTopic(
            self._sink,
            self._name,
            replication_factor=self._replication_factor,
            clock=self._clock,
            replay=self.state.replay,
        )
        self._is_ensured = False

    async def catch_up(self) -> None:
        """Read everything acknowledged before this call."""
        await self._on_topic(StateTopic.catch_up)

    async def append(self, chunks: Sequence[AuditChunk], deleted: Sequence[bytes]) -> None:
        """Write chunks, then tombstones for the deleted keys; done when acknowledged."""
        pairs = [*map(encode_audit, chunks), *((key, None) for key in deleted)]
        await self._on_topic(lambda records: records.append(pairs))

    async def _on_topic(self, work: Callable[[StateTopic], Awaitable[None]]) -> None:
        """Do it, and once more on a topic that is begun anew where that one was gone."""
        records = self.records
        try:
            await self._attempt(records, work)
            if records is self.records:
                return
            # Others have begun it anew meanwhile: it is done on what is no longer looked at.
        except LinkFailedError as error:
            self._lost(records, error)
        except KafkaError as error:
            if error.code != ErrorCode.unknown_topic_or_partition:
                raise
            self._lost(records, error)
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

    def _lost(self, records: StateTopic, error: Exception) -> None:
        if records is not self.records:
            return
        if self._is_well:
            logger.warning("%s is begun anew: %s", self._name, error)
        self._is_well = False
        self._begin()
