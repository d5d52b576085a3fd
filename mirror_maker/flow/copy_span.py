"""One span of a flow's life: from the proof of where it stands to the next doubt.

    Fetcher --on_fetched--> replicator --on_confirmed--> take() --> Sender
                                ^                                     |
                                +---- on_acknowledged, on_refused ----+

Whoever asks or sends for a flow holds its `Copying` and gives the answer to that one. When the flow
has gone on to another, the answer for this one changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from local_cluster.client.model import FetchedPartition, ProducedPartition, TopicPartition
from local_cluster.records.header import peek_max_timestamp
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.copy.batch_splitting import Cutting
from mirror_maker.copy.passthrough import CopyPath
from mirror_maker.copy.replicator import Outgoing, PartitionReplicator
from mirror_maker.formats import FlowKey
from mirror_maker.formats.records import NO_TOPIC_ID
from mirror_maker.metrics.latency import FlowMeasures
from mirror_maker.model import FlowFailedError, UncopyableBatchError
from mirror_maker.resume.divergence import TruncatedError
from mirror_maker.resume.foreign_records import ForeignRecordsError, accepted, may_hold_others
from mirror_maker.resume.gap_writer import OutOfRangeError, RefusedBatchError, made_anew
from mirror_maker.resume.prove import check_written
from mirror_maker.rules.trouble import REFUSALS, UNAUTHORIZED, Trouble


class Copying:
    """Copies until something is in doubt; `until_disturbed` tells."""

    def __init__(
        self,
        context: LinkContext,
        key: FlowKey,
        target: TopicPartition,
        replicator: PartitionReplicator,
        cutting: Cutting,
        measures: FlowMeasures,
        on_ready: Callable[[Copying], None],
        on_moved: Callable[[], None],
    ) -> None:
        """`on_ready` hears when there may be a batch to take, `on_moved` when what it would fetch
        may have changed, or what there is to be mapped."""
        self.source = TopicPartition(key.source_topic, key.partition)
        self.target = target
        self.key = key
        self.replicator = replicator
        self.disturbance: Exception | None = None
        """What is in doubt: nothing more is fetched."""
        self.reason: str | None = None
        """Why the source does not give anything."""
        self._context = context
        self._cutting = cutting
        self._measures = measures
        self._on_ready = on_ready
        self._on_moved = on_moved
        self._is_over = False
        self._may_hold_others = may_hold_others(context, key.source_topic)
        self._offer: asyncio.TimerHandle | None = None
        self._disturbed = asyncio.Event()
        self._in_flight = 0
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def source_leader(self) -> int | None:
        return self._context.directory.source_leader(self.source)

    @property
    def source_topic_id(self) -> UUID | None:
        """What its records are fetched of; None where the source has no topic ids."""
        topic_id = self.key.source_topic_id
        return None if topic_id == NO_TOPIC_ID else topic_id

    @property
    def target_leader(self) -> int | None:
        return self._context.directory.target_leader(self.target)

    @property
    def wants_fetch(self) -> bool:
        """Whether it has room, met nothing that it cannot copy, is not paused, and not too much
        of the link waits to be mapped."""
        return (
            self.disturbance is None
            and self.replicator.wants_fetch
            and not self._context.is_held(self.source)
            and not self._context.map_writes.is_overdue
        )

    @property
    def is_blocked(self) -> bool:
        """Whether it would fetch if it had room."""
        return not self.replicator.wants_fetch

    @property
    def can_take(self) -> bool:
        """Whether a batch is ready and the window has room for it."""
        return self.replicator.can_take

    @property
    def is_on_probation(self) -> bool:
        """Whether acknowledged batches are read back before they are believed."""
        return self.replicator.is_on_probation

    # -- the end --------------------------------------------------------------------------------

    def disturb(self, error: Exception) -> None:
        """Something is in doubt: copy no further until the target's log has been read again."""
        if not self._disturbed.is_set() or isinstance(error, FlowFailedError):
            self.disturbance = error
        self._disturbed.set()
        self._on_moved()

    def _stop_after_queue(self, error: FlowFailedError) -> None:
        """Write what came before the trouble, then fail."""
        self.disturbance = error
        if not self.replicator.has_pending:
            self._disturbed.set()
        self._on_moved()

    def fail(self, error: Exception) -> None:
        """A defect was met while its data was taken in: the replicator may have stopped anywhere,
        and nothing that it says goes into the map any more."""
        self._is_over = True
        self.disturb(FlowFailedError(f"internal error: {error!r}", Trouble.INTERNAL))

    async def until_disturbed(self) -> None:
        """Return when something is in doubt and nothing is in flight any more."""
        await self._disturbed.wait()
        await self._drained.wait()

    async def drain(self) -> None:
        """Take nothing more, and wait until nothing is in flight; the map may then be written."""
        self._disturbed.set()
        await self._drained.wait()

    def end(self) -> None:
        """Whatever is still answered is not for this flow any more."""
        self._is_over = True
        self._on_moved()

    # -- the fetcher's side ---------------------------------------------------------------------

    def on_fetched(
        self, position: int, fetched: FetchedPartition, *, is_of_topic_id: bool = False
    ) -> bool:
        """An answer for this position; whether what it brought waits for `on_confirmed`.

        `is_of_topic_id`: it was asked for by this flow's topic id, so nothing is to be confirmed.
        """
        self._on_moved()
        if self._is_over or self.replicator.fetch_position != position:
            return False
        if self._context.is_held(self.source):
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
        if fetched.diverging_epoch is not None:
            epoch, end = fetched.diverging_epoch
            self._stop_after_queue(
                TruncatedError(
                    self.key,
                    f"source offset {position} does not follow what was copied: epoch {epoch} "
                    f"ends at {end}",
                    common_end=end,
                )
            )
            return False
        self.reason = None
        spans = self._context.spans
        is_proved = is_of_topic_id and not self.replicator.has_held
        try:
            advanced = self.replicator.accept(
                fetched.records,
                fetched.aborted_transactions,
                0 if spans is None else spans.now_ns(),
            )
            if not advanced and len(fetched.records):
                raise UncopyableBatchError(position, "no whole batch in the fetch answer")
        except UncopyableBatchError as error:
            self._stop_after_queue(error)
        if is_proved:
            self._release(self.replicator.accepted)
        return self.replicator.has_held

    def on_confirmed(self, mark: int, topic_id: UUID | None) -> None:
        """After what was accepted up to the mark was fetched, the source had this topic id."""
        if self._is_over:
            return
        if topic_id == self.key.source_topic_id:
            self._release(mark)
        elif topic_id is None:
            self._context.directory.hurry()
            self.disturb(
                KafkaError(ErrorCode.unknown_topic_or_partition, f"{self.source} at the source")
            )
        else:
            self.disturb(made_anew(self.key))

    def _release(self, mark: int) -> None:
        self.replicator.release(mark)
        self._on_moved()
        if self.replicator.can_take:
            self._on_ready(self)

    # -- the sender's side ----------------------------------------------------------------------

    def take(self) -> Outgoing | None:
        """The next batch to write, if there is one and it is ours to write."""
        if self._is_over or self._disturbed.is_set():
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
        age_ms = self._context.clock.now_ms() - peek_max_timestamp(outgoing.data)
        self._measures.sent(age_ms, outgoing.prepared.records_count)
        self._in_flight += 1
        self._drained.clear()
        return outgoing

    def _offer_later(self, delay_ms: int) -> None:
        """The link may write no faster; be offered to the sender again when it may."""
        if self._offer is None:
            loop = asyncio.get_running_loop()
            self._offer = loop.call_later(delay_ms / 1000, self._offer_again)

    def _offer_again(self) -> None:
        self._offer = None
        if not self._is_over and self.replicator.can_take:
            self._on_ready(self)

    async def read_back(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        """Believe an acknowledgement only if the target has just this batch at that offset."""
        try:
            await check_written(
                self._context.sink, self.target_leader, self.target, outgoing, answer.base_offset
            )
        except (KafkaError, FlowFailedError) as error:
            self._landed()
            self.disturb(error)
        else:
            self.on_acknowledged(outgoing, answer)

    def on_acknowledged(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        """The target has the batch, and where."""
        self._landed()
        if self._is_over:
            return
        replicator = self.replicator
        if answer.log_append_time_ms >= 0:
            self.disturb(FlowFailedError(f"{self.target.topic} replaces timestamps"))
            return
        if answer.base_offset < replicator.block.target_next or not replicator.is_oldest(outgoing):
            # Out of order, or lower than what is there already: the target may be another one.
            self._context.directory.hurry()
            self.disturb(KafkaError(ErrorCode.out_of_order_sequence_number, "acknowledged oddly"))
            return
        latency_ms = self._context.clock.now_ms() - peek_max_timestamp(outgoing.data)
        self._measures.acknowledged(
            latency_ms,
            outgoing.prepared.records_count,
            outgoing.size_bytes,
            self._context.clock.monotonic_ms(),
        )
        replicator.trim(answer.log_start_offset)
        expected = replicator.target_next
        # Even if it is disturbed by now: an acknowledgement is a fact for the map.
        replicator.acknowledge(outgoing, answer.base_offset)
        if answer.base_offset > expected and not self._may_hold_others:
            self._on_others(expected, answer.base_offset)
        if self._context.spans is not None:
            self._context.spans.acknowledged(self.source, self.target, outgoing, answer.base_offset)
        if self.disturbance is not None and not replicator.has_pending:
            self._disturbed.set()
        if replicator.can_take:
            self._on_ready(self)
        self._on_moved()

    def _on_others(self, target_from: int, target_to: int) -> None:
        """The target has records there that this flow did not write."""
        settings = self._context.settings.for_topic(self.source.topic)
        if settings.on.of(Trouble.FOREIGN) == "skip":
            self.replicator.others.append((target_from, target_to))
            return
        opening = self._context.map_store.state.opening(self.key)
        if opening is None or not accepted(self._context, opening).covers(target_from, target_to):
            self.disturb(ForeignRecordsError(self.target, [(target_from, target_to)]))

    def on_refused(self, outgoing: Outgoing, error: KafkaError) -> None:
        """The target did not take the batch, or nobody knows whether it did."""
        self._landed()
        if self._is_over:
            return
        trouble = REFUSALS.get(error.code)
        if trouble is not None and outgoing.prepared.path is CopyPath.COALESCED:
            # What the source has may well be taken as it is.
            self._cutting.separate(outgoing.prepared, trouble)
            self.disturb(error)
        elif trouble is not None:
            self.disturb(RefusedBatchError(outgoing.prepared, trouble, error))
        elif error.code in UNAUTHORIZED:
            self.disturb(KafkaError(error.code, f"{self.target} at the target"))
        else:
            self.disturb(error)

    def _landed(self) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._drained.set()
