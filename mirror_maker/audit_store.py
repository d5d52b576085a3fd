"""The audit topic of one link, read and written.

Nothing that is copied depends on it: where the topic was deleted or cut back, it is begun anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from local_cluster.wire.errors import ErrorCode, KafkaError

from .formats.audit import AuditChunk, AuditTopic, audit_topic_name, encode_audit
from .model import LinkFailedError
from .ports import Clock, DataSink
from .state_topic import StateTopic

logger = logging.getLogger(__name__)


class AuditStore:
    """Reads and writes one link's audit. Methods raise KafkaError on trouble."""

    def __init__(self, sink: DataSink, *, link: str, replication_factor: int, clock: Clock) -> None:
        self._sink = sink
        self._name = audit_topic_name(link)
        self._replication_factor = replication_factor
        self._clock = clock
        self._ensuring = asyncio.Lock()
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
        """Make the topic if need be, and read everything acknowledged before this call."""
        try:
            async with self._ensuring:
                if not self._is_ensured:
                    await self.records.ensure()
                    self._is_ensured = True
            await self.records.catch_up()
        except LinkFailedError as error:
            raise self._lost(error) from error

    async def append(self, chunks: Sequence[AuditChunk], deleted: Sequence[bytes]) -> None:
        """Write chunks, then tombstones for the deleted keys; done when acknowledged."""
        try:
            await self.records.append(
                [*map(encode_audit, chunks), *((key, None) for key in deleted)]
            )
        except LinkFailedError as error:
            raise self._lost(error) from error

    def _lost(self, error: LinkFailedError) -> KafkaError:
        logger.warning("%s is begun anew: %s", self._name, error)
        self._begin()
        return KafkaError(ErrorCode.unknown_topic_or_partition, str(error))
