"""The journal as a proof uses it: what is not copied, and the entries that it writes. Shell.

Order, so that a crash at any point loses nothing and writes nothing twice:

1. Everything before the gap is acknowledged, and the map says so.
2. The journal's entry is written and read back.
3. Only then a new proof gives the position, after the gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirror_maker.formats import FlowKey, Gap, Opening
from mirror_maker.formats.gaps import REPAIR_REASONS, SOURCE_LOST_REASON, GapKind
from mirror_maker.model import FlowFailedError, SourceGap
from mirror_maker.rules.gap_ranges import GapRanges, Range
from mirror_maker.rules.trouble import Policy, Trouble
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.tail.places import Hole


def lost_ranges(journal: GapStore, opening: Opening) -> GapRanges:
    """Return the source offsets that the journal says are not copied."""
    return GapRanges(
        (gap.source_from, gap.source_to)
        for gap in journal.state.gaps(opening.flow, opening.producer_epoch)
        if gap.source_to is not None
    )


def replaced_from(journal: GapStore, opening: Opening) -> int | None:
    """Return the source offset from which the next generation copies; None if none is due.

    The source has another log from there on, or an operator has ordered a repair. Of several such
    offsets the first counts: what is deleted for one of them is copied again then.
    """
    gaps = journal.state.gaps(opening.flow, opening.producer_epoch)
    return min((gap.source_from for gap in gaps if gap.source_to is None), default=None)


def is_repair_ordered(journal: GapStore, opening: Opening) -> bool:
    """Return whether an operator ordered the next generation, and so knows what precedes it."""
    gaps = journal.state.gaps(opening.flow, opening.producer_epoch)
    return any(gap.source_to is None and gap.reason in REPAIR_REASONS for gap in gaps)


async def note_gap(
    journal: GapStore,
    flow: FlowKey,
    *,
    target_topic: str,
    producer_epoch: int,
    target_offset: int,
    error: FlowFailedError,
) -> Gap:
    """Write the error's gap; return the entry that holds. Raises KafkaError."""
    assert error.gap is not None
    return await journal.note(
        journal.new_entry(
            flow,
            producer_epoch=producer_epoch,
            target_topic=target_topic,
            source_from=error.gap.source_from,
            source_to=error.gap.source_to,
            records_count=error.gap.records_count,
            reason=error.trouble.value,
            detail=str(error),
            target_offset=target_offset,
        )
    )


async def note_replaced_log(
    journal: GapStore,
    opening: Opening,
    *,
    source_from: int,
    target_offset: int,
    trouble: Trouble,
    detail: str,
) -> Gap:
    """Write that the opening's generation ends at `source_from`. Raises KafkaError."""
    return await journal.note(
        journal.new_entry(
            opening.flow,
            producer_epoch=opening.producer_epoch,
            target_topic=opening.target_topic,
            source_from=source_from,
            source_to=None,
            reason=trouble.value,
            detail=detail,
            target_offset=target_offset,
        )
    )


async def note_source_losses(
    journal: GapStore,
    opening: Opening,
    holes: Sequence[Hole],
    lost: Range | None,
    target_next: int,
    policy: Policy,
) -> None:
    """Write which copies lost their source or place, and which records were not copied.

    `target_next` is the target offset after the tail. `policy` decides about records that the
    source lost before anybody copied them: FlowFailedError unless it is `skip`. Raises KafkaError.
    """
    if holes:
        first, last = holes[0], holes[-1]
        count = sum(hole.records_count for hole in holes)
        whole = Hole(first.source_from, last.source_to, first.target_from, last.target_to, count)
        await note_copied(journal, opening, whole)
    if lost is None:
        return
    copied = f"; {holes[-1].records_count} records before them were copied" if holes else ""
    error = FlowFailedError(
        f"source offsets {lost[0]}..{lost[1] - 1} are out of range: the source begins at "
        f"{lost[1]}{copied}",
        Trouble.OUT_OF_RANGE,
        SourceGap(lost[0], lost[1], None),
    )
    if policy != "skip":
        raise error
    await note_gap(
        journal,
        opening.flow,
        target_topic=opening.target_topic,
        producer_epoch=opening.producer_epoch,
        target_offset=target_next,
        error=error,
    )


async def note_copied(
    journal: GapStore, opening: Opening, hole: Hole, *, is_topic_gone: bool = False
) -> None:
    """Write that these records were copied, to places that the logs do not tell.

    `is_topic_gone`: where the source topic ended is unknown, so the entry has no end. Raises
    KafkaError.
    """
    if not is_topic_gone:
        await _take_back_narrower(journal, opening, hole)
    last = "and above" if is_topic_gone else f"to {hole.source_to - 1}"
    await journal.note(
        journal.new_entry(
            opening.flow,
            producer_epoch=opening.producer_epoch,
            target_topic=opening.target_topic,
            source_from=hole.source_from,
            source_to=None if is_topic_gone else hole.source_to,
            reason=SOURCE_LOST_REASON,
            detail=(
                f"{hole.records_count} records of source offsets {hole.source_from} {last} were "
                "copied, and lost by the source or compacted by the target before the map was "
                "written"
            ),
            target_offset=hole.target_from,
            kind=GapKind.COPIED,
            copied_count=hole.records_count,
            target_to=hole.target_to,
        )
    )
    for gap in journal.state.gaps(opening.flow, opening.producer_epoch):
        # Copying goes in order: the first of these offsets cannot be lost, as older workers wrote.
        if gap.source_from == hole.source_from:
            await journal.take_back(gap)


async def _take_back_narrower(journal: GapStore, opening: Opening, hole: Hole) -> None:
    """Delete the entry of an earlier proof of the same tail; the source has lost more since.

    The earlier worker mapped nothing of it: otherwise the tail would begin after it.
    """
    await journal.catch_up()
    for entry in journal.state.entries(opening.flow, opening.producer_epoch, GapKind.COPIED):
        if (
            entry.source_to is not None
            and entry.target_to is not None
            and hole.source_from < entry.source_from  # an entry at the same offset is replaced
            and entry.source_to <= hole.source_to
            and hole.target_from <= entry.target_offset
            and entry.target_to <= hole.target_to
        ):
            await journal.take_back(entry)
