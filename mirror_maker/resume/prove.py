"""The shell around `resume`: reads map, target and source until the starting point is proved.

Steps, in this order because each relies on the one before:

1. The map: the opening that holds, and the last block of its epoch.
2. The target, from the last mapped record to the high watermark: our own batches, in sequence.
3. The source, from the last mapped position: paired with those batches. Where the source lost
   records since they were copied the two are aligned instead (`lost_sources`).

Written are an opening where the flow has none, and journal entries about records that the source
lost. An opening is acknowledged and read back before the first batch goes out, so that wherever
there is a batch there is an opening to explain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.copy.batch_splitting import Cutting
from mirror_maker.copy.mm2_offset_syncs import FlowSyncs
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.passthrough import select_batches
from mirror_maker.copy.receipts import FlowReceipts
from mirror_maker.copy.replicator import Outgoing, PartitionReplicator
from mirror_maker.formats import Block, FlowKey, OffsetMap, Opening, Run, extend_map
from mirror_maker.formats.gaps import REPAIR_REASONS
from mirror_maker.formats.receipts import flow_id
from mirror_maker.model import FlowFailedError, PairingError, advance_sequence
from mirror_maker.ports import DataSink
from mirror_maker.resume.divergence import NEIGHBOURS_MAX, look_back
from mirror_maker.resume.foreign_records import settle_foreign
from mirror_maker.resume.fresh_copy_cleanup import delete_replaced
from mirror_maker.resume.gap_writer import is_same_topic
from mirror_maker.resume.generations import next_epoch, open_generation
from mirror_maker.resume.lost_source import (
    SOURCE_END_ATTEMPTS_MAX,
    SOURCE_END_WAIT_MS,
    align,
    fetch_committed,
    may_have_lost,
    note_source_losses,
)
from mirror_maker.resume.opening import find_opening
from mirror_maker.resume.pairing import Pairing, is_same_content
from mirror_maker.resume.tail_reader import TAIL_FETCH_BYTES_MAX, check_none_missing, read_tail
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.tail.alignment import Aligned, Piece
from mirror_maker.tail.target_tail import ResumeBase, TailReader, resume_base

PAIR_FETCH_BYTES_MIN: Final = 256 * 1024
"""Of the source, however short the tail: what it is paired with may be larger there."""


@dataclass(slots=True, kw_only=True)
class Proved:
    """A starting point that the logs prove."""

    flow: FlowKey
    opening: Opening
    block: OpenBlock
    source_next: int
    next_sequence: int
    high_watermark: int
    """Of the target, when its tail was read: what lies below is known."""
    paired_batches: int
    """Of the target's tail: written, but not mapped yet."""
    gaps: GapRanges
    """What of the source is not to be copied."""
    last_epoch: int
    """Leader epoch of the source's last batch before `source_next`; -1 where it is not known."""
    receipts: FlowReceipts
    """With the target's tail in it."""
    offset_map: OffsetMap
    """Up to where the last block of the map is; the caller's own."""


async def prove(context: LinkContext, source: TopicPartition, target: TopicPartition) -> Proved:
    """Find out where the flow stands. Raises KafkaError (try again) or FlowFailedError (stop)."""
    source_topic_id = context.directory.source_topic_id(source.topic)
    target_topic_id = context.directory.target_topic_id(target.topic)
    if source_topic_id is None or target_topic_id is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{source} -> {target}")
    flow = FlowKey(source.topic, source.partition, source_topic_id, target_topic_id)
    opening = await find_opening(context, flow, source, target)
    await context.gap_store.catch_up()
    replaced = replaced_from(context, opening)
    if replaced is not None:
        looked_to = None
        if not _is_ordered(context, opening):
            before = context.map_store.state.last_block(flow, opening.producer_epoch)
            base = resume_base(opening, before)
            former, looked_to = await read_tail(context, base, source, target)
            await settle_foreign(context, opening, target, former.others, replaced)
        await open_generation(context, flow, target, replaced, looked_to)
        opening = await find_opening(context, flow, source, target)
    await delete_replaced(context, opening, target)
    # Both at once: while the logs are read, another worker's blocks may come to be known.
    last = context.map_store.state.last_block(flow, opening.producer_epoch)
    offset_map = context.map_store.state.build_offset_map(flow)
    assert offset_map is not None, "the flow has an opening"
    base = resume_base(opening, last)
    try:
        tail, high_watermark, gaps, places = await read_logs(context, opening, last, source, target)
    except PairingError as error:
        # Another worker may have raised the epoch after the map was read here.
        await context.map_store.catch_up()
        if context.map_store.state.opening(flow) != opening:
            raise KafkaError(ErrorCode.invalid_producer_epoch, f"{target}: reopened") from error
        await _check_topic(context, flow)
        raise
    if places.holes or places.lost:
        await _check_topic(context, flow)
        context.check_lease()
        await note_source_losses(context, opening, target, places.holes, places.lost, tail.position)
        gaps = _gap_ranges(context, opening)
    block = OpenBlock(
        flow=flow,
        target_topic=target.topic,
        producer_id=base.producer_id,
        producer_epoch=base.producer_epoch,
        nonce=context.map_store.new_nonce(),
        source_start=base.source_next,
        target_start=base.target_next,
        next_sequence=base.next_sequence,
        predecessor=last,
        # The last block is where the next proof begins: it stays, whatever the target trims.
        older=[each for each in context.map_store.state.blocks(flow) if each != last],
    )
    if tail.length:
        _add_places(block, places.pieces, tail.next_sequence)
    source_next = gaps.behind(places.source_next)
    block.advance(source_next)
    await settle_foreign(context, opening, target, tail.others, source_next)
    receipts = FlowReceipts(
        flow_id(flow, base.producer_id),
        base.producer_epoch,
        tail.next_sequence,
    )
    receipts.paired(tail.spans, base.next_sequence, places.places())
    return Proved(
        flow=flow,
        opening=opening,
        block=block,
        source_next=source_next,
        next_sequence=tail.next_sequence,
        high_watermark=high_watermark,
        paired_batches=len(tail.batches),
        gaps=gaps,
        last_epoch=places.last_epoch,
        receipts=receipts,
        offset_map=offset_map,
    )


class ReadLogs(NamedTuple):
    """What both logs have behind the map."""

    tail: TailReader
    high_watermark: int
    """Of the target, up to which the tail was read."""
    gaps: GapRanges
    """What of the source is not to be copied."""
    places: Aligned
    """Of the tail."""


async def read_logs(
    context: LinkContext,
    opening: Opening,
    last: Block | None,
    source: TopicPartition,
    target: TopicPartition,
) -> ReadLogs:
    """Steps 2 and 3; nothing is written. `last` is the last block of the opening's epoch.

    Raises PairingError where the target contradicts map or source, TruncatedError where the source
    has other records than were copied, KafkaError to try again.
    """
    base = resume_base(opening, last)
    tail, high_watermark = await read_tail(context, base, source, target)
    # Read after the tail: an entry precedes every batch behind its gap.
    await context.gap_store.catch_up()
    gaps = _gap_ranges(context, opening)
    if tail.is_sequence_unknown:
        await check_none_missing(context, base, source, target, gaps)
    places = await _find_places(context, base, tail, source, gaps)
    if last is not None and last.runs and not tail.batches:
        epoch_there = await _look_back(context, opening.flow, target, last, gaps)
        if not tail.length:
            places = places._replace(last_epoch=epoch_there)
    return ReadLogs(tail, high_watermark, gaps, places)


async def _check_topic(context: LinkContext, flow: FlowKey) -> None:
    """The source was read by name: what does not fit may be of a topic that was re-created since.
    Raises KafkaError: prove again."""
    if not await is_same_topic(context, flow):
        raise KafkaError(ErrorCode.unknown_topic_id, f"{flow.source_topic} was re-created")


def _gap_ranges(context: LinkContext, opening: Opening) -> GapRanges:
    """What of the source the journal says is not copied."""
    return GapRanges(
        (gap.source_from, gap.source_to)
        for gap in context.gap_store.state.gaps(opening.flow, opening.producer_epoch)
        if gap.source_to is not None
    )


def _add_places(block: OpenBlock, pieces: Sequence[Piece], next_sequence: int) -> None:
    """Take the tail's places into the map; `next_sequence` is the one behind the tail."""
    sequences = [next_sequence]
    for piece in reversed(pieces):
        sequences.append(advance_sequence(sequences[-1], -piece.records_count))
    block.next_sequence = sequences.pop()  # what lies before the first piece is gone
    for piece, behind in zip(pieces, reversed(sequences), strict=True):
        if isinstance(piece, Run):
            block.append([piece], piece.source_next, behind)
        elif piece.runs:
            block.append(piece.runs, piece.source_to, behind)
        else:
            block.jump(piece.source_from, piece.source_to, piece.target_to, behind)


def _is_ordered(context: LinkContext, opening: Opening) -> bool:
    """Whether an operator has ordered the next generation, and so knows what lies before it."""
    gaps = context.gap_store.state.gaps(opening.flow, opening.producer_epoch)
    return any(gap.source_to is None and gap.reason in REPAIR_REASONS for gap in gaps)


def replaced_from(context: LinkContext, opening: Opening) -> int | None:
    """From where on the source is to be copied by another generation than the opening's: it has
    another log there, or an operator has ordered it. Of several places the first: whatever is
    deleted for one of them is copied again then."""
    gaps = context.gap_store.state.gaps(opening.flow, opening.producer_epoch)
    return min((gap.source_from for gap in gaps if gap.source_to is None), default=None)


async def _look_back(
    context: LinkContext, flow: FlowKey, target: TopicPartition, last: Block, gaps: GapRanges
) -> int:
    places = [
        (run.source_offset + n, run.target_offset + n)
        for run in last.runs[-NEIGHBOURS_MAX:]
        for n in range(max(0, run.records_count - NEIGHBOURS_MAX), run.records_count)
    ]
    position = gaps.behind(last.source_next)
    epoch = await look_back(context, flow, target, places[::-1], position)
    return epoch if position == last.source_next else -1


def start_replicator(
    context: LinkContext, proved: Proved, source: TopicPartition, cutting: Cutting
) -> PartitionReplicator:
    """A replicator that goes on from there; `cutting` is what is known of the target's limits."""
    for block in proved.block.unwritten():
        extend_map(proved.offset_map, block)
    return PartitionReplicator(
        producer_id=proved.opening.producer_id,
        producer_epoch=proved.opening.producer_epoch,
        source_next=proved.source_next,
        next_sequence=proved.next_sequence,
        block=proved.block,
        offset_map=proved.offset_map,
        syncs=FlowSyncs(source) if context.settings.mm2_topics != "off" else None,
        foreign_ids=context.foreign_ids,
        pending_bytes_max=context.limits.partition_pending_bytes_max,
        coalesces=context.settings.coalesce_batches,
        last_epoch=proved.last_epoch,
        gaps=proved.gaps,
        receipts=proved.receipts,
        cutting=cutting,
        rules=context.rules_of(source.topic),
        target_known_to=proved.high_watermark,
    )


async def raise_epoch(
    context: LinkContext, source: TopicPartition, target: TopicPartition, refused_epoch: int
) -> None:
    """Open the flow at the next producer epoch, sequence 0, once the log has come to rest.

    Only for the case that the target refuses (producer id, epoch) itself. The first batch of a new
    epoch is no conditional append, so it must be sure that no batch of the old epoch is on its
    way: nothing of ours may have arrived for `epoch_quiet_ms`. A write of the old epoch that
    arrives later still is found by the next resume (its epoch gives it away) and stops the flow.
    Raises KafkaError, FlowFailedError.
    """
    first = await prove(context, source, target)
    if first.opening.producer_epoch > refused_epoch:
        return  # another worker has raised it
    epoch = next_epoch(refused_epoch)
    await context.clock.sleep(context.limits.epoch_quiet_ms)
    if not context.lease.is_valid():
        return
    second = await prove(context, source, target)
    if (second.opening, second.next_sequence) != (first.opening, first.next_sequence):
        return
    await context.audit_topics.write_receipts(second.receipts.take())
    blocks, keys = second.block.take_records()
    opening = Opening(
        flow=second.flow,
        producer_id=second.opening.producer_id,
        producer_epoch=epoch,
        nonce=context.map_store.new_nonce(),
        target_topic=target.topic,
        source_offset=second.source_next,
        target_offset=second.high_watermark,
        opened_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
    )
    await context.map_store.append([*blocks, opening], keys)


async def check_written(
    sink: DataSink,
    leader: int | None,
    target: TopicPartition,
    outgoing: Outgoing,
    base_offset: int,
) -> None:
    """See that the target has just this batch at the offset that it acknowledged.

    Raises FlowFailedError where it has another one, KafkaError where it cannot be asked.
    """
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(target))
    found = (
        await sink.fetch(
            leader,
            {target: FetchPosition(base_offset)},
            wait_ms_max=0,
            partition_bytes_max=outgoing.size_bytes,
        )
    )[target]
    if found.error:
        raise KafkaError(found.error, str(target))
    first = next(iter_headers(found.records), None)
    if first is None:
        raise KafkaError(ErrorCode.offset_not_available, str(target))
    batch = found.records[: first[1].size_bytes]
    if first[1].base_offset != base_offset or not is_same_content(outgoing.data, batch):
        raise FlowFailedError(
            f"target offset {base_offset} was acknowledged for source offset "
            f"{outgoing.prepared.source_first}, but holds other records"
        )


async def _find_places(
    context: LinkContext,
    base: ResumeBase,
    tail: TailReader,
    source: TopicPartition,
    gaps: GapRanges,
) -> Aligned:
    """The tail's places in the source, also where it lost records since they were copied."""
    # What the target no longer has would pair with any record, also with another one's.
    is_blind = not tail.is_whole
    try:
        position = gaps.behind(base.source_next)
        if not is_blind or not await may_have_lost(context, source, position):
            return await _pair(context, base, tail, source, gaps)
    except PairingError:
        if not await may_have_lost(context, source, base.source_next):
            raise
    return await align(context, base, tail, source, gaps)


async def _pair(
    context: LinkContext,
    base: ResumeBase,
    tail: TailReader,
    source: TopicPartition,
    gaps: GapRanges,
) -> Aligned:
    position = gaps.behind(base.source_next)
    pairing = Pairing(base, tail)
    # What is fetched beyond the tail is thrown away, and counts for a quota.
    tail_bytes = sum(each.header.size_bytes for each in tail.batches)
    bytes_max = min(TAIL_FETCH_BYTES_MAX, max(PAIR_FETCH_BYTES_MIN, tail_bytes))
    leader_epoch = -1
    attempts = 0
    while not pairing.is_done:
        fetched = await fetch_committed(context, source, position, bytes_max)
        if fetched.error == ErrorCode.offset_out_of_range:
            raise PairingError(
                f"source offset {position} is gone, but the target has unmapped copies from there"
            )
        if fetched.error:
            raise KafkaError(fetched.error, str(source))
        if context.origins is not None:
            await context.origins.learn([fetched.records])
        selection = select_batches(
            fetched.records,
            position,
            fetched.aborted_transactions,
            context.foreign_ids,
            gaps=gaps,
            rules=context.rules_of(source.topic),
        )
        for batch in selection.batches:
            if not pairing.is_done:
                pairing.feed(batch)
        pairing.advance(selection.source_next)
        is_whole = pairing.source_next == selection.source_next
        leader_epoch = selection.leader_epoch if is_whole else -1
        if selection.refusal is not None and not pairing.is_done:
            raise selection.refusal
        if selection.source_next == position and not pairing.is_done:
            attempts += 1
            if attempts >= SOURCE_END_ATTEMPTS_MAX:
                raise PairingError(
                    f"the target has copies of source records from offset {position} on, where "
                    "the source ends"
                )
            await context.clock.sleep(SOURCE_END_WAIT_MS)
        position = selection.source_next
    return Aligned(tuple(pairing.pieces), pairing.source_next, last_epoch=leader_epoch)
