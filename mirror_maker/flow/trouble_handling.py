"""One flow's dealings with trouble: cut smaller, skip and write down, or wait.

`overcome` does what lets the copy go on; what it leaves is waited for by `wait`, for a growing
pause or until an operator asks, as the link's policy says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.context import LinkContext
from mirror_maker.copy.batch_splitting import Cutting
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.formats import FlowKey
from mirror_maker.model import FlowFailedError, FlowState
from mirror_maker.resume.divergence import TruncatedError, find_divergence
from mirror_maker.resume.foreign_records import ForeignRecordsError
from mirror_maker.resume.gap_writer import (
    OutOfRangeError,
    RefusedBatchError,
    explain_out_of_range,
    is_same_topic,
    learn_batch_limit,
    made_anew,
    note_gap,
)
from mirror_maker.resume.generations import replaced_log
from mirror_maker.rules.trouble import Trouble

logger = logging.getLogger(__name__)


class Troubles:
    """What a flow has learned from trouble, and how it waits in it."""

    def __init__(
        self, context: LinkContext, name: str, source: TopicPartition, target: TopicPartition
    ) -> None:
        limits = context.limits
        self._policies = context.settings.for_topic(source.topic).on
        self.cutting = Cutting()
        self._context = context
        self._name = name
        self._target = target
        self._back_off = Backoff(limits.back_off_ms_min, limits.back_off_ms_max, context.random)
        self._pauses = Backoff(limits.pause_ms_min, limits.pause_ms_max, context.random)
        self._told: str | None = None
        """What is in the process log already, until records are copied again."""
        self._retry = asyncio.Event()
        self._is_stopping = False

    # -- overcoming -----------------------------------------------------------------------------

    async def overcome(
        self,
        error: FlowFailedError,
        flow: FlowKey | None,
        replicator: PartitionReplicator | None,
        flush_map: Callable[[], Awaitable[None]],
    ) -> FlowFailedError | None:
        """Make it possible to go on, or tell what to wait for. Raises KafkaError: try again.

        `replicator` is the one that met the trouble, drained; None where the proof met it.
        """
        if flow is not None and isinstance(error, OutOfRangeError):
            error = await explain_out_of_range(self._context, flow, error.position)
        if isinstance(error, TruncatedError) and not await is_same_topic(self._context, error.flow):
            error = made_anew(error.flow)
        if isinstance(error, RefusedBatchError) and await self._cut_smaller(error):
            return None
        if self._policies.of(error.trouble) != "skip":
            return error
        if isinstance(error, ForeignRecordsError):
            return None  # the next proof writes it into the journal
        if error.trouble is Trouble.RECREATED:
            # The next proof opens the new topic. What was copied of the old one is mapped first.
            await flush_map()
            await self._context.clock.sleep(self._back_off.next_ms())
            return None
        if isinstance(error, TruncatedError):
            await flush_map()
            await self._note_truncation(error, replicator)
            return None
        if error.gap is not None and flow is not None and replicator is not None:
            await self._skip(error, error.gap.source_from, flow, replicator, flush_map)
            return None
        return error

    async def _cut_smaller(self, error: RefusedBatchError) -> bool:
        """Whether the refused batch will be sent in pieces: as it is too large, or in search of
        the record that is to be skipped."""
        if error.refused.records_count == 1:
            return False
        if error.trouble is Trouble.TOO_LARGE:
            refused_bytes = len(error.refused.data)
            self.cutting.limit(
                await learn_batch_limit(self._context, self._target.topic, refused_bytes)
            )
        elif error.is_by_record and self._policies.of(error.trouble) == "skip":
            self.cutting.suspect(error.refused)
        else:
            return False
        logger.info("%s: sent again in pieces: %s", self._name, error)
        return True

    async def _skip(
        self,
        error: FlowFailedError,
        source_from: int,
        flow: FlowKey,
        replicator: PartitionReplicator,
        flush_map: Callable[[], Awaitable[None]],
    ) -> None:
        if replicator.source_next != source_from or not self._context.lease.is_valid():
            # Something before the gap is not acknowledged: it comes first.
            await self._context.clock.sleep(self._back_off.next_ms())
            return
        await flush_map()
        target_offset = replicator.block.target_next
        epoch = replicator.producer_epoch
        gap = await note_gap(self._context, flow, self._target, epoch, target_offset, error)
        logger.warning("%s: skipped (%s): %s", self._name, gap.reason, gap.detail)

    async def _note_truncation(
        self, error: TruncatedError, replicator: PartitionReplicator | None
    ) -> None:
        """Write down from where on the copies are of another log; the next proof opens it."""
        context = self._context
        await context.map_store.catch_up()
        state = context.map_store.state
        opening = state.opening(error.flow)
        offset_map = replicator.offset_map if replicator else state.offset_map(error.flow)
        assert opening is not None, "what is truncated was opened"
        assert offset_map is not None, "what was opened has a map"
        source_from = await find_divergence(
            context, error.flow, self._target, offset_map, error.common_end
        )
        if source_from >= offset_map.source_next:
            raise KafkaError(ErrorCode.offset_not_available, f"nothing differs: {error}")
        if not await is_same_topic(context, error.flow):
            raise KafkaError(ErrorCode.unknown_topic_id, f"made anew meanwhile: {error}")
        gap = await context.gap_store.note(
            replaced_log(
                context,
                error.flow,
                self._target,
                producer_epoch=opening.producer_epoch,
                source_from=source_from,
                target_offset=offset_map.target_next,
                trouble=error.trouble,
                detail=f"{error}; from source offset {source_from} on it is copied anew",
            )
        )
        logger.warning("%s: %s", self._name, gap.detail)

    # -- waiting --------------------------------------------------------------------------------

    def state_of(self, error: FlowFailedError) -> FlowState:
        """How a flow is called that stands still for this."""
        # What should be skipped but has no end that could be told is tried again as well.
        is_failed = self._policies.of(error.trouble) == "fail"
        return FlowState.FAILED if is_failed else FlowState.PAUSED

    async def wait(self, error: FlowFailedError) -> None:
        """Return when it is time to try again."""
        if str(error) != self._told:
            self._told = str(error)
            logger.error("%s: %s (%s)", self._name, error, error.trouble)
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
        """Records were copied again."""
        self._told = None
        self._back_off.reset()
        self._pauses.reset()
