"""Writes what the flows' maps have gained to the link's map topic, now and then.

Only flows that reported progress are looked at. Receipts are written first, so that they reach at
least as far as the map. If they cannot be written, the map waits for them only for a while, because
a proof reads more the longer it waits.

Flows of compacted topics are written `EARLY_FLUSHES` times as often. If a worker dies, and source
and target both compact copies that are not mapped, a proof may have too little evidence.
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
from mirror_maker.link.compacted_topics import CompactedTopics
from mirror_maker.ports import Clock, Lease, check_lease
from mirror_maker.resume.foreign_records import ForeignRecordsError, note_foreign
from mirror_maker.stores.link_stores import LinkStores
from mirror_maker.stores.map_write_health import MapWrites

RECEIPTS_WAIT_MS_MAX: Final = 10_000
"""How long the map waits for receipts that cannot be written. Batches mapped without them stay
unverified if the worker dies before it writes them."""
EARLY_FLUSHES: Final = 5
"""Writes about flows of compacted topics in `map_flush_ms`: every 100 ms by default."""
EARLY_RUNS_MAX: Final = 25_000
"""Runs in the blocks of an early write, about 100 kB. The flows beyond wait for the next write."""
BLOCK_RUNS_MIN: Final = 50
"""A block counts as at least so many runs: its other fields, and its receipts."""

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
        compacted_topics: CompactedTopics,
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
        self._compacted_topics = compacted_topics
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
        early_ms = max(1, self._map_flush_ms // EARLY_FLUSHES)
        while True:
            for turn in range(EARLY_FLUSHES):
                await self._clock.sleep(early_ms)
                flush = self._flush_early if turn < EARLY_FLUSHES - 1 else self.flush
                with suppress(KafkaError):  # `MapWrites` reports it
                    await flush()

    async def flush(self) -> None:
        """Write what the maps have gained. After a KafkaError it is written later."""
        async with self._flushing:
            if self._moved:
                check_lease(self._lease)
            if self._unreceipted and self._clock.monotonic_ms() >= self._receipts_retry_ms:
                self._moved |= self._unreceipted
            moved, self._moved = self._moved, {}
            if not await self._write(moved):
                self._note(None, 0)

    async def _flush_early(self) -> None:
        """Do the same for flows of compacted topics alone, as long as writes succeed."""
        async with self._flushing:
            early = self._early_flows()
            has_failed = self._map_writes.failure is not None
            if not early or has_failed or self._unreceipted_since_ms is not None:
                return
            check_lease(self._lease)
            for at in early:
                del self._moved[at]
            await self._write(dict.fromkeys(early))

    def _early_flows(self) -> list[TopicPartition]:
        """Return partitions of compacted topics that moved, with up to `EARLY_RUNS_MAX` runs."""
        early: list[TopicPartition] = []
        runs_count = 0
        for at in self._moved:
            flow = self._flows.get(at)
            if flow is None or flow.replicator is None:
                continue
            if not self._compacted_topics.is_compacted(at.topic):
                continue
            runs_count += max(BLOCK_RUNS_MIN, flow.replicator.block.runs_count)
            if early and runs_count > EARLY_RUNS_MAX:
                break
            early.append(at)
        return early

    async def _write(self, moved: dict[TopicPartition, None]) -> bool:
        """Write what these flows have; return whether they had anything. Raises KafkaError."""
        taken = {
            at: _Taken(flow, flow.replicator)
            for at, flow in ((at, self._flows.get(at)) for at in moved)
            if flow is not None and flow.replicator is not None and _has_unwritten(flow.replicator)
        }
        if not taken:
            return False
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
        return True

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
