"""The opening of a flow: found in the map, or written and read back. Shell.

It says from which source offset on, to which target offset on, the flow is copied, with which
producer id and epoch. It precedes every batch.
"""

from __future__ import annotations

from local_cluster.client.model import TopicPartition
from mirror_maker.context import LinkContext
from mirror_maker.formats import FlowKey, Opening
from mirror_maker.model import FlowFailedError
from mirror_maker.resume.foreign_records import settle_foreign
from mirror_maker.resume.generations import open_generation, replaced_log
from mirror_maker.resume.lost_source import note_copied
from mirror_maker.resume.start_lookup import find_start
from mirror_maker.resume.tail_reader import read_tail
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.rules.start_position import StartKind, parse_start
from mirror_maker.rules.trouble import Trouble
from mirror_maker.tail.alignment import Hole
from mirror_maker.tail.target_tail import TailReader, resume_base


async def find_opening(
    context: LinkContext, flow: FlowKey, source: TopicPartition, target: TopicPartition
) -> Opening:
    state = context.map_store.state
    if state.opening(flow) is None:
        # The target's end is asked for before the map is read: an opening precedes every batch,
        # so records that are there now and have no opening by then are not the mirror's.
        first, end = await context.sink_logs.bounds(target)
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
        await _open_recreated(context, known, flow, target)
        return
    moved = context.map_store.state.latest_flow(flow.source_topic, flow.partition)
    if moved is not None:
        before = context.map_store.state.target_topic(moved)
        if before is not None and before != target.topic:
            raise FlowFailedError(
                f"reconfigured: {flow.source_topic} has been copied into {before}, and would now "
                f"be copied into {target.topic}; a link of another name starts anew"
            )
    # Where copies are taken over they must be the source's, or the take-over fails.
    settings = context.settings.for_topic(source.topic)
    is_alone = not settings.names.is_shared(source.topic) and (
        parse_start(settings.start).kind is not StartKind.MM2
    )
    if is_alone and target_end > target_start and settings.on_unmapped_target == "fail":
        raise FlowFailedError(
            f"{target} has records {target_start}..{target_end - 1} that no offset map explains"
        )
    start = await find_start(context, source, target)
    registration = context.map_store.registration
    opening = Opening(
        flow=flow,
        producer_id=registration.producer_id,
        producer_epoch=registration.producer_epoch,
        nonce=0,  # given when it is written
        target_topic=target.topic,
        source_offset=start.source_offset,
        target_offset=target_end,
        opened_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
        has_older_copies=start.has_older_copies,
    )
    await context.map_store.append_opening(opening)
    await context.map_store.catch_up()


async def _open_recreated(
    context: LinkContext, known: FlowKey, flow: FlowKey, target: TopicPartition
) -> None:
    """Go on with a topic that was made anew, if the link's policy says so."""
    detail = (
        f"source topic {flow.source_topic} was deleted and made anew (topic id "
        f"{known.source_topic_id}, now {flow.source_topic_id}); its copy {target.topic} is "
        "of the old one"
    )
    if context.settings.for_topic(flow.source_topic).on.of(Trouble.RECREATED) != "skip":
        raise FlowFailedError(detail, Trouble.RECREATED)
    state = context.map_store.state
    opening, offset_map = state.opening(known), state.offset_map(known)
    assert opening is not None, "a known flow has an opening"
    assert offset_map is not None, "a known flow has a map"
    source = TopicPartition(flow.source_topic, flow.partition)
    last = state.last_block(known, opening.producer_epoch)
    base = resume_base(opening, last)
    tail, looked_to = await read_tail(context, base, source, target)
    await settle_foreign(context, opening, target, tail.others, base.source_next)
    await context.gap_store.catch_up()  # after the tail: an entry precedes what is behind its gap
    gaps = context.gap_store.state.gaps(known, opening.producer_epoch)
    lost = GapRanges((gap.source_from, gap.source_to) for gap in gaps if gap.source_to is not None)
    hole = _unmapped_copies(lost.behind(base.source_next), base.target_next, tail)
    context.check_lease()
    if hole is not None:
        await note_copied(context, opening, target, hole, is_topic_gone=True)
    await context.gap_store.note(
        replaced_log(
            context,
            known,
            target,
            producer_epoch=opening.producer_epoch,
            source_from=offset_map.source_next if hole is None else hole.source_to,
            target_offset=offset_map.target_next if hole is None else hole.target_to,
            trouble=Trouble.RECREATED,
            detail=detail,
        )
    )
    source_start = await context.source_logs.first(source)
    await open_generation(context, flow, target, source_start, looked_to)


def _unmapped_copies(source_next: int, target_next: int, tail: TailReader) -> Hole | None:
    """What a killed worker had copied of a topic that is gone, and not mapped.

    The first of it is of `source_next` or behind, and lies at `target_next` or behind.

    The source offsets of the hole end behind the first that can be missing: copying goes in order.
    """
    count = tail.length
    if not tail.batches:
        return None
    first, behind = tail.batches[0].header.base_offset, tail.batches[-1].header.next_offset
    if tail.batches[0].ordinal:
        first = target_next
    return Hole(source_next, source_next + count, first, behind, count)
