"""Records in a copy that this link did not write. Shell.

A copy whose name nobody shares holds what the link wrote, and nothing else. Whatever else is found
there is the trouble `foreign`: `fail` and `pause` stop the flow and name the offsets, `skip` writes
them into the journal and goes on. Where the journal has them already they are accepted: an operator
has said so (`heliograph mirror repair`), or the policy did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from local_cluster.client.model import TopicPartition
from mirror_maker.context import LinkContext
from mirror_maker.formats import Gap, Opening
from mirror_maker.formats.gaps import GapKind
from mirror_maker.model import FlowFailedError
from mirror_maker.rules.gap_ranges import GapRanges, Range
from mirror_maker.rules.trouble import Trouble

RANGES_SHOWN_MAX = 5


class ForeignRecordsError(FlowFailedError):
    """The copy holds records that no link has copied into it."""

    def __init__(self, target: TopicPartition, ranges: Sequence[Range]) -> None:
        """`ranges` are target offsets [from, to), ascending."""
        shown = ", ".join(
            str(start) if end == start + 1 else f"{start}..{end - 1}"
            for start, end in ranges[:RANGES_SHOWN_MAX]
        )
        more = len(ranges) - RANGES_SHOWN_MAX
        super().__init__(
            f"{target} holds records at offsets {shown}{f' and {more} more' if more > 0 else ''} "
            "that this link did not write",
            Trouble.FOREIGN,
        )
        self.ranges = tuple(ranges)


def may_hold_others(context: LinkContext, topic: str) -> bool:
    """Whether others may write into the copy of a source topic."""
    settings = context.settings.for_topic(topic)
    return settings.names.is_shared(topic) or settings.on_unmapped_target == "append"


def accepted(context: LinkContext, opening: Opening) -> GapRanges:
    """Target offsets whose foreign records are in the journal."""
    entries = context.gap_store.state.entries(opening.flow, opening.producer_epoch, GapKind.FOREIGN)
    return GapRanges((each.target_offset, each.target_to or 0) for each in entries)


async def settle_foreign(
    context: LinkContext,
    opening: Opening,
    target: TopicPartition,
    found: Iterable[Range],
    source_next: int,
) -> None:
    """Accept what the policy skips, and raise ForeignRecordsError for the rest.

    `found` are target offsets behind the map, `source_next` is the source offset that comes next.
    Raises KafkaError.
    """
    if may_hold_others(context, opening.flow.source_topic):
        return
    ranges = _unknown(context, opening, found)
    if not ranges:
        return
    error = ForeignRecordsError(target, ranges)
    if context.settings.for_topic(opening.flow.source_topic).on.of(Trouble.FOREIGN) != "skip":
        raise error
    await note_foreign(context, opening, target, ranges, source_next, str(error))


def _unknown(context: LinkContext, opening: Opening, ranges: Iterable[Range]) -> list[Range]:
    known = accepted(context, opening)
    return [part for each in ranges for part in known.uncovered(*each)]


async def note_foreign(
    context: LinkContext,
    opening: Opening,
    target: TopicPartition,
    ranges: Sequence[Range],
    source_next: int,
    detail: str,
) -> None:
    """Write into the journal that these foreign records stay where they are. Raises KafkaError."""
    for start, end in _unknown(context, opening, ranges):
        await context.gap_store.note(
            Gap(
                flow=opening.flow,
                producer_epoch=opening.producer_epoch,
                nonce=context.map_store.new_nonce(),
                link=context.settings.name,
                target_topic=target.topic,
                source_from=source_next,
                source_to=source_next,
                records_count=0,
                reason=Trouble.FOREIGN.value,
                detail=detail,
                target_offset=start,
                noticed_at_ms=context.clock.now_ms(),
                worker_id=context.worker_id,
                kind=GapKind.FOREIGN,
                target_to=end,
            )
        )
