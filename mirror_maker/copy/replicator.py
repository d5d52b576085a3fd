"""One flow between its source and its target, as a pure step: no I/O, no clock.

       fetched bytes   release()     take()              acknowledge()
    accept() ---> held ------> queue ------> in flight -------------> open block of the map
       |           bounded by bytes        <= 5 batches                source_next, next_sequence
       +-- fetch_position

1. `accept` selects and prepares what a fetch brought, and moves the fetch position; `release`
   sets it free once it is sure that it came from the right topic (see `identity`).
2. `take` gives the next batch with its (producer id, epoch, sequence), while fewer than
   `UNACKED_BATCHES_MAX` are unacknowledged: the broker recognises a repeated write among the
   producer's last five batches of a partition, no further back.
3. `acknowledge` takes the target's base offset of the oldest batch in flight into the map.
4. On any error the replicator is thrown away and a new one is made from what `resume` proves.
   It never steps back and never retries by itself.

While `is_on_probation`, one batch is in flight at a time and the shell reads each acknowledged
batch back before it acknowledges it here. Why: a leader that has no state for our producer id
accepts any sequence, so the second batch must not race the first; and a batch of a dead worker
that landed before ours at the same sequence is answered as if it were ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from mirror_maker.copy.batch_splitting import Cutting
from mirror_maker.copy.mm2_offset_syncs import FlowSyncs
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.passthrough import CopyPath, PreparedBatch, select_batches, stamp
from mirror_maker.copy.receipts import FlowReceipts
from mirror_maker.formats import OffsetMap
from mirror_maker.model import UNACKED_BATCHES_MAX, advance_sequence
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges, Range
from mirror_maker.rules.record_rules import RecordRules

PROBATION_BATCHES = UNACKED_BATCHES_MAX
"""As many as a predecessor can have had in flight."""
TRIM_OFFSETS_MIN: Final = 10_000
"""The map is trimmed when the target's log start has moved by so much."""


@dataclass(slots=True)
class Outgoing:
    """A batch on its way, sealed."""

    prepared: PreparedBatch
    sequence: int
    sealed_ns: int = 0
    """When it was, where spans are wanted."""

    @property
    def data(self) -> memoryview:
        return self.prepared.data

    @property
    def size_bytes(self) -> int:
        return len(self.prepared.data)


@dataclass(frozen=True, slots=True)
class CopyTotals:
    """What was copied: records and bytes as acknowledged, batches as accepted, by path."""

    records: int = 0
    bytes: int = 0
    left_out: int = 0
    """Batches that were not to be copied: control, aborted, empty, born elsewhere, or with no
    record that the link's filter leaves."""
    batches: Mapping[CopyPath, int] = field(default_factory=lambda: dict.fromkeys(CopyPath, 0))

    def plus(self, other: CopyTotals) -> CopyTotals:
        return CopyTotals(
            self.records + other.records,
            self.bytes + other.bytes,
            self.left_out + other.left_out,
            {path: count + other.batches[path] for path, count in self.batches.items()},
        )


class PartitionReplicator:
    """The copying state of one flow from a proved starting point on."""

    def __init__(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        source_next: int,
        next_sequence: int,
        block: OpenBlock,
        offset_map: OffsetMap,
        syncs: FlowSyncs | None = None,
        foreign_ids: Set[int] = frozenset(),
        pending_bytes_max: int,
        coalesces: bool = True,
        last_epoch: int = -1,
        receipts: FlowReceipts | None = None,
        gaps: GapRanges = NO_GAPS,
        cutting: Cutting | None = None,
        rules: RecordRules | None = None,
        target_known_to: int = 0,
    ) -> None:
        """`offset_map` reaches to where `block` does; the replicator alone lets both grow.

        What lies on the target below `target_known_to` was looked at.
        `coalesces`: runs of tiny batches are made one batch each.
        """
        self.fetch_position = source_next
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.block = block
        self.offset_map = offset_map
        """The whole map of the flow, up to the last acknowledgement."""
        self.syncs = syncs
        """Where MirrorMaker 2's offset syncs are wanted."""
        self.pending_bytes = 0
        """Bytes fetched and not acknowledged."""
        self.last_epoch = last_epoch
        """Leader epoch of the source's last batch before the fetch position; -1 if unknown."""
        self._target_known_to = target_known_to
        self.others: list[Range] = []
        """Target offsets [from, to) of foreign records that the journal does not have yet."""
        self._trimmed_to = 0
        self._gaps = gaps
        self._cutting = cutting or Cutting()
        self._rules = rules
        self._records_acknowledged = 0
        self._bytes_acknowledged = 0
        self._left_out = 0
        self._batches_by_path: dict[CopyPath, int] = dict.fromkeys(CopyPath, 0)
        self.accepted = 0
        """How much was accepted so far: a mark for `release`."""
        self._foreign_ids = foreign_ids
        self._pending_bytes_max = pending_bytes_max
        self._coalesces = coalesces
        self.receipts = receipts
        """What the audit is to compare with the target's log."""
        self._next_sequence = next_sequence
        self._acked_sequence = next_sequence
        self._held: deque[tuple[int, PreparedBatch]] = deque()
        """Batches with their marks."""
        self._released_position = source_next
        """Everything before it came from the right topic."""
        self._held_positions: deque[tuple[int, int]] = deque()
        """(mark, fetch position after what was accepted up to it)"""
        self._queue: deque[PreparedBatch] = deque()
        self._in_flight: deque[Outgoing] = deque()
        self._proved = 0

    @property
    def totals(self) -> CopyTotals:
        return CopyTotals(
            self._records_acknowledged,
            self._bytes_acknowledged,
            self._left_out,
            dict(self._batches_by_path),
        )

    @property
    def wants_fetch(self) -> bool:
        """Whether there is room for more fetched bytes."""
        return self.pending_bytes < self._pending_bytes_max

    @property
    def is_on_probation(self) -> bool:
        return self._proved < PROBATION_BATCHES

    @property
    def can_take(self) -> bool:
        limit = 1 if self.is_on_probation else UNACKED_BATCHES_MAX
        return bool(self._queue) and len(self._in_flight) < limit

    @property
    def has_pending(self) -> bool:
        """Whether something accepted is not acknowledged yet."""
        return bool(self._held or self._queue or self._in_flight)

    @property
    def has_held(self) -> bool:
        """Whether something accepted waits for `release`."""
        return bool(self._held or self._held_positions)

    def is_oldest(self, outgoing: Outgoing) -> bool:
        """Whether this batch is the next one to be acknowledged."""
        return bool(self._in_flight) and self._in_flight[0] is outgoing

    @property
    def target_next(self) -> int:
        """The target offset of the next acknowledged batch, if nobody else writes there."""
        return max(self.block.target_next, self._target_known_to)

    @property
    def source_next(self) -> int:
        """Everything of the source before this offset is on the target or left out."""
        if self._in_flight:
            return self._in_flight[0].prepared.source_first
        if self._queue:
            return self._queue[0].source_first
        if self._held:
            return min(self._held[0][1].source_first, self._released_position)
        return self._released_position

    def accept(
        self,
        fetched: memoryview,
        aborted_transactions: Sequence[tuple[int, int]],
        fetched_ns: int = 0,
    ) -> bool:
        """Take in a fetch answer from `fetch_position`; whether anything was in it.

        Raises UncopyableBatchError; what precedes that batch was taken in, and must be written
        before the flow stops.
        """
        before = self.fetch_position
        selection = select_batches(
            fetched,
            before,
            aborted_transactions,
            self._foreign_ids,
            coalesces=self._coalesces and self._cutting.may_coalesce(before),
            gaps=self._gaps,
            rules=self._rules,
        )
        try:
            for batch in selection.batches:
                pieces = self._cutting.prepare(batch)
                self.fetch_position = batch.source_next
                if not pieces:
                    self._left_out += batch.batches_count
                for prepared in pieces:
                    prepared.fetched_ns = fetched_ns
                    self.accepted += 1
                    self._held.append((self.accepted, prepared))
                    self.pending_bytes += len(prepared.data)
                    self._batches_by_path[prepared.path] += prepared.batches_count
            self.fetch_position = selection.source_next
        finally:
            if self.fetch_position > before:
                self.accepted += 1
                self._held_positions.append((self.accepted, self.fetch_position))
        if selection.source_next > before:
            self.last_epoch = selection.leader_epoch
        self._left_out += selection.left_out_count
        if selection.refusal is not None:
            raise selection.refusal
        return self.fetch_position > before

    def trim(self, target_log_start: int) -> None:
        """The target's retention has moved on to this offset; so does the map, now and then."""
        if target_log_start >= self._trimmed_to + TRIM_OFFSETS_MIN:
            self._trimmed_to = target_log_start
            self.block.trim(target_log_start)
            self.offset_map.trim(target_log_start)

    def release(self, mark: int) -> None:
        """What was accepted up to a mark (a former `accepted`) may be written, and the map may say
        what of it was left out."""
        while self._held and self._held[0][0] <= mark:
            self._queue.append(self._held.popleft()[1])
        while self._held_positions and self._held_positions[0][0] <= mark:
            self._released_position = self._held_positions.popleft()[1]
        if not self.has_pending:
            self.block.advance(self._released_position)
            self.offset_map.advance(self._released_position)

    def take(self) -> Outgoing | None:
        """The next batch to write, or None while the window is full or nothing is queued."""
        if not self.can_take:
            return None
        prepared = self._queue.popleft()
        outgoing = Outgoing(prepared, self._next_sequence)
        stamp(prepared, self.producer_id, self.producer_epoch, self._next_sequence)
        self._next_sequence = advance_sequence(self._next_sequence, prepared.records_count)
        self._in_flight.append(outgoing)
        return outgoing

    def acknowledge(self, outgoing: Outgoing, base_offset: int) -> None:
        """The target has the batch, committed, at `base_offset`; it is the oldest in flight."""
        assert self._in_flight and self._in_flight[0] is outgoing, "acknowledged out of order"
        assert base_offset >= 0, base_offset
        self._in_flight.popleft()
        prepared = outgoing.prepared
        self._proved += 1
        self.pending_bytes -= len(prepared.data)
        self._records_acknowledged += prepared.records_count
        self._bytes_acknowledged += len(prepared.data)
        self._acked_sequence = advance_sequence(self._acked_sequence, prepared.records_count)
        runs = prepared.runs(base_offset)
        if self.receipts is not None:
            first, (last, count) = prepared.segments[0][0], prepared.segments[-1]
            self.receipts.acknowledged(first, last + count, base_offset, prepared.data)
        self.block.append(runs, self.source_next, self._acked_sequence)
        for run in runs:
            self.offset_map.append(run)
            if self.syncs is not None:
                self.syncs.append(run)
        self.offset_map.advance(self.source_next)
