"""One flow's life: prove where it stands, copy until something is in doubt, prove again.

    STARTING --prove--> copying --any error, lost lease--> drained --> STARTING
       |                   |                                             |
       +--- FlowFailedError, a refusal that no retry can heal            |
               +--- policy skip ----> gap in the journal ----------------+
               +--- policy pause ---> PAUSED ---after a pause------------+
               +--- policy fail ----> FAILED ---an operator's `retry`----+
                                              or `repair`

What happens while it copies is in `copy_span.py`: each proof is followed by a `Copying` of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.context import LinkContext, Rest
from mirror_maker.copy.replicator import CopyTotals, PartitionReplicator
from mirror_maker.flow.copy_span import Copying
from mirror_maker.flow.trouble_handling import Troubles
from mirror_maker.formats import FlowKey, Gap
from mirror_maker.metrics.lag import UNKNOWN_LAG, HighWatermarkHistory, Lag
from mirror_maker.metrics.latency import FlowMeasures
from mirror_maker.model import PRODUCER_REFUSED, FlowFailedError, FlowState, LinkFailedError
from mirror_maker.resume.gap_writer import made_anew
from mirror_maker.resume.generations import NotRestedError
from mirror_maker.resume.prove import prove, raise_epoch, replaced_from, start_replicator
from mirror_maker.rules.trouble import UNAUTHORIZED, Trouble

RUNNING_LAG_SECONDS_MAX: Final = 5.0
"""A flow that is later than this is catching up."""
LEASE_POLL_MS: Final = 100
HURRIES_MAX: Final = 20
"""Rounds of discovery that a starting flow asks for at once; then it waits for the regular ones."""

logger = logging.getLogger(__name__)


class RepairOrderedError(KafkaError):
    """An operator has ordered another generation of the copy."""

    def __init__(self, copy: str) -> None:
        super().__init__(ErrorCode.offset_not_available, f"{copy}: a repair was ordered")


class Flow:
    """A source partition on its way to its target partition; `run` until cancelled."""

    def __init__(
        self, context: LinkContext, source: TopicPartition, target: TopicPartition
    ) -> None:
        self.source = source
        self.target = target
        self.state = FlowState.STARTING
        self.trouble: Trouble | None = None
        """Why it is PAUSED or FAILED."""
        self.copying: Copying | None = None
        """Present from a proof until what disturbed the copying is dealt with."""
        self.history = HighWatermarkHistory()
        self.measures = FlowMeasures()
        self.restarts = 0
        self.on_ready: Callable[[Copying], None] = lambda copying: None
        """Called when there may be a batch to take."""
        self.on_moved: Callable[[Flow], None] = lambda flow: None
        """Called when what it would fetch may have changed, or what there is to be mapped."""
        self.flush_map: Callable[[], Awaitable[None]]
        """Has the map written as it is now; raises KafkaError."""
        self._context = context
        self._reason: str | None = None
        self._stopping = False
        self._orders = self._orders_at_proof = 0
        """How many times an operator's order came; and by the time of the last proof."""
        self._is_hidden = False
        """Whether it waits for a topic that the mirror may not see."""
        self._key: FlowKey | None = None
        self._back_off = Backoff(
            context.limits.back_off_ms_min, context.limits.back_off_ms_max, context.random
        )
        self._troubles = Troubles(context, self._name, source, target)
        self._finished = CopyTotals()

    # -- what others ask ----------------------------------------------------------------------

    @property
    def replicator(self) -> PartitionReplicator | None:
        """Present while copying."""
        return self.copying.replicator if self.copying is not None else None

    @property
    def reason(self) -> str | None:
        """Why it stands still, or what it waits for."""
        return self._reason or (self.copying.reason if self.copying is not None else None)

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
        if self._context.is_held(self.source) and self.state in (
            FlowState.STARTING,
            FlowState.RUNNING,
        ):
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
        self._context.rests.pop(self.target, None)  # another worker may have written meanwhile
        while not self._stopping:
            try:
                await self._copy_and_recover()
            except LinkFailedError:
                raise
            except Exception as error:  # a defect must stop this flow, not the others
                logger.exception("%s: internal error", self._name)
                await self._stand_still(
                    FlowFailedError(f"internal error: {error!r}", Trouble.INTERNAL)
                )

    async def drain(self) -> None:
        """Take nothing more, and wait until nothing is in flight; the map may then be written."""
        self._stopping = True
        self._troubles.stop()
        if self.copying is not None:
            await self.copying.drain()

    def retry(self) -> bool:
        """An operator wants it tried again now; whether it stood still."""
        self._troubles.retry()
        return self.trouble is not None

    def check_orders(self) -> None:
        """The journal has an operator's order about this partition: look at it again."""
        self._orders += 1
        self._troubles.retry()
        self._follow_order()

    def _follow_order(self) -> None:
        """Stop copying where another generation was ordered."""
        if self.copying is None:
            return
        opening = self._context.map_store.state.opening(self.copying.key)
        if opening is not None and replaced_from(self._context, opening) is not None:
            self.copying.disturb(RepairOrderedError(str(self.target)))

    def check_topics(self) -> None:
        """Are both topics, as discovery last saw them, still the ones that this flow is about?"""
        copying = self.copying
        hidden = self._context.directory.hidden(self.source, self.target)
        if hidden is None and self._is_hidden and self.state is FlowState.PAUSED:
            self._troubles.retry()
        if copying is None:
            return
        source_topic_id = self._context.directory.source_topic_id(self.source.topic)
        target_topic_id = self._context.directory.target_topic_id(self.target.topic)
        if hidden is not None:
            copying.disturb(KafkaError(ErrorCode.topic_authorization_failed, hidden))
        elif source_topic_id is None:
            if self.state is not FlowState.SOURCE_GONE and self._context.directory.source:
                # Should the topic be re-created, its copy has rested since now. A broker that
                # lists no topics at all may just not know them yet.
                self._context.rests[self.target] = Rest(
                    copying.replicator.block.target_next, self._context.clock.monotonic_ms()
                )
            self.state = FlowState.SOURCE_GONE
            self._reason = f"{self.source.topic} is not there at the source"
        elif source_topic_id != copying.key.source_topic_id:
            copying.disturb(made_anew(copying.key))
        elif target_topic_id is not None and target_topic_id != copying.key.target_topic_id:
            copying.disturb(
                KafkaError(ErrorCode.unknown_topic_id, f"{self.target.topic} was made anew")
            )
        elif self.state is FlowState.SOURCE_GONE:
            self._context.rests.pop(self.target, None)  # its log has not ended after all
            self.state = FlowState.RUNNING
            self._reason = None

    async def _copy_and_recover(self) -> None:
        """From proof to doubt, and what the doubt asks for."""
        try:
            await self._copy_once()
        except FlowFailedError as error:
            await self._meet_trouble(error)
        except RepairOrderedError as error:
            # What was copied before is to be in the map; if not, it has no receipts either.
            with suppress(KafkaError):
                await self.flush_map()
            await self._wait_to_retry(error)
        except KafkaError as error:
            if error.code in UNAUTHORIZED:
                await self._meet_trouble(FlowFailedError(str(error), Trouble.UNAUTHORIZED))
                return
            if error.code in PRODUCER_REFUSED:
                self._context.directory.hurry()
                try:
                    await self._raise_epoch()
                except FlowFailedError as failure:
                    # That there is no epoch left shows nowhere else: the next proof would find
                    # all well, and the same refusal would follow it for ever.
                    self._end_copying()
                    await self._meet_trouble(failure)
                    return
            await self._wait_to_retry(error)

    async def _copy_once(self) -> None:
        """From proof to doubt. Raises what caused the doubt."""
        if self.state is FlowState.SOURCE_GONE:
            self._reason = None  # the topic is there again
        self.state = FlowState.STARTING
        self._end_copying()
        await self._wait_until_startable()
        self._orders_at_proof = self._orders
        async with self._context.proofs:
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
        self._context.rests.pop(self.target, None)
        self.copying = copying = Copying(
            self._context,
            proved.flow,
            self.target,
            start_replicator(self._context, proved, self.source, self._troubles.cutting),
            self._troubles.cutting,
            self.measures,
            self.on_ready,
            lambda: self.on_moved(self),
        )
        self.state = FlowState.RUNNING
        self._reason = self.trouble = None
        self.on_moved(self)
        self.check_topics()  # the round of discovery that would have may lie behind the proof
        self._follow_order()  # likewise the order
        await copying.until_disturbed()
        self._check_disturbance(copying)

    def _check_disturbance(self, copying: Copying) -> None:
        if self._stopping:
            return
        assert copying.disturbance is not None
        logger.info("%s: disturbed: %s", self._name, copying.disturbance)
        self.restarts += 1
        if copying.replicator.totals.records:
            self._back_off.reset()
            self._troubles.passed()
        raise copying.disturbance

    async def _wait_until_startable(self) -> None:
        context = self._context
        directory = context.directory
        hurries = HURRIES_MAX
        was_missed = False
        while True:
            self.state = FlowState.STARTING
            hidden = directory.hidden(self.source, self.target)
            self._is_hidden = hidden is not None
            if hidden is not None:
                raise KafkaError(ErrorCode.topic_authorization_failed, hidden)
            if directory.is_loaded and self.source.topic not in directory.source:
                # The copy of a topic that is gone is not asked for. One round more, since the
                # topic may be newer than what is known here.
                if was_missed:
                    self.state = FlowState.SOURCE_GONE
                    self._reason = f"{self.source.topic} is not there at the source"
                else:
                    was_missed = True
                    self._reason = f"waits for {self.source} on the source"
                    directory.hurry()
                await directory.next_round()
            elif not context.map_store.is_open or directory.target_leader(self.target) is None:
                self._reason = f"waits for {self.target} on the target"
                if hurries:
                    hurries -= 1
                    directory.hurry()
                await directory.next_round()
            elif directory.source_leader(self.source) is None:
                self._reason = f"waits for {self.source} on the source"
                await directory.next_round()
            elif not context.lease.is_valid():
                self._reason = "waits for the group of workers"
                await context.clock.sleep(LEASE_POLL_MS)
            else:
                return

    async def _raise_epoch(self) -> None:
        """A new epoch, if nobody has opened one. Raises FlowFailedError; what may pass is left to
        the next round."""
        replicator = self.replicator
        if replicator is None:
            return
        self._reason = "the target refuses the producer epoch; waiting to raise it"
        try:
            await raise_epoch(self._context, self.source, self.target, replicator.producer_epoch)
        except KafkaError as error:
            logger.warning("%s: epoch not raised: %s", self._name, error)

    async def _meet_trouble(self, error: FlowFailedError) -> None:
        """Go on behind it if the link's policy says so and it can be done; stand still if not."""
        unsolved: FlowFailedError | None
        try:
            unsolved = await self._troubles.overcome(
                error, self._key, self.replicator, self.flush_map
            )
        except KafkaError as failure:
            await self._wait_to_retry(failure)
            return
        except FlowFailedError as failure:
            unsolved = failure  # met while the first one was looked into
        if unsolved is not None:
            await self._stand_still(unsolved)

    async def _stand_still(self, error: FlowFailedError) -> None:
        """Until it is time to try again."""
        self._end_copying()
        self.trouble, self._reason = error.trouble, str(error)
        self.state = self._troubles.state_of(error)
        if self._orders == self._orders_at_proof:  # else what stops it may have been dealt with
            await self._troubles.wait(error)

    async def _wait_to_retry(self, error: KafkaError) -> None:
        if isinstance(error, NotRestedError):
            self._reason = error.message
            await self._context.clock.sleep(error.wait_ms)
            return
        self._reason = str(error)
        self._context.directory.hurry()
        await self._context.clock.sleep(self._back_off.next_ms())

    def _end_copying(self) -> None:
        self._finished = self.totals()
        copying, self.copying = self.copying, None
        if copying is not None:
            copying.end()

    @property
    def _name(self) -> str:
        return f"{self._context.settings.name}: {self.source} -> {self.target}"
