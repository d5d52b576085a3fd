"""The life of one flow: prove where it stands, copy until something is in doubt, prove again.

    STARTING --prove--> copying --any error, lost lease--> drained --> STARTING
       |                   |                                             |
       +--- FlowFailedError, a refusal that no retry can end             |
               +--- policy skip ----> gap in the journal ----------------+
               +--- policy pause ---> PAUSED ---after a pause------------+
               +--- policy fail ----> FAILED ---an operator's `retry`----+
                                              or `repair`

Each proof is followed by a `CopySession` of its own, which does the copying.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.copy.replicator import CopyTotals, PartitionReplicator
from mirror_maker.flow.copy_permit import CopyPermit
from mirror_maker.flow.copy_session import CopySession
from mirror_maker.flow.topic_presence import TopicPresence
from mirror_maker.flow.trouble_handler import FlushMap, TroubleHandler
from mirror_maker.formats import FlowKey, Gap, MapTopic
from mirror_maker.metrics.end_samples import EndSamples
from mirror_maker.metrics.lag import UNKNOWN_LAG, HighWatermarkHistory, Lag
from mirror_maker.metrics.latency import FlowMeasures
from mirror_maker.model import PRODUCER_REFUSED, FlowFailedError, FlowState, LinkFailedError
from mirror_maker.ports import Clock
from mirror_maker.resume.journal_entries import replaced_from
from mirror_maker.resume.proof import Proof, Prover
from mirror_maker.resume.quiet_period import NotQuietError, QuietPeriod
from mirror_maker.resume.raise_epoch import EpochRaiser
from mirror_maker.rules.trouble import UNAUTHORIZED, Trouble
from mirror_maker.stores.journal_store import GapStore

RUNNING_LAG_SECONDS_MAX: Final = 5.0
"""A flow with more lag is CATCHING_UP."""

log = logging.getLogger(__name__)

StartSession = Callable[[Proof, Callable[[], None]], CopySession]
"""Starts copying from a proof. The second argument is called when the session moves."""


class RepairOrderedError(KafkaError):
    """An operator has ordered another generation of the copy."""

    def __init__(self, copy: str) -> None:
        super().__init__(ErrorCode.offset_not_available, f"{copy}: a repair was ordered")


class Flow:
    """One source partition that is copied to its target partition; `run` until cancelled."""

    def __init__(
        self,
        name: str,
        source: TopicPartition,
        target: TopicPartition,
        *,
        prover: Prover,
        epochs: EpochRaiser,
        start_session: StartSession,
        presence: TopicPresence,
        permit: CopyPermit,
        troubles: TroubleHandler,
        quiet_period: QuietPeriod,
        journal: GapStore,
        state: MapTopic,
        measures: FlowMeasures,
        clock: Clock,
        backoff: Backoff,
        proofs: asyncio.Semaphore,
        on_moved: Callable[[Flow], None],
        flush_map: FlushMap,
    ) -> None:
        """`name` is the flow's in the process log, `state` is the link's map topic. `proofs` bounds
        the proofs of a link at a time. `on_moved` is called when there may be something else to
        fetch or to map."""
        self.source = source
        self.target = target
        self.state = FlowState.STARTING
        self.trouble: Trouble | None = None
        """Why it is PAUSED or FAILED."""
        self.session: CopySession | None = None
        """Set from a proof until what disturbed the session is dealt with."""
        self.history = HighWatermarkHistory()
        self.ends = EndSamples()
        self.measures = measures
        self.restarts = 0
        self._name = name
        self._prover = prover
        self._epochs = epochs
        self._start_session = start_session
        self._presence = presence
        self._permit = permit
        self._troubles = troubles
        self._quiet_period = quiet_period
        self._journal = journal
        self._map_state = state
        self._clock = clock
        self._backoff = backoff
        self._proofs = proofs
        self._on_moved = on_moved
        self._flush_map = flush_map
        self._reason: str | None = None
        self._is_stopping = False
        self._orders = self._orders_at_proof = 0
        """Orders of an operator so far, and by the time of the last proof."""
        self._is_hidden = False
        """Whether it waits for a topic that the mirror may not see."""
        self._key: FlowKey | None = None
        self._finished = CopyTotals()

    # -- what others ask ----------------------------------------------------------------------

    @property
    def replicator(self) -> PartitionReplicator | None:
        """Set while copying."""
        return self.session.replicator if self.session is not None else None

    @property
    def reason(self) -> str | None:
        """Why it is stopped, or what it waits for."""
        return self._reason or (self.session.reason if self.session is not None else None)

    def totals(self) -> CopyTotals:
        """Return what was copied since this process took the flow."""
        if self.replicator is None:
            return self._finished
        return self._finished.plus(self.replicator.totals)

    def gaps(self) -> list[Gap]:
        """Return what the journal says was not copied."""
        return self._journal.state.partition_gaps(*self.source)

    def lag(self) -> Lag:
        if self.replicator is None:
            return UNKNOWN_LAG
        return self.history.lag(
            self.replicator.source_next,
            self.replicator.pending_bytes,
            self.replicator.fetch_position,
            self._clock.monotonic_ms(),
        )

    def current_state(self) -> FlowState:
        """Return the state, with an operator's pause and the lag taken into account."""
        if self._permit.is_paused and self.state in (FlowState.STARTING, FlowState.RUNNING):
            return FlowState.HELD
        if self.state is not FlowState.RUNNING:
            return self.state
        lag = self.lag()
        if lag.seconds is None or lag.seconds > RUNNING_LAG_SECONDS_MAX:
            return FlowState.CATCHING_UP
        return FlowState.RUNNING

    # -- what others tell ---------------------------------------------------------------------

    def retry(self) -> bool:
        """Try again now, as an operator asked; return whether the flow was stopped."""
        self._troubles.retry()
        return self.trouble is not None

    def check_orders(self) -> None:
        """Look at the journal again: it has an operator's order about this partition."""
        self._orders += 1
        self._troubles.retry()
        self._follow_order()

    def _follow_order(self) -> None:
        """Stop copying if another generation was ordered."""
        if self.session is None:
            return
        opening = self._map_state.opening(self.session.key)
        if opening is not None and replaced_from(self._journal, opening) is not None:
            self.session.disturb(RepairOrderedError(str(self.target)))

    def check_topics(self) -> None:
        """Check that both topics, as discovery last found them, are still those of this flow."""
        presence, session = self._presence, self.session
        if presence.hidden is None and self._is_hidden and self.state is FlowState.PAUSED:
            self._troubles.retry()
        if session is None:
            return
        doubt = presence.doubt(session.key)
        if doubt is not None:
            session.disturb(doubt)
        elif presence.is_source_gone:
            if self.state is not FlowState.SOURCE_GONE and presence.lists_topics:
                # If the topic is re-created, the quiet period of its copy has begun now.
                self._quiet_period.begin(session.replicator.block.target_next)
            self.state = FlowState.SOURCE_GONE
            self._reason = presence.gone_reason
        elif self.state is FlowState.SOURCE_GONE:
            self._quiet_period.cancel()  # the log has not ended after all
            self.state = FlowState.RUNNING
            self._reason = None

    async def drain(self) -> None:
        """Take nothing more, and wait until nothing is in flight; the map may then be written."""
        self._is_stopping = True
        self._troubles.stop()
        if self.session is not None:
            await self.session.drain()

    # -- life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until drained or cancelled."""
        while not self._is_stopping:
            try:
                await self._copy_and_recover()
            except LinkFailedError:
                raise
            except Exception as error:  # a defect must stop this flow, not the others
                log.exception("%s: internal error", self._name)
                await self._stop_for(
                    FlowFailedError(f"internal error: {error!r}", Trouble.INTERNAL)
                )

    async def _copy_and_recover(self) -> None:
        """Copy from a proof to a doubt, and do what the doubt asks for."""
        try:
            await self._copy_once()
        except FlowFailedError as error:
            await self._meet_trouble(error)
        except RepairOrderedError as error:
            # Map what was copied before. What stays unmapped has no receipts either.
            with suppress(KafkaError):
                await self._flush_map()
            await self._wait_to_retry(error)
        except KafkaError as error:
            if error.code in UNAUTHORIZED:
                await self._meet_trouble(FlowFailedError(str(error), Trouble.UNAUTHORIZED))
                return
            if error.code in PRODUCER_REFUSED:
                self._presence.hurry()
                try:
                    await self._raise_epoch()
                except FlowFailedError as failure:
                    # Only here it shows that no epoch is left: the next proof would find nothing
                    # wrong, and the same refusal would follow it for ever.
                    self._end_session()
                    await self._meet_trouble(failure)
                    return
            await self._wait_to_retry(error)

    async def _copy_once(self) -> None:
        """Copy from a proof to a doubt. Raises the cause of the doubt."""
        if self.state is FlowState.SOURCE_GONE:
            self._reason = None  # the topic exists again
        self.state = FlowState.STARTING
        self._end_session()
        await self._wait_until_startable()
        self._orders_at_proof = self._orders
        async with self._proofs:
            proof = await self._prover.prove()
        if self._is_stopping:
            return
        log.info(
            "%s: continues at source offset %d, sequence %d; paired %d unmapped batches",
            self._name,
            proof.source_next,
            proof.next_sequence,
            proof.paired_batches,
        )
        self._key = proof.flow
        self._quiet_period.cancel()
        self.session = session = self._start_session(proof, lambda: self._on_moved(self))
        self.state = FlowState.RUNNING
        self._reason = self.trouble = None
        self._on_moved(self)
        self.check_topics()  # the round of discovery that would do it may precede the session
        self._follow_order()  # likewise the order
        await session.until_disturbed()
        self._check_disturbance(session)

    def _check_disturbance(self, session: CopySession) -> None:
        if self._is_stopping:
            return
        assert session.disturbance is not None
        log.info("%s: disturbed: %s", self._name, session.disturbance)
        self.restarts += 1
        if session.replicator.totals.records:
            self._backoff.reset()
            self._troubles.passed()
        raise session.disturbance

    async def _wait_until_startable(self) -> None:
        try:
            await self._presence.wait_until_startable(self._report)
            self._is_hidden = False
        except KafkaError:
            self._is_hidden = True
            raise
        finally:
            self.state = FlowState.STARTING

    def _report(self, state: FlowState, reason: str) -> None:
        self.state, self._reason = state, reason

    async def _raise_epoch(self) -> None:
        """Raise the epoch if nobody did. Raises FlowFailedError; logs other errors."""
        replicator = self.replicator
        if replicator is None:
            return
        self._reason = "the target refuses the producer epoch; waiting to raise it"
        try:
            await self._epochs.raise_epoch(replicator.producer_epoch)
        except KafkaError as error:
            log.warning("%s: epoch not raised: %s", self._name, error)

    async def _meet_trouble(self, error: FlowFailedError) -> None:
        """Overcome the trouble if the link's policy allows it and it is possible; else stop."""
        unsolved: FlowFailedError | None
        try:
            unsolved = await self._troubles.overcome(
                error, self._key, self.replicator, self._flush_map
            )
        except KafkaError as failure:
            await self._wait_to_retry(failure)
            return
        except FlowFailedError as failure:
            unsolved = failure  # met while the first one was looked into
        if unsolved is not None:
            await self._stop_for(unsolved)

    async def _stop_for(self, error: FlowFailedError) -> None:
        """Stop until it is time to try again."""
        self._end_session()
        self.trouble, self._reason = error.trouble, str(error)
        self.state = self._troubles.state_of(error)
        if self._orders == self._orders_at_proof:  # a newer order may have dealt with it
            await self._troubles.wait(error)

    async def _wait_to_retry(self, error: KafkaError) -> None:
        if isinstance(error, NotQuietError):
            self._reason = error.message
            await self._clock.sleep(error.wait_ms)
            return
        self._reason = str(error)
        self._presence.hurry()
        await self._backoff.wait()

    def _end_session(self) -> None:
        self._finished = self.totals()
        session, self.session = self.session, None
        if session is not None:
            session.end()
