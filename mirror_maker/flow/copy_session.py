"""One session of copying: from the proof of where a flow stands to the next doubt.

    Fetcher --on_fetched--> replicator --on_confirmed--> take() --> Sender
                                ^                                     |
                                +---- on_acknowledged, on_refused ----+

A fetcher or sender holds the session for which it asked or sent, and gives the response to that
session. If the flow has started another session meanwhile, the response changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    ProducedPartition,
    TopicPartition,
)
from local_cluster.records.header import iter_headers, peek_max_timestamp
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import PartitionLog
from mirror_maker.copy.batch_selection import CopyPath
from mirror_maker.copy.batch_splitting import BatchSplitter
from mirror_maker.copy.replicator import Outgoing, PartitionReplicator
from mirror_maker.flow.copy_permit import CopyPermit
from mirror_maker.flow.trouble_causes import OutOfRangeError, RefusedBatchError, recreated_error
from mirror_maker.formats import FlowKey
from mirror_maker.formats.records import NO_TOPIC_ID
from mirror_maker.metrics.latency import FlowMeasures
from mirror_maker.model import FlowFailedError, UncopyableBatchError
from mirror_maker.ports import Clock
from mirror_maker.resume.divergence import TruncatedError
from mirror_maker.resume.foreign_records import ForeignRecordsError
from mirror_maker.resume.pairing import is_same_content
from mirror_maker.rules.trouble import REFUSALS, UNAUTHORIZED, Trouble


class BatchTracer(Protocol):
    """Records a span for each batch; `BatchSpans` is one."""

    def now_ns(self) -> int: ...

    def acknowledged(
        self, source: TopicPartition, target: TopicPartition, outgoing: Outgoing, base_offset: int
    ) -> None: ...


class ForeignPolicy(Protocol):
    """What a flow does about foreign records that appear in its copy."""

    @property
    def may_appear(self) -> bool:
        """Whether others may write into the copy."""
        ...

    @property
    def are_skipped(self) -> bool:
        """Whether they are only written into the journal."""
        ...

    def are_accepted(self, flow: FlowKey, target_from: int, target_to: int) -> bool:
        """Return whether the journal has these target offsets already."""
        ...


class CopySession:
    """Copies until something is in doubt; `until_disturbed` returns then."""

    def __init__(
        self,
        key: FlowKey,
        source: PartitionLog,
        target: PartitionLog,
        replicator: PartitionReplicator,
        *,
        splitter: BatchSplitter,
        permit: CopyPermit,
        foreign: ForeignPolicy,
        measures: FlowMeasures,
        tracer: BatchTracer | None,
        clock: Clock,
        hurry: Callable[[], None],
        on_ready: Callable[[CopySession], None],
        on_moved: Callable[[], None],
    ) -> None:
        """`hurry` asks for a round of discovery. `on_ready` is called when there may be a batch to
        take, `on_moved` when there may be something else to fetch or to map."""
        self.key = key
        self.replicator = replicator
        self.disturbance: Exception | None = None
        """What is in doubt. Nothing more is fetched then."""
        self.reason: str | None = None
        """Why the source returns nothing."""
        self._source_log = source
        self._target_log = target
        self._splitter = splitter
        self._permit = permit
        self._foreign = foreign
        self._measures = measures
        self._tracer = tracer
        self._clock = clock
        self._hurry = hurry
        self._on_ready = on_ready
        self._on_moved = on_moved
        self._is_over = False
        self._offer: asyncio.TimerHandle | None = None
        self._disturbed = asyncio.Event()
        self._in_flight = 0
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def source(self) -> TopicPartition:
        return self._source_log.at

    @property
    def target(self) -> TopicPartition:
        return self._target_log.at

    @property
    def source_leader(self) -> int | None:
        return self._source_log.known_leader

    @property
    def source_topic_id(self) -> UUID | None:
        """The topic id that fetches name; None if the source has no topic ids."""
        topic_id = self.key.source_topic_id
        return None if topic_id == NO_TOPIC_ID else topic_id

    @property
    def target_leader(self) -> int | None:
        return self._target_log.known_leader

    @property
    def wants_fetch(self) -> bool:
        """Whether it has room, nothing in doubt, and the permit to fetch."""
        return self.disturbance is None and self.replicator.wants_fetch and self._permit.may_fetch

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
        """Whether acknowledged batches are read back before they count."""
        return self.replicator.is_on_probation

    # -- the end --------------------------------------------------------------------------------

    def disturb(self, error: Exception) -> None:
        """Stop copying until the target's log has been read again: something is in doubt."""
        if not self._disturbed.is_set() or isinstance(error, FlowFailedError):
            self.disturbance = error
        self._disturbed.set()
        self._on_moved()

    def _stop_after_queue(self, error: FlowFailedError) -> None:
        """Write what precedes the trouble, then stop."""
        self.disturbance = error
        if not self.replicator.has_pending:
            self._disturbed.set()
        self._on_moved()

    def fail(self, error: Exception) -> None:
        """Stop after a defect in taking in data.

        The replicator may have stopped anywhere, so nothing more of it goes into the map.
        """
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
        """Ignore every response from now on."""
        self._is_over = True
        self._on_moved()

    # -- the fetcher's side ---------------------------------------------------------------------

    def on_fetched(
        self, position: int, fetched: FetchedPartition, *, is_of_topic_id: bool = False
    ) -> bool:
        """Take a fetch response for this position; return whether it waits for `on_confirmed`.

        `is_of_topic_id`: the fetch named this flow's topic id, so nothing needs confirmation.
        """
        self._on_moved()
        if self._is_over or self.replicator.fetch_position != position:
            return False
        if self._permit.is_paused:
            return False  # sent before the operator paused it; fetched again when it may continue
        if fetched.error or fetched.diverging_epoch is not None:
            self._on_refused_fetch(position, fetched)
            return False
        self.reason = None
        needs_no_confirmation = is_of_topic_id and not self.replicator.has_held
        try:
            advanced = self.replicator.accept(
                fetched.records,
                fetched.aborted_transactions,
                0 if self._tracer is None else self._tracer.now_ns(),
            )
            if not advanced and len(fetched.records):
                raise UncopyableBatchError(position, "no complete batch in the fetch response")
        except UncopyableBatchError as error:
            self._stop_after_queue(error)
        if needs_no_confirmation:
            self._release(self.replicator.accepted)
        return self.replicator.has_held

    def _on_refused_fetch(self, position: int, fetched: FetchedPartition) -> None:
        if fetched.error == ErrorCode.offset_out_of_range:
            self._stop_after_queue(OutOfRangeError(position))
        elif fetched.error in UNAUTHORIZED:
            self.disturb(KafkaError(fetched.error, f"{self.source} at the source"))
        elif fetched.error:
            self.reason = f"source: {fetched.error.name.upper()}"
            self._hurry()
        elif fetched.diverging_epoch is not None:
            epoch, end = fetched.diverging_epoch
            self._stop_after_queue(
                TruncatedError(
                    self.key,
                    f"source offset {position} does not follow what was copied: epoch {epoch} "
                    f"ends at {end}",
                    common_end=end,
                    reported_at=FetchPosition(
                        position, last_fetched_epoch=self.replicator.last_epoch
                    ),
                )
            )

    def on_confirmed(self, mark: int, topic_id: UUID | None) -> None:
        """Take the topic id that the source had after everything up to the mark was fetched."""
        if self._is_over:
            return
        if topic_id == self.key.source_topic_id:
            self._release(mark)
        elif topic_id is None:
            self._hurry()
            self.disturb(
                KafkaError(ErrorCode.unknown_topic_or_partition, f"{self.source} at the source")
            )
        else:
            self.disturb(recreated_error(self.key))

    def _release(self, mark: int) -> None:
        self.replicator.release(mark)
        self._on_moved()
        if self.replicator.can_take:
            self._on_ready(self)

    # -- the sender's side ----------------------------------------------------------------------

    def take(self) -> Outgoing | None:
        """Return the next batch to write, if there is one and this worker may write it."""
        if self._is_over or self._disturbed.is_set():
            return None
        if not self._permit.has_lease:
            self.disturb(KafkaError(ErrorCode.rebalance_in_progress, "the lease has run out"))
            return None
        delay_ms = self._permit.write_delay_ms()
        if delay_ms:
            self._offer_later(delay_ms)
            return None
        outgoing = self.replicator.take()
        if outgoing is None:
            return None
        if self._tracer is not None:
            outgoing.sealed_ns = self._tracer.now_ns()
        self._permit.spend(outgoing.size_bytes)
        age_ms = self._clock.now_ms() - peek_max_timestamp(outgoing.data)
        self._measures.sent(age_ms, outgoing.prepared.records_count)
        self._in_flight += 1
        self._drained.clear()
        return outgoing

    def _offer_later(self, delay_ms: int) -> None:
        """Offer the session to its sender again when the link's rate allows a write."""
        if self._offer is None:
            loop = asyncio.get_running_loop()
            self._offer = loop.call_later(delay_ms / 1000, self._offer_again)

    def _offer_again(self) -> None:
        self._offer = None
        if not self._is_over and self.replicator.can_take:
            self._on_ready(self)

    async def read_back(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        """Take an acknowledgement only if the target has this batch at that offset."""
        try:
            await self._check_written(outgoing, answer.base_offset)
        except (KafkaError, FlowFailedError) as error:
            self._landed()
            self.disturb(error)
        else:
            self.on_acknowledged(outgoing, answer)

    async def _check_written(self, outgoing: Outgoing, base_offset: int) -> None:
        """Raise FlowFailedError if the target has another batch there, KafkaError: unknown."""
        log = self._target_log
        found = await log.read(base_offset, bytes_max=outgoing.size_bytes)
        first = next(iter_headers(found.records), None)
        if first is None:
            raise KafkaError(ErrorCode.offset_not_available, str(log.at))
        batch = found.records[: first[1].size_bytes]
        if first[1].base_offset != base_offset or not is_same_content(outgoing.data, batch):
            raise FlowFailedError(
                f"target offset {base_offset} was acknowledged for source offset "
                f"{outgoing.prepared.source_first}, but holds other records"
            )

    def on_acknowledged(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        """Take the target's acknowledgement of a batch."""
        self._landed()
        if self._is_over:
            return
        replicator = self.replicator
        if answer.log_append_time_ms >= 0:
            self.disturb(FlowFailedError(f"{self.target.topic} replaces timestamps"))
            return
        if answer.base_offset < replicator.block.target_next or not replicator.is_oldest(outgoing):
            # Out of order, or lower than what is there already: it may be another topic.
            self._hurry()
            self.disturb(
                KafkaError(ErrorCode.out_of_order_sequence_number, "acknowledged out of order")
            )
            return
        self._measure(outgoing)
        replicator.trim(answer.log_start_offset)
        expected = replicator.target_next
        # Even if the session is disturbed: an acknowledgement is a fact for the map.
        replicator.acknowledge(outgoing, answer.base_offset)
        if answer.base_offset > expected and not self._foreign.may_appear:
            self._on_foreign(expected, answer.base_offset)
        if self._tracer is not None:
            self._tracer.acknowledged(self.source, self.target, outgoing, answer.base_offset)
        if self.disturbance is not None and not replicator.has_pending:
            self._disturbed.set()
        if replicator.can_take:
            self._on_ready(self)
        self._on_moved()

    def _measure(self, outgoing: Outgoing) -> None:
        self._measures.acknowledged(
            self._clock.now_ms() - peek_max_timestamp(outgoing.data),
            outgoing.prepared.records_count,
            outgoing.size_bytes,
            self._clock.monotonic_ms(),
        )

    def _on_foreign(self, target_from: int, target_to: int) -> None:
        """Deal with records at the target that this flow did not write."""
        if self._foreign.are_skipped:
            self.replicator.foreign.append((target_from, target_to))
        elif not self._foreign.are_accepted(self.key, target_from, target_to):
            self.disturb(ForeignRecordsError(self.target, [(target_from, target_to)]))

    def on_refused(self, outgoing: Outgoing, error: KafkaError) -> None:
        """Take a refusal of a batch, or a failure that leaves its fate unknown."""
        self._landed()
        if self._is_over:
            return
        trouble = REFUSALS.get(error.code)
        if trouble is not None and outgoing.prepared.path is CopyPath.COALESCED:
            # The target may accept the source's own batches.
            self._splitter.separate(outgoing.prepared, trouble)
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
