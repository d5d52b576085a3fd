"""How one flow deals with trouble: split batches, skip a gap with a journal entry, or wait. Shell.

`overcome` does what lets copying continue. For what it cannot solve, `wait` pauses for a growing
time or until an operator asks, as the link's policy says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.copy.batch_splitting import BatchSplitter
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.flow.trouble_causes import (
    OutOfRangeError,
    RefusedBatchError,
    confirm_truncation,
    explain_out_of_range,
    learn_batch_limit,
    recreated_error,
)
from mirror_maker.formats import FlowKey
from mirror_maker.model import FlowFailedError, FlowState
from mirror_maker.ports import Lease
from mirror_maker.resume.divergence import TruncatedError, find_divergence
from mirror_maker.resume.foreign_records import ForeignRecordsError
from mirror_maker.resume.journal_entries import note_gap, note_replaced_log
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.rules.trouble import Policies, Trouble
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.map_store import MapStore

log = logging.getLogger(__name__)

FlushMap = Callable[[], Awaitable[None]]
"""Writes the link's map as it is now. Raises KafkaError."""


class TroubleHandler:
    """What a flow has learned from trouble, and how it waits in it."""

    def __init__(
        self,
        name: str,
        source: SourceLog,
        target: TargetLog,
        policies: Policies,
        *,
        map_store: MapStore,
        journal: GapStore,
        lease: Lease,
        backoff: Backoff,
        pauses: Backoff,
    ) -> None:
        """`name` is the flow's in the process log. `pauses` are those of the policy `pause`."""
        self.splitter = BatchSplitter()
        self._name = name
        self._source = source
        self._target = target
        self._policies = policies
        self._map_store = map_store
        self._journal = journal
        self._lease = lease
        self._backoff = backoff
        self._pauses = pauses
        self._logged: str | None = None
        """The trouble that is in the process log already, until records are copied again."""
        self._retry = asyncio.Event()
        self._is_stopping = False

    # -- overcoming -----------------------------------------------------------------------------

    async def overcome(
        self,
        error: FlowFailedError,
        flow: FlowKey | None,
        replicator: PartitionReplicator | None,
        flush_map: FlushMap,
    ) -> FlowFailedError | None:
        """Make it possible to continue, or return what to wait for. Raises KafkaError: try again.

        `replicator` is the one that met the trouble, drained; None if the proof met it.
        """
        if flow is not None and isinstance(error, OutOfRangeError):
            error = await explain_out_of_range(self._source, flow, error.position)
        if isinstance(error, TruncatedError) and not await self._is_same_topic(error.flow):
            error = recreated_error(error.flow)
        if isinstance(error, TruncatedError):
            await confirm_truncation(self._source, error)
        if isinstance(error, RefusedBatchError) and await self._split(error):
            return None
        if self._policies.of(error.trouble) != "skip":
            return error
        if isinstance(error, ForeignRecordsError):
            return None  # the next proof writes it into the journal
        if error.trouble is Trouble.RECREATED:
            # The next proof opens the new topic. What was copied of the old one is mapped first.
            await flush_map()
            await self._backoff.wait()
            return None
        if isinstance(error, TruncatedError):
            await flush_map()
            await self._note_truncation(error, replicator)
            return None
        if error.gap is not None and flow is not None and replicator is not None:
            await self._skip(error, error.gap.source_from, flow, replicator, flush_map)
            return None
        return error

    async def _is_same_topic(self, flow: FlowKey) -> bool:
        return await self._source.has_topic_id(flow.source_topic_id)

    async def _split(self, error: RefusedBatchError) -> bool:
        """Return whether the refused batch will be sent in pieces.

        Either it is too large, or the record is searched that is to be skipped.
        """
        if error.refused.records_count == 1:
            return False
        if error.trouble is Trouble.TOO_LARGE:
            self.splitter.limit(await learn_batch_limit(self._target, len(error.refused.data)))
        elif error.is_by_record and self._policies.of(error.trouble) == "skip":
            self.splitter.suspect(error.refused)
        else:
            return False
        log.info("%s: sent again in pieces: %s", self._name, error)
        return True

    async def _skip(
        self,
        error: FlowFailedError,
        source_from: int,
        flow: FlowKey,
        replicator: PartitionReplicator,
        flush_map: FlushMap,
    ) -> None:
        if replicator.source_next != source_from or not self._lease.is_valid():
            # Something before the gap is not acknowledged: it comes first.
            await self._backoff.wait()
            return
        await flush_map()
        gap = await note_gap(
            self._journal,
            flow,
            target_topic=self._target.at.topic,
            producer_epoch=replicator.producer_epoch,
            target_offset=replicator.block.target_next,
            error=error,
        )
        log.warning("%s: skipped (%s): %s", self._name, gap.reason, gap.detail)

    async def _note_truncation(
        self, error: TruncatedError, replicator: PartitionReplicator | None
    ) -> None:
        """Write from which offset on the copies are of another log; the next proof opens it."""
        await self._map_store.catch_up()
        state = self._map_store.state
        opening = state.opening(error.flow)
        offset_map = replicator.offset_map if replicator else state.offset_map(error.flow)
        assert opening is not None, "a truncated flow was opened"
        assert offset_map is not None, "an opened flow has a map"
        source_from = await find_divergence(
            self._source, self._target, offset_map, error.common_end
        )
        if source_from >= offset_map.source_next:
            raise KafkaError(ErrorCode.offset_not_available, f"nothing differs: {error}")
        if not await self._is_same_topic(error.flow):
            raise KafkaError(ErrorCode.unknown_topic_id, f"re-created meanwhile: {error}")
        gap = await note_replaced_log(
            self._journal,
            opening,
            source_from=source_from,
            target_offset=offset_map.target_next,
            trouble=error.trouble,
            detail=f"{error}; it is copied again from source offset {source_from} on",
        )
        log.warning("%s: %s", self._name, gap.detail)

    # -- waiting --------------------------------------------------------------------------------

    def state_of(self, error: FlowFailedError) -> FlowState:
        """Return the state of a flow that this trouble stops."""
        # A gap to skip whose end is unknown is retried as well.
        is_failed = self._policies.of(error.trouble) == "fail"
        return FlowState.FAILED if is_failed else FlowState.PAUSED

    async def wait(self, error: FlowFailedError) -> None:
        """Return when it is time to try again."""
        if str(error) != self._logged:
            self._logged = str(error)
            log.error("%s: %s (%s)", self._name, error, error.trouble)
        self._retry.clear()
        if self._is_stopping:
            return
        if self.state_of(error) is FlowState.FAILED:
            await self._retry.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pauses.next_ms() / 1000):
                await self._retry.wait()

    def retry(self) -> None:
        """End a wait."""
        self._retry.set()

    def stop(self) -> None:
        """End a wait, and let none begin."""
        self._is_stopping = True
        self._retry.set()

    def passed(self) -> None:
        """Start over with short pauses: records were copied again."""
        self._logged = None
        self._backoff.reset()
        self._pauses.reset()
