"""Writes what the flows' maps have gained to the link's map topic, now and then.

Only flows that reported progress are looked at. Receipts are written first, so that they reach at
least as far as the map. If they cannot be written, the map waits for them only for a while, because
a proof reads more the longer it waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.flow.flow import Flow
from mirror_maker.formats.receipts import Receipts
from mirror_maker.ports import Clock, Lease, check_lease
from mirror_maker.resume.foreign_records import ForeignRecordsError, note_foreign
from mirror_maker.stores.link_stores import LinkStores
from mirror_maker.stores.map_write_health import MapWrites

RECEIPTS_WAIT_MS_MAX: Final = 10_000
"""How long the map waits for receipts that cannot be written. Batches mapped without them stay
unverified if the worker dies before it writes them."""

log = logging.getLogger(__name__)


class MapFlusher:
    """The map's writes of one link; `run` until cancelled."""

    def __init__(
        self,
        link: str,
        flows: Mapping[TopicPartition, Flow],
        on_may_take_changed: Callable[[], None],
        *,
        stores: LinkStores,
        map_writes: MapWrites,
        lease: Lease,
        clock: Clock,
        map_flush_ms: int,
    ) -> None:
        """`flows` are the link's, as they come and go. `on_may_take_changed` is called when flows
        must stop reading because the map is not written, and when they may read again.
        """
        self._link = link
        self._stores = stores
        self._map_writes = map_writes
        self._lease = lease
        self._clock = clock
        self._map_flush_ms = map_flush_ms
        self._flows = flows
        self._on_may_take_changed = on_may_take_changed
        self._moved: dict[TopicPartition, None] = {}
        self._flushing = asyncio.Lock()
        self._unreceipted_since_ms: int | None = None
        """Monotonic time since when receipts cannot be written."""
        self._unreceipted: dict[TopicPartition, None] = {}
        """Partitions that were mapped without receipts since then."""
        self._receipts_retry_ms = 0
        """Monotonic time at which receipts of idle flows are retried."""

    def look_at(self, at: TopicPartition) -> None:
        """Note that this partition may have something to write."""
        self._moved[at] = None

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._map_flush_ms)
            with suppress(KafkaError):  # `MapWrites` reports it
                await self.flush()

    async def flush(self) -> None:
        """Write what the maps have gained. After a KafkaError it is written later."""
        async with self._flushing:
            if self._moved:
                check_lease(self._lease)
            if self._unreceipted and self._clock.monotonic_ms() >= self._receipts_retry_ms:
                self._moved |= self._unreceipted
            moved, self._moved = self._moved, {}
            taken = {
                at: _Taken(flow, flow.replicator)
                for at, flow in ((at, self._flows.get(at)) for at in moved)
                if flow is not None
                and flow.replicator is not None
                and _has_unwritten(flow.replicator)
            }
            if not taken:
                self._note(None, 0)
                return
            began_ms = self._clock.monotonic_ms()
            try:
                for each in taken.values():
                    await each.note_foreign(self._stores)
                await self._write_receipts(taken)
                await self._stores.map_store.append(
                    [block for each in taken.values() for block in each.blocks],
                    [key for each in taken.values() for key in each.block_keys],
                )
            except BaseException as error:
                for each in taken.values():
                    each.put_back()
                self._moved |= moved
                if isinstance(error, KafkaError):
                    self._note(error, began_ms)
                raise
            self._note(None, began_ms)

    def _note(self, failure: KafkaError | None, began_ms: int) -> None:
        """Note the result of the write that began at `began_ms`."""
        writes, name = self._map_writes, self._link
        had_failed, was_overdue = writes.failure is not None, writes.is_overdue
        if failure is None:
            writes.succeeded()
        else:
            writes.failed(failure, began_ms, self._clock.monotonic_ms())
        if failure is not None and not had_failed:
            log.warning("link %s: map not written: %s", name, failure)
        if writes.is_overdue and not was_overdue:
            log.error("link %s: stops copying until its map is written: %s", name, failure)
        if writes.is_overdue != was_overdue:
            self._on_may_take_changed()

    async def _write_receipts(self, taken: Mapping[TopicPartition, _Taken]) -> None:
        """Write receipts; raise KafkaError while the map must wait for them."""
        try:
            entries = [entry for each in taken.values() for entry in each.receipts]
            if entries:
                await self._stores.audit_topics.write_receipts(entries)
        except KafkaError as error:
            now_ms = self._clock.monotonic_ms()
            if self._unreceipted_since_ms is None:
                self._unreceipted_since_ms = now_ms
            if now_ms - self._unreceipted_since_ms < RECEIPTS_WAIT_MS_MAX:
                raise
            if not self._unreceipted:
                log.warning("link %s: mapped without its receipts: %s", self._link, error)
            for each in taken.values():
                each.put_receipts_back()
            self._unreceipted |= dict.fromkeys(taken)
            self._receipts_retry_ms = now_ms + RECEIPTS_WAIT_MS_MAX
        else:
            self._unreceipted_since_ms = None
            self._moved |= self._unreceipted
            self._unreceipted.clear()


def _has_unwritten(replicator: PartitionReplicator) -> bool:
    """Return whether the flow has blocks of its map or receipts to write."""
    receipts = replicator.receipts
    return replicator.block.is_dirty or (receipts is not None and receipts.has_unwritten)


class _Taken:
    """What one flow has to write and delete in the topics of its link."""

    def __init__(self, flow: Flow, replicator: PartitionReplicator) -> None:
        self._target = flow.target
        self._replicator = replicator
        self._foreign, replicator.foreign = replicator.foreign, []
        self.blocks, self.block_keys = replicator.block.take_records()
        self.receipts: list[Receipts] = []
        if replicator.receipts is not None:
            self.receipts = replicator.receipts.take()

    async def note_foreign(self, stores: LinkStores) -> None:
        """Note in the journal that foreign records were passed over. Raises KafkaError."""
        block = self.blocks[-1]
        opening = stores.map_store.state.opening(block.flow)
        if self._foreign and opening is not None:
            detail = str(ForeignRecordsError(self._target, self._foreign))
            await note_foreign(stores.journal, opening, self._foreign, block.source_next, detail)
            self._foreign = []

    def put_back(self) -> None:
        """Put everything back, because the writes may not have happened."""
        self._replicator.foreign[:0] = self._foreign
        self._replicator.block.put_back(self.blocks, self.block_keys)
        self.put_receipts_back()

    def put_receipts_back(self) -> None:
        """Put only the receipts back."""
        if self._replicator.receipts is not None:
            self._replicator.receipts.put_back(self.receipts)
            self.receipts = []
