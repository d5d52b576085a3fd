"""The shell around `resume`: reads map, target and source until the starting point is proved.

Steps, in this order because each relies on the one before:

1. The map: the opening that holds, and the last block of its epoch.
2. The target, from the last mapped record to the high watermark: our own batches, in sequence.
3. The source, from the last mapped position: paired with those batches.

Nothing is written but an opening where the flow has none; it is acknowledged and read back before
the first batch goes out, so that wherever there is a batch there is an opening to explain it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from random import Random
from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError

from .cutting import Cutting
from .directory import Directory
from .formats import Block, FlowKey, Opening, extend_map
from .gap_ranges import GapRanges
from .gap_store import GapStore
from .map_store import MapStore
from .model import FlowFailedError, PairingError
from .offset_map import OpenBlock
from .offset_syncs import FlowSyncs
from .origins import Origins
from .passthrough import select_batches
from .ports import Clock, DataSink, DataSource, Lease, LogReader
from .replicator import Outgoing, PartitionReplicator
from .resume import Pairing, ResumeBase, TailReader, is_same_content
from .settings import Limits, LinkSettings
from .trouble import Trouble

TAIL_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
SOURCE_END_ATTEMPTS_MAX: Final = 40
SOURCE_END_WAIT_MS: Final = 250
"""Together 10 s: how long a source leader may take to show what the mirror has read before."""
READ_COMMITTED: Final = 1
PRODUCER_EPOCH_MAX: Final = 0x7FFF
_LATEST: Final = -1
_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkContext:
    """What the parts of a link share."""

    settings: LinkSettings
    limits: Limits
    worker_id: str
    source: DataSource
    """For questions; the long polls have a connection of their own."""
    sink: DataSink
    """For questions and map writes; produced data has a connection of its own."""
    directory: Directory
    map_store: MapStore
    gap_store: GapStore
    origins: Origins | None = None
    """Where only what was born at the source is copied."""
    lease: Lease
    clock: Clock
    random: Random


@dataclass(slots=True, kw_only=True)
class Proved:
    """A starting point that the logs prove."""

    flow: FlowKey
    opening: Opening
    block: OpenBlock
    source_next: int
    next_sequence: int
    high_watermark: int
    """Of the target, when its tail was read."""
    paired_batches: int
    """Of the target's tail: written, but not mapped yet."""
    gaps: GapRanges
    """What of the source is not to be copied."""


async def prove(context: LinkContext, source: TopicPartition, target: TopicPartition) -> Proved:
    """Find out where the flow stands. Raises KafkaError (try again) or FlowFailedError (stop)."""
    source_topic_id = context.directory.source_topic_id(source.topic)
    target_topic_id = context.directory.target_topic_id(target.topic)
    if source_topic_id is None or target_topic_id is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{source} -> {target}")
    flow = FlowKey(source.topic, source.partition, source_topic_id, target_topic_id)
    opening = await _find_opening(context, flow, source, target)
    last = context.map_store.state.last_block(flow, opening.producer_epoch)
    base = _base(opening, last)
    try:
        tail, high_watermark = await _read_tail(context, base, target)
        # Read after the tail: an entry precedes every batch behind its gap.
        await context.gap_store.catch_up()
        gaps = GapRanges(
            (gap.source_from, gap.source_to)
            for gap in context.gap_store.state.gaps(flow)
            if gap.source_to is not None
        )
        pairing = await _pair(context, base, tail, source, gaps)
    except PairingError as error:
        # Another worker may have raised the epoch after the map was read here.
        await context.map_store.catch_up()
        if context.map_store.state.opening(flow) != opening:
            raise KafkaError(ErrorCode.invalid_producer_epoch, f"{target}: reopened") from error
        raise
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
    )
    if tail.batches:
        block.append(pairing.runs, pairing.source_next, pairing.next_sequence)
    source_next = gaps.behind(pairing.source_next)
    block.advance(source_next)
    return Proved(
        flow=flow,
        opening=opening,
        block=block,
        source_next=source_next,
        next_sequence=pairing.next_sequence,
        high_watermark=high_watermark,
        paired_batches=len(tail.batches),
        gaps=gaps,
    )


def start_replicator(
    context: LinkContext, proved: Proved, source: TopicPartition, cutting: Cutting
) -> PartitionReplicator:
    """A replicator that goes on from there; `cutting` is what is known of the target's limits."""
    offset_map = context.map_store.state.build_offset_map(proved.flow)
    assert offset_map is not None, "a proved flow has an opening"
    extend_map(offset_map, proved.block.block())
    return PartitionReplicator(
        producer_id=proved.opening.producer_id,
        producer_epoch=proved.opening.producer_epoch,
        source_next=proved.source_next,
        next_sequence=proved.next_sequence,
        block=proved.block,
        offset_map=offset_map,
        syncs=FlowSyncs(source) if context.settings.mm2_topics != "off" else None,
        foreign_ids=_foreign_ids(context),
        pending_bytes_max=context.limits.partition_pending_bytes_max,
        coalesces=context.settings.coalesce_batches,
        gaps=proved.gaps,
        cutting=cutting,
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
    await context.clock.sleep(context.limits.epoch_quiet_ms)
    if not context.lease.is_valid():
        return
    second = await prove(context, source, target)
    if (second.opening, second.next_sequence) != (first.opening, first.next_sequence):
        return
    if refused_epoch >= PRODUCER_EPOCH_MAX:
        raise FlowFailedError("the producer id has no epochs left")
    blocks, keys = second.block.take_records()
    opening = Opening(
        flow=second.flow,
        producer_id=second.opening.producer_id,
        producer_epoch=refused_epoch + 1,
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


def _base(opening: Opening, last: Block | None) -> ResumeBase:
    if last is None:
        return ResumeBase(
            opening.producer_id,
            opening.producer_epoch,
            opening.source_offset,
            opening.target_offset,
            0,
            has_records=False,
        )
    return ResumeBase(
        last.producer_id,
        last.producer_epoch,
        last.source_next,
        last.target_next,
        last.next_sequence,
        # A block without runs says nothing of the target; one that begins behind records of its
        # epoch (a closed block before it) ends right behind such a record.
        has_records=bool(last.runs) or last.target_start > opening.target_offset,
    )


async def _find_opening(
    context: LinkContext, flow: FlowKey, source: TopicPartition, target: TopicPartition
) -> Opening:
    state = context.map_store.state
    if state.opening(flow) is None:
        # The target's end is asked for before the map is read: an opening precedes every batch,
        # so records that are there now and have no opening by then are not the mirror's.
        first, end = await read_bounds(context.sink, target)
        await context.map_store.catch_up()
        if state.opening(flow) is None:
            await _open(context, flow, source, target, first, end)
    else:
        await context.map_store.catch_up()
    opening = state.opening(flow)
    if opening is None:
        raise FlowFailedError(f"{context.map_store.topic} does not keep what is written to it")
    if opening.producer_id != context.map_store.registration.producer_id:
        raise FlowFailedError(
            f"opened with producer id {opening.producer_id}, the link is registered with "
            f"{context.map_store.registration.producer_id}"
        )
    return opening


async def _open(
    context: LinkContext,
    flow: FlowKey,
    source: TopicPartition,
    target: TopicPartition,
    target_start: int,
    target_end: int,
) -> None:
    known = context.map_store.state.latest_flow(
        flow.source_topic, flow.partition, flow.target_topic_id
    )
    if known is not None:
        raise FlowFailedError(
            f"source topic {flow.source_topic} was deleted and made anew (topic id "
            f"{known.source_topic_id}, now {flow.source_topic_id}); its copy {target.topic} is "
            "of the old one",
            Trouble.RECREATED,
        )
    moved = context.map_store.state.latest_flow(flow.source_topic, flow.partition)
    if moved is not None:
        before = context.map_store.state.target_topic(moved)
        if before is not None and before != target.topic:
            raise FlowFailedError(
                f"reconfigured: {flow.source_topic} has been copied into {before}, and would now "
                f"be copied into {target.topic}; a link of another name starts anew"
            )
    is_alone = not context.settings.names.is_shared(source.topic)
    if is_alone and target_end > target_start and context.settings.on_unmapped_target == "fail":
        raise FlowFailedError(
            f"{target} has records {target_start}..{target_end - 1} that no offset map explains"
        )
    listed = (await context.source.list_offsets({source: _EARLIEST}))[source]
    if listed.error:
        raise KafkaError(listed.error, str(source))
    registration = context.map_store.registration
    opening = Opening(
        flow=flow,
        producer_id=registration.producer_id,
        producer_epoch=registration.producer_epoch,
        nonce=context.map_store.new_nonce(),
        target_topic=target.topic,
        source_offset=listed.offset,
        target_offset=target_end,
        opened_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
    )
    await context.map_store.append([opening])
    await context.map_store.catch_up()


def _foreign_ids(context: LinkContext) -> Set[int]:
    return frozenset() if context.origins is None else context.origins.foreign_ids


async def read_bounds(reader: LogReader, at: TopicPartition) -> tuple[int, int]:
    """(log start offset, high watermark). Raises KafkaError."""
    bounds = []
    for timestamp in (_EARLIEST, _LATEST):
        listed = (await reader.list_offsets({at: timestamp}))[at]
        if listed.error:
            raise KafkaError(listed.error, str(at))
        bounds.append(listed.offset)
    return bounds[0], bounds[1]


async def _read_tail(
    context: LinkContext, base: ResumeBase, target: TopicPartition
) -> tuple[TailReader, int]:
    log_start_offset, high_watermark = await read_bounds(context.sink, target)
    tail = TailReader(base, log_start_offset)
    tail.check_end(high_watermark)
    while tail.position < high_watermark:
        leader = context.directory.target_leader(target)
        if leader is None:
            raise KafkaError(ErrorCode.leader_not_available, str(target))
        before = tail.position
        fetched = (
            await context.sink.fetch(
                leader,
                {target: FetchPosition(before)},
                wait_ms_max=0,
                partition_bytes_max=TAIL_FETCH_BYTES_MAX,
            )
        )[target]
        if fetched.error:
            raise KafkaError(fetched.error, str(target))
        tail.feed(fetched.records)
        if tail.position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target}: nothing at {before}")
    return tail, high_watermark


async def _pair(
    context: LinkContext,
    base: ResumeBase,
    tail: TailReader,
    source: TopicPartition,
    gaps: GapRanges,
) -> Pairing:
    pairing = Pairing(base, tail)
    position = gaps.behind(base.source_next)
    attempts = 0
    while not pairing.is_done:
        leader = context.directory.source_leader(source)
        if leader is None:
            raise KafkaError(ErrorCode.leader_not_available, str(source))
        fetched = (
            await context.source.fetch(
                leader,
                {source: FetchPosition(position)},
                wait_ms_max=0,
                partition_bytes_max=TAIL_FETCH_BYTES_MAX,
                isolation_level=READ_COMMITTED,
            )
        )[source]
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
            _foreign_ids(context),
            gaps=gaps,
        )
        for batch in selection.batches:
            if not pairing.is_done:
                pairing.feed(batch)
        pairing.advance(selection.source_next)
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
    return pairing
