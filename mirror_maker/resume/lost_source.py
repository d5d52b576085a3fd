"""A tail whose source lost records since they were copied: reads what is left, and aligns. Shell.

See `alignment` for what is proved, and what is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.copy.passthrough import Selection, select_batches
from mirror_maker.formats import Gap, Opening
from mirror_maker.formats.gaps import SOURCE_LOST_REASON, GapKind
from mirror_maker.model import FlowFailedError, PairingError, SourceGap
from mirror_maker.resume.gap_writer import note_gap
from mirror_maker.resume.tail_reader import is_compacted
from mirror_maker.rules.gap_ranges import GapRanges, Range
from mirror_maker.rules.trouble import Trouble
from mirror_maker.tail.alignment import Aligned, Alignment, Hole
from mirror_maker.tail.target_tail import ResumeBase, TailReader, tail_copies

SOURCE_END_ATTEMPTS_MAX: Final = 40
SOURCE_END_WAIT_MS: Final = 250
"""Together 10 s: how long a source leader may take to show what the mirror has read before."""
FETCH_BYTES_MAX: Final = 1024 * 1024
COPIES_MAX: Final = 1_000_000
"""Records of a tail that are aligned; about 500 bytes of memory each."""


async def may_have_lost(context: LinkContext, source: TopicPartition, source_from: int) -> bool:
    """Whether the source may have lost records from this offset on since they were copied."""
    first = await context.source_logs.first(source)
    return first > source_from or await is_compacted(context.source, source.topic)


async def align(
    context: LinkContext,
    base: ResumeBase,
    tail: TailReader,
    source: TopicPartition,
    gaps: GapRanges,
) -> Aligned:
    """What became of every copy of the tail.

    `gaps` is what the journal says was not copied. An older worker has noted copied records there
    as lost; where the tail fits nowhere else, the journal is not believed about the first gap.
    Raises PairingError where it cannot be told, KafkaError to try again.
    """
    behind = gaps.behind(base.source_next)
    if behind > base.source_next:
        try:
            return await _align(context, base, tail, source, gaps, begins_at=behind)
        except PairingError:
            pass
    return await _align(context, base, tail, source, gaps, begins_at=base.source_next)


async def _align(
    context: LinkContext,
    base: ResumeBase,
    tail: TailReader,
    source: TopicPartition,
    gaps: GapRanges,
    *,
    begins_at: int,
) -> Aligned:
    alignment = Alignment(
        begins_at,
        base.target_next,
        tail_copies(tail, COPIES_MAX),
        length=tail.length,
        trimmed_count=tail.trimmed_count,
        last_timestamp_ms=tail.last_timestamp_ms,
    )
    log_start_offset = await context.source_logs.first(source)
    position = max(gaps.behind(begins_at), log_start_offset)
    attempts = 0
    while not alignment.is_settled:
        fetched = await fetch_committed(context, source, position, FETCH_BYTES_MAX)
        if fetched.error == ErrorCode.offset_out_of_range:
            log_start_offset = await context.source_logs.first(source)
            if log_start_offset <= position:
                raise PairingError(
                    f"the source ends before offset {position}, but the target has unmapped copies "
                    f"from {begins_at} on"
                )
            position = log_start_offset
            continue
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
        _feed(alignment, fetched.records, selection)
        if selection.refusal is not None and not alignment.is_settled:
            raise selection.refusal
        if selection.source_next == position:
            attempts += 1
            if attempts >= SOURCE_END_ATTEMPTS_MAX:
                alignment.end(position)
            else:
                await context.clock.sleep(SOURCE_END_WAIT_MS)
        position = selection.source_next
    return alignment.result(log_start_offset)


def _feed(alignment: Alignment, fetched: memoryview, selection: Selection) -> None:
    """The batches of an answer in order: records that are copied, or offsets that are not."""
    copied = {batch.header.base_offset: batch for batch in selection.batches}
    for _, header in iter_headers(fetched):
        if alignment.is_settled or header.base_offset >= selection.source_next:
            return
        batch = copied.get(header.base_offset)
        if batch is not None:
            for record in batch.records():
                alignment.feed(record.offset, record[1:], record.timestamp_ms)
        elif header.records_count == header.last_offset_delta + 1:
            alignment.present(header.base_offset, header.next_offset)


async def fetch_committed(
    context: LinkContext, source: TopicPartition, offset: int, bytes_max: int
) -> FetchedPartition:
    """What the source has committed from an offset on, without waiting. Raises KafkaError."""
    leader = context.directory.source_leader(source)
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(source))
    return (
        await context.source.fetch(
            leader,
            {source: FetchPosition(offset)},
            wait_ms_max=0,
            partition_bytes_max=context.fetch_bytes(bytes_max),
            isolation_level=READ_COMMITTED,
        )
    )[source]


async def note_source_losses(
    context: LinkContext,
    opening: Opening,
    target: TopicPartition,
    holes: Sequence[Hole],
    lost: Range | None,
    target_next: int,
) -> None:
    """Write into the journal which copies lost their source or place, and what was not copied.

    `target_next` is the target offset behind the tail. Where the source lost records that nobody
    had copied, the link's policy decides about those: FlowFailedError where it does not skip them.
    Raises KafkaError.
    """
    if holes:
        first, last = holes[0], holes[-1]
        count = sum(hole.records_count for hole in holes)
        whole = Hole(first.source_from, last.source_to, first.target_from, last.target_to, count)
        await note_copied(context, opening, target, whole)
    if lost is None:
        return
    copied = f", of what lies before them {holes[-1].records_count} were copied" if holes else ""
    error = FlowFailedError(
        f"source offsets {lost[0]}..{lost[1] - 1} are out of range: the source begins at "
        f"{lost[1]}{copied}",
        Trouble.OUT_OF_RANGE,
        SourceGap(lost[0], lost[1], None),
    )
    if context.settings.for_topic(opening.flow.source_topic).on.of(error.trouble) != "skip":
        raise error
    await note_gap(context, opening.flow, target, opening.producer_epoch, target_next, error)


async def _take_back_narrower(context: LinkContext, opening: Opening, hole: Hole) -> None:
    """Take back what an earlier proof of the same tail said, before the source lost more of it.

    The earlier worker wrote no map about it: the tail would begin behind it otherwise.
    """
    await context.gap_store.catch_up()
    for entry in context.gap_store.state.entries(
        opening.flow, opening.producer_epoch, GapKind.COPIED
    ):
        if (
            entry.source_to is not None
            and entry.target_to is not None
            and hole.source_from < entry.source_from  # at the same one it is replaced
            and entry.source_to <= hole.source_to
            and hole.target_from <= entry.target_offset
            and entry.target_to <= hole.target_to
        ):
            await context.gap_store.take_back(entry)


async def note_copied(
    context: LinkContext,
    opening: Opening,
    target: TopicPartition,
    hole: Hole,
    *,
    is_topic_gone: bool = False,
) -> None:
    """Write into the journal that these records were copied, to places that the logs do not tell.

    Raises KafkaError.

    `is_topic_gone`: where the source topic ended is not known, so the entry has no end either.
    """
    journal = context.gap_store
    if not is_topic_gone:
        await _take_back_narrower(context, opening, hole)
    behind = "" if is_topic_gone else f"..{hole.source_to - 1}"
    await journal.note(
        Gap(
            flow=opening.flow,
            producer_epoch=opening.producer_epoch,
            nonce=context.map_store.new_nonce(),
            link=context.settings.name,
            target_topic=target.topic,
            source_from=hole.source_from,
            source_to=None if is_topic_gone else hole.source_to,
            records_count=None,
            reason=SOURCE_LOST_REASON,
            detail=(
                f"{hole.records_count} records of source offsets {hole.source_from}"
                f"{behind or ' and above'} were copied, and lost by the source or compacted by "
                "the target before the map was written"
            ),
            target_offset=hole.target_from,
            noticed_at_ms=context.clock.now_ms(),
            worker_id=context.worker_id,
            kind=GapKind.COPIED,
            copied_count=hole.records_count,
            target_to=hole.target_to,
        )
    )
    for gap in journal.state.gaps(opening.flow, opening.producer_epoch):
        # Copying goes in order: the first of these offsets cannot be lost, as older workers say.
        if gap.source_from == hole.source_from:
            await journal.take_back(gap)
