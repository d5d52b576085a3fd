"""The copying state of one flow, between fetch and acknowledgement. Pure: no I/O, no clock.

       fetched bytes   release()     take()              acknowledge()
    accept() ---> held ------> queue ------> in flight -------------> open block of the map
       |           bounded by bytes        <= 5 batches                source_next, next_sequence
       +-- fetch_position

1. `accept` selects and prepares the batches of a fetch response, and moves the fetch position.
   `release` queues them once their topic id is confirmed (see `topic_confirmer`).
2. `take` returns the next batch with its (producer id, epoch, sequence), while fewer than
   `UNACKED_BATCHES_MAX` are unacknowledged: the broker recognizes a repeated write among the
   producer's last five batches of a partition, not further back.
3. `acknowledge` adds the oldest batch in flight to the map, at the target's base offset.
4. After any error the replicator is discarded, and a new proof (`resume`) gives the starting point
   of the next one. A replicator never steps back and never retries.

*Probation*: the first batches after a proof go one at a time, and each is read back before it is
acknowledged here. Two reasons:

- A leader without state for our producer id accepts any sequence, so the second batch must not
  overtake the first.
- If a batch of a dead worker landed earlier at the same sequence, the broker answers ours as a
  repetition, even if its records differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from mirror_maker.copy.batch_selection import CopyPath, select_batches
from mirror_maker.copy.batch_splitting import BatchSplitter
from mirror_maker.copy.mm2_offset_syncs import FlowSyncs
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.passthrough import PreparedBatch, stamp
from mirror_maker.copy.receipts import FlowReceipts
from mirror_maker.formats import OffsetMap
from mirror_maker.model import UNACKED_BATCHES_MAX, advance_sequence
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges, Range
from mirror_maker.rules.record_rules import RecordRules

PROBATION_BATCHES = UNACKED_BATCHES_MAX
"""A predecessor can have had as many in flight."""
TRIM_OFFSETS_MIN: Final = 10_000
"""The map is trimmed when the target's log start has moved by as many offsets."""


@dataclass(slots=True)
class Outgoing:
    """A sealed batch in flight."""

    prepared: PreparedBatch
    sequence: int
    sealed_ns: int = 0
    """Time of the seal, if spans are wanted."""

    @property
    def data(self) -> memoryview:
        return self.prepared.data

    @property
    def size_bytes(self) -> int:
        return len(self.prepared.data)


@dataclass(frozen=True, slots=True)
class CopyTotals:
    """What was copied: acknowledged records and bytes, accepted batches by path."""

    records: int = 0
    bytes: int = 0
    left_out: int = 0
    """Batches not copied: control, aborted, empty, born elsewhere, or filtered out whole."""
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
        splitter: BatchSplitter | None = None,
        rules: RecordRules | None = None,
        target_known_to: int = 0,
    ) -> None:
        """`offset_map` and `block` end at the same offset; only the replicator extends them.

        The target was read up to `target_known_to`. `coalesces`: make one batch of each run of tiny
        ones.
        """
        self.fetch_position = source_next
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.block = block
        self.offset_map = offset_map
        """The whole map of the flow, up to the last acknowledgement."""
        self.syncs = syncs
        """Set if MirrorMaker 2's offset syncs are wanted."""
        self.pending_bytes = 0
        """Bytes fetched and not acknowledged."""
        self.last_epoch = last_epoch
        """Leader epoch of the source's last batch before the fetch position; -1 if unknown."""
        self._target_known_to = target_known_to
        self.foreign: list[Range] = []
        """Target offsets [from, to) of foreign records that are not in the journal yet."""
        self._trimmed_to = 0
        self._gaps = gaps
        self._splitter = splitter or BatchSplitter()
        self._rules = rules
        self._records_acknowledged = 0
        self._bytes_acknowledged = 0
        self._left_out = 0
        self._batches_by_path: dict[CopyPath, int] = dict.fromkeys(CopyPath, 0)
        self.accepted = 0
        """A counter of what was accepted; its value is a mark for `release`."""
        self._foreign_ids = foreign_ids
        self._pending_bytes_max = pending_bytes_max
        self._coalesces = coalesces
        self.receipts = receipts
        """Receipts for the audit, if it is on."""
        self._next_sequence = next_sequence
        self._acked_sequence = next_sequence
        self._held: deque[tuple[int, PreparedBatch]] = deque()
        """Batches with their marks."""
        self._released_position = source_next
        """Everything before it came from the right topic id."""
        self._held_positions: deque[tuple[int, int]] = deque()
        """(mark, fetch position at that mark)"""
        self._queue: deque[PreparedBatch] = deque()
        self._in_flight: deque[Outgoing] = deque()
        self._acknowledged_batches = 0

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
        return self._acknowledged_batches < PROBATION_BATCHES

    @property
    def can_take(self) -> bool:
        limit = 1 if self.is_on_probation else UNACKED_BATCHES_MAX
        return bool(self._queue) and len(self._in_flight) < limit

    @property
    def has_pending(self) -> bool:
        """Whether anything accepted is not acknowledged yet."""
        return bool(self._held or self._queue or self._in_flight)

    @property
    def has_held(self) -> bool:
        """Whether anything accepted waits for `release`."""
        return bool(self._held or self._held_positions)

    def is_oldest(self, outgoing: Outgoing) -> bool:
        """Return whether this batch is the next one to be acknowledged."""
        return bool(self._in_flight) and self._in_flight[0] is outgoing

    @property
    def target_next(self) -> int:
        """The target offset of the next acknowledged batch, if nobody else writes there."""
        return max(self.block.target_next, self._target_known_to)

    @property
    def source_next(self) -> int:
        """Every source record before this offset is on the target or left out."""
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
        """Accept a fetch response from `fetch_position`; return whether the position moved.

        Raises UncopyableBatchError. The batches before that one are accepted, and must be written
        before the flow stops.
        """
        before = self.fetch_position
        selection = select_batches(
            fetched,
            before,
            aborted_transactions,
            self._foreign_ids,
            coalesces=self._coalesces and self._splitter.may_coalesce(before),
            gaps=self._gaps,
            rules=self._rules,
        )
        try:
            for batch in selection.batches:
                pieces = self._splitter.prepare(batch)
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
        """Trim the map once the target's log start has moved far enough."""
        if target_log_start >= self._trimmed_to + TRIM_OFFSETS_MIN:
            self._trimmed_to = target_log_start
            self.block.trim(target_log_start)
            self.offset_map.trim(target_log_start)

    def release(self, mark: int) -> None:
        """Queue what was accepted up to a mark, an earlier value of `accepted`.

        If nothing is pending then, the map advances over what was left out.
        """
        while self._held and self._held[0][0] <= mark:
            self._queue.append(self._held.popleft()[1])
        while self._held_positions and self._held_positions[0][0] <= mark:
            self._released_position = self._held_positions.popleft()[1]
        if not self.has_pending:
            self.block.advance(self._released_position)
            self.offset_map.advance(self._released_position)

    def take(self) -> Outgoing | None:
        """Return the next batch to write, or None if the window is full or the queue empty."""
        if not self.can_take:
            return None
        prepared = self._queue.popleft()
        outgoing = Outgoing(prepared, self._next_sequence)
        stamp(prepared, self.producer_id, self.producer_epoch, self._next_sequence)
        self._next_sequence = advance_sequence(self._next_sequence, prepared.records_count)
        self._in_flight.append(outgoing)
        return outgoing

    def acknowledge(self, outgoing: Outgoing, base_offset: int) -> None:
        """Add the oldest batch in flight to the map: the target committed it at `base_offset`."""
        assert self._in_flight and self._in_flight[0] is outgoing, "acknowledged out of order"
        assert base_offset >= 0, base_offset
        self._in_flight.popleft()
        prepared = outgoing.prepared
        self._acknowledged_batches += 1
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
