"""What the flows' maps have gained is written to the link's map topic, now and then.

Only flows that said that they moved are looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError

from .context import LinkContext
from .flow import Flow
from .formats.audit import AuditChunk
from .replicator import PartitionReplicator

logger = logging.getLogger(__name__)


class MapFlushing:
    """The map's writes of one link; `run` until cancelled."""

    def __init__(self, context: LinkContext, flows: Mapping[TopicPartition, Flow]) -> None:
        """`flows` are the link's, as they come and go."""
        self._context = context
        self._flows = flows
        self._moved: dict[TopicPartition, None] = {}
        self._flushing = asyncio.Lock()

    def look_at(self, at: TopicPartition) -> None:
        """There may be something to write of this partition."""
        self._moved[at] = None

    async def run(self) -> None:
        while True:
            await self._context.clock.sleep(self._context.limits.map_flush_ms)
            try:
                await self.flush()
            except KafkaError as error:
                logger.info("link %s: map not written: %s", self._context.settings.name, error)

    async def flush(self) -> None:
        """Write what the maps have gained. Raises KafkaError; then it is written later."""
        async with self._flushing:
            moved, self._moved = self._moved, {}
            taken = [
                _Taken(flow.replicator, self._context.clock.now_ms())
                for flow in map(self._flows.get, moved)
                if flow is not None
                and flow.replicator is not None
                and flow.replicator.block.is_dirty
            ]
            if not taken:
                return
            try:
                # The audit reaches at least as far as the map, see `audit`.
                await self._context.audit_store.append(
                    [chunk for each in taken for chunk in each.chunks],
                    [key for each in taken for key in each.chunk_keys],
                )
                await self._context.map_store.append(
                    [block for each in taken for block in each.blocks],
                    [key for each in taken for key in each.block_keys],
                )
            except BaseException:
                for each in taken:
                    each.put_back()
                self._moved |= moved
                raise


class _Taken:
    """What one flow has to write, and to delete, in both topics of its link."""

    def __init__(self, replicator: PartitionReplicator, now_ms: int) -> None:
        self._replicator = replicator
        source_next = replicator.block.source_next
        self.blocks, self.block_keys = replicator.block.take_records()
        self.chunks: list[AuditChunk] = []
        self.chunk_keys: list[bytes] = []
        if replicator.audit is not None:
            self.chunks, self.chunk_keys = replicator.audit.take_records(source_next, now_ms)

    def put_back(self) -> None:
        """The writes are not known to have happened."""
        self._replicator.block.put_back(self.blocks, self.block_keys)
        if self._replicator.audit is not None:
            self._replicator.audit.put_back(self.chunks, self.chunk_keys)
