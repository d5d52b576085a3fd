"""One flow's life: prove where it stands, copy until something is in doubt, prove again.

    STARTING --prove--> copying --any error, lost lease--> drained --> STARTING
       |                   |                                             |
       +--- FlowFailedError, a refusal that no retry can heal            |
               +--- policy skip ----> gap in the journal ----------------+
               +--- policy pause ---> PAUSED ---after a pause------------+
               +--- policy fail ----> FAILED ---an operator's `retry`----+

The fetcher and the sender drive a copying flow; they hold its replicator and give it back with
every answer, so that an answer for a replicator that was thrown away is told from one for the
present replicator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from local_cluster.client.model import FetchedPartition, ProducedPartition, TopicPartition
from local_cluster.records.header import peek_max_timestamp
from local_cluster.wire.errors import ErrorCode, KafkaError

from .back_off import BackOff
from .context import LinkContext
from .divergence import TruncatedError
from .formats import FlowKey, Gap
from .lag import UNKNOWN_LAG, HighWatermarkHistory, Lag
from .latency import LatencyHistogram
from .model import (
    PRODUCER_REFUSED,
    FlowFailedError,
    FlowState,
    LinkFailedError,
    UncopyableBatchError,
)
from .passthrough import CopyPath
from .replicator import CopyTotals, Outgoing, PartitionReplicator
from .resuming import check_written, prove, raise_epoch, start_replicator
from .skipping import OutOfRangeError, RefusedBatchError, made_anew
from .trouble import REFUSALS, UNAUTHORIZED, Trouble
from .troubles import Troubles

RUNNING_LAG_SECONDS_MAX: Final = 5.0
"""A flow that is later than this is catching up."""
LEASE_POLL_MS: Final = 100
HURRIES_MAX: Final = 20
"""Rounds of discovery that a starting flow asks for at once; then it waits for the regular ones."""

logger = logging.getLogger(__name__)


class Flow:
    """A source partition on its way to its target partition; `run` until cancelled."""

    def __init__(
        self, context: LinkContext, source: TopicPartition, target: TopicPartition
    ) -> None:
        self.source = source
        self.target = target
        self.state = FlowState.STARTING
        self.reason: str | None = None
        """Why it stands still, or what it waits for."""
        self.trouble: Trouble | None = None
        """Why it is PAUSED or FAILED."""
        self.replicator: PartitionReplicator | None = None
        """Present while copying."""
        self.history = HighWatermarkHistory()
        self.latency = LatencyHistogram()
        self.restarts = 0
        self.on_ready: Callable[[Flow], None] = lambda flow: None
        """Called when there may be a batch to take."""
        self.on_moved: Callable[[Flow], None] = lambda flow: None
        """Called when what it would fetch may have changed, or what there is to be mapped."""
        self.flush_map: Callable[[], Awaitable[None]]
        """Has the map written as it is now; raises KafkaError."""
        self._context = context
        self._offer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._key: FlowKey | None = None
        self._disturbance: Exception | None = None
        self._disturbed = asyncio.Event()
        self._in_flight = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self._back_off = BackOff(
            context.limits.back_off_ms_min, context.limits.back_off_ms_max, context.random
        )
        self._troubles = Troubles(context, self._name, target)
        self._finished = CopyTotals()

    # -- what others ask ----------------------------------------------------------------------

    @property
    def source_leader(self) -> int | None:
        return self._context.directory.source_leader(self.source)

    @property
    def target_leader(self) -> int | None:
        return self._context.directory.target_leader(self.target)

    @property
    def wants_fetch(self) -> bool:
        """Whether it copies, has room, and met nothing that it cannot copy."""
        return (
            self.replicator is not None
            and self._disturbance is None
            and self.replicator.wants_fetch
            and not self.is_held
        )

    @property
    def is_held(self) -> bool:
        """Whether an operator has paused it; what was fetched is written all the same."""
        return self._context.map_store.state.controls.pauses(*self.source)

    @property
    def is_blocked(self) -> bool:
        """Whether it would fetch if it had room."""
        return self.replicator is not None and not self.replicator.wants_fetch

    @property
    def pending_bytes(self) -> int:
        return self.replicator.pending_bytes if self.replicator else 0

    def totals(self) -> CopyTotals:
        """What was copied since this process took the flow."""
        if self.replicator is None:
            return self._finished
        return self._finished.plus(self.replicator.totals)

    def gaps(self) -> list[Gap]:
        """What the journal says was not copied."""
        return self._context.gap_store.state.partition_gaps(*self.source)

    def lag(self) -> Lag:
        if self.replicator is None:
            return UNKNOWN_LAG
        return self.history.lag(
            self.replicator.source_next,
            self.replicator.pending_bytes,
            self.replicator.fetch_position,
            self._context.clock.monotonic_ms(),
        )

    def current_state(self) -> FlowState:
        """The state with an operator's will and the lag taken into account."""
        if self.is_held and self.state in (FlowState.STARTING, FlowState.RUNNING):
            return FlowState.HELD
        if self.state is not FlowState.RUNNING:
            return self.state
        lag = self.lag()
        if lag.seconds is None or lag.seconds > RUNNING_LAG_SECONDS_MAX:
            return FlowState.CATCHING_UP
        return FlowState.RUNNING

    # -- life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until drained or cancelled."""
        while not self._stopping:
            try:
                await self._copy_once()
            except FlowFailedError as error:
                await self._meet_trouble(error)
            except KafkaError as error:
                if error.code in UNAUTHORIZED:
                    await self._meet_trouble(FlowFailedError(str(error), Trouble.UNAUTHORIZED))
                    continue
                if error.code in PRODUCER_REFUSED:
                    self._context.directory.hurry()
                    await self._raise_epoch()
                await self._wait_to_retry(error)
            except LinkFailedError:
                raise
            except Exception as error:  # a defect must stop this flow, not the others
                logger.exception("%s: internal error", self._name)
                await self._meet_trouble(
                    FlowFailedError(f"internal error: {error!r}", Trouble.INTERNAL)
                )

    async def drain(self) -> None:
        """Take nothing more, and wait until nothing is in flight; the map may then be written."""
        self._stopping = True
        self._disturbed.set()
        self._troubles.stop()
        await self._drained.wait()

    def retry(self) -> bool:
        """An operator wants it tried again now; whether it stood still."""
        self._troubles.retry()
        return self.trouble is not None

    def disturb(self, error: Exception) -> None:
        """Something is in doubt: copy no further until the target's log has been read again."""
        if not self._disturbed.is_set() or isinstance(error, FlowFailedError):
            self._disturbance = error
        self._disturbed.set()
        self.on_moved(self)

    def check_topics(self) -> None:
        """Are both topics, as discovery last saw them, still the ones that this flow is about?"""
        if self.replicator is None or self._key is None:
            return
        source_topic_id = self._context.directory.source_topic_id(self.source.topic)
        target_topic_id = self._context.directory.target_topic_id(self.target.topic)
        if source_topic_id is None:
            self.state = FlowState.SOURCE_GONE
            self.reason = f"{self.source.topic} is not there at the source"
        elif source_topic_id != self._key.source_topic_id:
            self.disturb(made_anew(self._key))
        elif target_topic_id is not None and target_topic_id != self._key.target_topic_id:
            self.disturb(
                KafkaError(ErrorCode.unknown_topic_id, f"{self.target.topic} was made anew")
            )
        elif self.state is FlowState.SOURCE_GONE:
            self.state = FlowState.RUNNING
            self.reason = None

    async def _copy_once(self) -> None:
        """From proof to doubt. Raises what caused the doubt."""
        self.state = FlowState.STARTING
        self._retire_replicator()
        await self._wait_until_startable()
        proved = await prove(self._context, self.source, self.target)
        if self._stopping:
            return
        logger.info(
            "%s: goes on at source offset %d, sequence %d; paired %d unmapped batches",
            self._name,
            proved.source_next,
            proved.next_sequence,
            proved.paired_batches,
        )
        self._key = proved.flow
        self._disturbance = None
        self._disturbed.clear()
        self.replicator = start_replicator(
            self._context, proved, self.source, self._troubles.cutting
        )
        self.state = FlowState.RUNNING
        self.reason = self.trouble = None
        self.on_moved(self)
        self.check_topics()  # the round of discovery that would have may lie behind the proof
        await self._disturbed.wait()
        await self._drained.wait()
        self._check_disturbance()

    def _check_disturbance(self) -> None:
        if self._stopping:
            return
        assert self._disturbance is not None and self.replicator is not None
        logger.info("%s: disturbed: %s", self._name, self._disturbance)
        self.restarts += 1
        if self.replicator.totals.records:
            self._back_off.reset()
            self._troubles.passed()
        raise self._disturbance

    async def _wait_until_startable(self) -> None:
        context = self._context
        directory = context.directory
        hurries = HURRIES_MAX
        while True:
            if not context.map_store.is_open or directory.target_leader(self.target) is None:
                self.reason = f"waits for {self.target} on the target"
                if hurries:
                    hurries -= 1
                    directory.hurry()
                await directory.next_round()
            elif directory.source_leader(self.source) is None:
                self.reason = f"waits for {self.source} on the source"
                await directory.next_round()
            elif not context.lease.is_valid():
                self.reason = "waits for the group of workers"
                await context.clock.sleep(LEASE_POLL_MS)
            else:
                return

    async def _raise_epoch(self) -> None:
        """A new epoch, if nobody has opened one. Errors are left to the next round."""
        replicator = self.replicator
        if replicator is None:
            return
        self.reason = "the target refuses the producer epoch; waiting to raise it"
        try:
            await raise_epoch(self._context, self.source, self.target, replicator.producer_epoch)
        except KafkaError as error:
            logger.warning("%s: epoch not raised: %s", self._name, error)
        except FlowFailedError as error:
            # The next proof meets the same and fails the flow.
            logger.warning("%s: epoch not raised: %s", self._name, error)

    async def _meet_trouble(self, error: FlowFailedError) -> None:
        """Go on behind it if the link's policy says so and it can be done; stand still if not."""
        try:
            unsolved = await self._troubles.overcome(
                error, self._key, self.replicator, self.flush_map
            )
        except KafkaError as failure:
            await self._wait_to_retry(failure)
            return
        if unsolved is not None:
            self._retire_replicator()
            self.trouble, self.reason = unsolved.trouble, str(unsolved)
            self.state = self._troubles.state_of(unsolved)
            await self._troubles.wait(unsolved)

    async def _wait_to_retry(self, error: KafkaError) -> None:
        self.reason = str(error)
        self._context.directory.hurry()
        await self._context.clock.sleep(self._back_off.next_ms())

    def _retire_replicator(self) -> None:
        self._finished = self.totals()
        self.replicator = None
        self.on_moved(self)

    @property
    def _name(self) -> str:
        return f"{self._context.settings.name}: {self.source} -> {self.target}"

    # -- the fetcher's side ---------------------------------------------------------------------

    def on_fetched(
        self, replicator: PartitionReplicator, position: int, fetched: FetchedPartition
    ) -> bool:
        """An answer for `position` of this replicator; whether records wait for `on_confirmed`."""
        self.on_moved(self)
        if replicator is not self.replicator or replicator.fetch_position != position:
            return False
        if self.is_held:
            return False  # asked before the operator said so; asked again when it may go on
        if fetched.error == ErrorCode.offset_out_of_range:
            self._stop_after_queue(OutOfRangeError(position))
            return False
        if fetched.error in UNAUTHORIZED:
            self.disturb(KafkaError(fetched.error, f"{self.source} at the source"))
            return False
        if fetched.error:
            self.reason = f"source: {fetched.error.name.upper()}"
            self._context.directory.hurry()
            return False
        if fetched.diverging_epoch is not None and self._key is not None:
            epoch, end = fetched.diverging_epoch
            self._stop_after_queue(
                TruncatedError(
                    self._key,
                    f"source offset {position} does not follow what was copied: epoch {epoch} "
                    f"ends at {end}",
                    common_end=end,
                )
            )
            return False
        self.reason = None
        spans = self._context.spans
        try:
            advanced = replicator.accept(
                fetched.records,
                fetched.aborted_transactions,
                0 if spans is None else spans.now_ns(),
            )
            if not advanced and len(fetched.records):
                raise UncopyableBatchError(position, "no whole batch in the fetch answer")
        except UncopyableBatchError as error:
            self._stop_after_queue(error)
        return replicator.has_held

    def on_confirmed(
        self, replicator: PartitionReplicator, mark: int, topic_id: UUID | None
    ) -> None:
        """After what was accepted up to the mark was fetched, the source had this topic id."""
        if replicator is not self.replicator or self._key is None:
            return
        if topic_id == self._key.source_topic_id:
            replicator.release(mark)
            if replicator.can_take:
                self.on_ready(self)
        elif topic_id is None:
            self._context.directory.hurry()
            self.disturb(
                KafkaError(ErrorCode.unknown_topic_or_partition, f"{self.source} at the source")
            )
        else:
            self.disturb(made_anew(self._key))

    def _stop_after_queue(self, error: FlowFailedError) -> None:
        """Write what came before the trouble, then fail."""
        self._disturbance = error
        if self.replicator is None or not self.replicator.has_pending:
            self._disturbed.set()
        self.on_moved(self)

    # -- the sender's side ----------------------------------------------------------------------

    def take(self) -> tuple[PartitionReplicator, Outgoing] | None:
        """The next batch to write, if there is one and it is ours to write."""
        if self.replicator is None or self._disturbed.is_set():
            return None
        if not self._context.lease.is_valid():
            self.disturb(KafkaError(ErrorCode.rebalance_in_progress, "the lease has run out"))
            return None
        now_ms = self._context.clock.monotonic_ms()
        delay_ms = self._context.rates.target.delay_ms(now_ms)
        if delay_ms:
            self._offer_later(delay_ms)
            return None
        outgoing = self.replicator.take()
        if outgoing is None:
            return None
        if self._context.spans is not None:
            outgoing.sealed_ns = self._context.spans.now_ns()
        self._context.rates.target.spend(outgoing.size_bytes, now_ms)
        self._in_flight += 1
        self._drained.clear()
        return self.replicator, outgoing

    def _offer_later(self, delay_ms: int) -> None:
        """The link may write no faster; be offered to the sender again when it may."""
        if self._offer is None:
            loop = asyncio.get_running_loop()
            self._offer = loop.call_later(delay_ms / 1000, self._offer_again)

    def _offer_again(self) -> None:
        self._offer = None
        if self.replicator is not None and self.replicator.can_take:
            self.on_ready(self)

    async def read_back(
        self, replicator: PartitionReplicator, outgoing: Outgoing, answer: ProducedPartition
    ) -> None:
        """Believe an acknowledgement only if the target has just this batch at that offset."""
        try:
            await check_written(
                self._context.sink, self.target_leader, self.target, outgoing, answer.base_offset
            )
        except (KafkaError, FlowFailedError) as error:
            self._landed()
            self.disturb(error)
        else:
            self.on_acknowledged(replicator, outgoing, answer)

    def on_acknowledged(
        self, replicator: PartitionReplicator, outgoing: Outgoing, answer: ProducedPartition
    ) -> None:
        """The target has the batch, and where."""
        self._landed()
        if replicator is not self.replicator:
            return
        if answer.log_append_time_ms >= 0:
            self.disturb(FlowFailedError(f"{self.target.topic} replaces timestamps"))
            return
        if answer.base_offset < replicator.block.target_next or not replicator.is_oldest(outgoing):
            # Out of order, or lower than what is there already: the target may be another one.
            self._context.directory.hurry()
            self.disturb(KafkaError(ErrorCode.out_of_order_sequence_number, "acknowledged oddly"))
            return
        latency_ms = self._context.clock.now_ms() - peek_max_timestamp(outgoing.data)
        self.latency.observe(latency_ms, outgoing.prepared.records_count)
        replicator.trim(answer.log_start_offset)
        # Even if the flow is disturbed by now: an acknowledgement is a fact for the map.
        replicator.acknowledge(outgoing, answer.base_offset)
        if self._context.spans is not None:
            self._context.spans.acknowledged(self.source, self.target, outgoing, answer.base_offset)
        if self._disturbance is not None and not replicator.has_pending:
            self._disturbed.set()
        if replicator.can_take:
            self.on_ready(self)
        self.on_moved(self)

    def on_refused(
        self, replicator: PartitionReplicator, outgoing: Outgoing, error: KafkaError
    ) -> None:
        """The target did not take the batch, or nobody knows whether it did."""
        self._landed()
        if replicator is not self.replicator:
            return
        trouble = REFUSALS.get(error.code)
        if trouble is not None and outgoing.prepared.path is CopyPath.COALESCED:
            # What the source has may well be taken as it is.
            self._troubles.cutting.separate(outgoing.prepared, trouble)
            self.disturb(error)
        elif trouble is not None:
            self.disturb(RefusedBatchError(outgoing.prepared, trouble, error))
        else:
            self.disturb(error)

    def _landed(self) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._drained.set()
