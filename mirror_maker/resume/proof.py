"""The proof of where a flow continues: map, target and source, read in this order. Shell.

The package docstring has the argument why the result is right. Each step relies on the one before:

1. The map: the opening, and the last block of its epoch (`opening`).
2. The target, from the last mapped record to the high watermark: the tail (`tail_reader`).
3. The source, from the last mapped offset: the places of the tail's copies (`tail_places`).

A proof writes an opening if the flow has none, and journal entries about records that the source
lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.receipts import FlowReceipts
from mirror_maker.formats import Block, FlowKey, OffsetMap, Opening, Run
from mirror_maker.formats.receipts import flow_id
from mirror_maker.model import PairingError, advance_sequence
from mirror_maker.ports import Lease, check_lease
from mirror_maker.resume.foreign_records import settle_foreign
from mirror_maker.resume.journal_entries import lost_ranges, note_source_losses
from mirror_maker.resume.log_comparison import ComparedLogs, LogComparison
from mirror_maker.resume.opening import FlowOpener
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.map_store import MapStore
from mirror_maker.tail.places import Piece
from mirror_maker.tail.target_tail import ResumeBase, resume_base


@dataclass(slots=True, kw_only=True)
class Proof:
    """A starting point that the logs prove."""

    flow: FlowKey
    opening: Opening
    block: OpenBlock
    source_next: int
    next_sequence: int
    high_watermark: int
    """High watermark of the target when the tail was read: everything below it is known."""
    paired_batches: int
    """Batches of the tail: written, but not mapped yet."""
    gaps: GapRanges
    """Source offsets that are not copied."""
    last_epoch: int
    """Leader epoch of the source's last batch before `source_next`; -1 if unknown."""
    receipts: FlowReceipts
    """With the tail in it."""
    offset_map: OffsetMap
    """Up to the last block of the map; the caller owns it."""


class Prover:
    """Proves where one flow continues."""

    def __init__(
        self,
        source: SourceLog,
        target: TargetLog,
        settings: LinkSettings,
        *,
        directory: Directory,
        map_store: MapStore,
        journal: GapStore,
        opener: FlowOpener,
        logs: LogComparison,
        lease: Lease,
    ) -> None:
        self._source = source
        self._target = target
        self._settings = settings
        self._directory = directory
        self._map_store = map_store
        self._journal = journal
        self._opener = opener
        self._logs = logs
        self._lease = lease

    async def prove(self) -> Proof:
        """Find out where the flow stands. Raises KafkaError (try again), FlowFailedError (stop)."""
        flow = self._flow_key()
        opening = await self._opener.find(flow)
        # Both at once: while the logs are read, other workers' blocks may arrive.
        last = self._map_store.state.last_block(flow, opening.producer_epoch)
        offset_map = self._map_store.state.build_offset_map(flow)
        assert offset_map is not None, "the flow has an opening"
        logs = await self._compare(flow, opening, last)
        gaps, tail, places = logs.gaps, logs.tail, logs.places
        if places.holes or places.lost:
            await self._note_losses(flow, opening, logs)
            gaps = lost_ranges(self._journal, opening)
        base = resume_base(opening, last)
        block = self._open_block(flow, base, last)
        if tail.length:
            _add_pieces(block, places.pieces, tail.next_sequence)
        source_next = gaps.first_outside(places.source_next)
        block.advance(source_next)
        await settle_foreign(self._journal, self._settings, opening, tail.foreign, source_next)
        receipts = FlowReceipts(
            flow_id(flow, base.producer_id), base.producer_epoch, tail.next_sequence
        )
        receipts.paired(tail.spans, base.next_sequence, places.places())
        return Proof(
            flow=flow,
            opening=opening,
            block=block,
            source_next=source_next,
            next_sequence=tail.next_sequence,
            high_watermark=logs.high_watermark,
            paired_batches=len(tail.batches),
            gaps=gaps,
            last_epoch=places.last_epoch,
            receipts=receipts,
            offset_map=offset_map,
        )

    def _flow_key(self) -> FlowKey:
        source, target = self._source.at, self._target.at
        source_topic_id = self._directory.source_topic_id(source.topic)
        target_topic_id = self._directory.target_topic_id(target.topic)
        if source_topic_id is None or target_topic_id is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{source} -> {target}")
        return FlowKey(source.topic, source.partition, source_topic_id, target_topic_id)

    async def _compare(self, flow: FlowKey, opening: Opening, last: Block | None) -> ComparedLogs:
        try:
            return await self._logs.compare(opening, last)
        except PairingError as error:
            # Another worker may have raised the epoch after the map was read here.
            await self._map_store.catch_up()
            if self._map_store.state.opening(flow) != opening:
                raise KafkaError(
                    ErrorCode.invalid_producer_epoch, f"{self._target.at}: opened again"
                ) from error
            await self._check_topic(flow)
            raise

    async def _note_losses(self, flow: FlowKey, opening: Opening, logs: ComparedLogs) -> None:
        await self._check_topic(flow)
        check_lease(self._lease)
        await note_source_losses(
            self._journal,
            opening,
            logs.places.holes,
            logs.places.lost,
            logs.tail.position,
            self._settings.for_topic(flow.source_topic).on.of(Trouble.OUT_OF_RANGE),
        )

    async def _check_topic(self, flow: FlowKey) -> None:
        """Check the source's topic id. Raises KafkaError: prove again.

        The source was read by name: what does not fit may belong to a topic that was re-created.
        """
        if not await self._source.has_topic_id(flow.source_topic_id):
            raise KafkaError(ErrorCode.unknown_topic_id, f"{flow.source_topic} was re-created")

    def _open_block(self, flow: FlowKey, base: ResumeBase, last: Block | None) -> OpenBlock:
        return OpenBlock(
            flow=flow,
            target_topic=self._target.at.topic,
            producer_id=base.producer_id,
            producer_epoch=base.producer_epoch,
            nonce=self._map_store.new_nonce(),
            source_start=base.source_next,
            target_start=base.target_next,
            next_sequence=base.next_sequence,
            predecessor=last,
            # The last block is where the next proof begins: it stays, whatever the target trims.
            older=[each for each in self._map_store.state.blocks(flow) if each != last],
        )


def _add_pieces(block: OpenBlock, pieces: Sequence[Piece], next_sequence: int) -> None:
    """Add the tail's pieces to the map; `next_sequence` follows the tail."""
    sequences = [next_sequence]
    for piece in reversed(pieces):
        sequences.append(advance_sequence(sequences[-1], -piece.records_count))
    block.next_sequence = sequences.pop()  # the copies before the first piece are gone
    for piece, following in zip(pieces, reversed(sequences), strict=True):
        if isinstance(piece, Run):
            block.append([piece], piece.source_next, following)
        elif piece.runs:
            block.append(piece.runs, piece.source_to, following)
        else:
            block.jump(piece.source_from, piece.source_to, piece.target_to, following)
