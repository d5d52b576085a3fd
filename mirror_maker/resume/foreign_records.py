"""Records in a copy that the link did not write. Shell.

A copy that is not shared holds what the link wrote and nothing else. Other records in it are the
trouble `foreign`: `fail` and `pause` stop the flow and name the offsets, `skip` writes them into
the journal and continues. Offsets that the journal has already are accepted: an operator
(`heliograph mirror repair`) or the policy decided so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from local_cluster.client.model import TopicPartition
from mirror_maker.formats import Opening
from mirror_maker.formats.gaps import GapKind
from mirror_maker.model import FlowFailedError
from mirror_maker.rules.gap_ranges import GapRanges, Range
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.journal_store import GapStore

RANGES_SHOWN_MAX: Final = 5


class ForeignRecordsError(FlowFailedError):
    """The copy holds records that no link copied into it."""

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


def may_hold_foreign(settings: LinkSettings, topic: str) -> bool:
    """Return whether others may write into the copy of a source topic."""
    own = settings.for_topic(topic)
    return own.names.is_shared(topic) or own.on_unmapped_target == "append"


def accepted_ranges(journal: GapStore, opening: Opening) -> GapRanges:
    """Return the target offsets whose foreign records are in the journal."""
    entries = journal.state.entries(opening.flow, opening.producer_epoch, GapKind.FOREIGN)
    return GapRanges((each.target_offset, each.target_to or 0) for each in entries)


async def settle_foreign(
    journal: GapStore,
    settings: LinkSettings,
    opening: Opening,
    found: Iterable[Range],
    source_next: int,
) -> None:
    """Write into the journal what the policy skips; raise ForeignRecordsError for the rest.

    `found` are target offsets after the map, `source_next` is the source offset that comes next.
    Raises KafkaError.
    """
    topic = opening.flow.source_topic
    if may_hold_foreign(settings, topic):
        return
    ranges = _not_accepted(journal, opening, found)
    if not ranges:
        return
    error = ForeignRecordsError(
        TopicPartition(opening.target_topic, opening.flow.partition), ranges
    )
    if settings.for_topic(topic).on.of(Trouble.FOREIGN) != "skip":
        raise error
    await note_foreign(journal, opening, ranges, source_next, str(error))


def _not_accepted(journal: GapStore, opening: Opening, ranges: Iterable[Range]) -> list[Range]:
    accepted = accepted_ranges(journal, opening)
    return [part for each in ranges for part in accepted.uncovered(*each)]


async def note_foreign(
    journal: GapStore, opening: Opening, ranges: Sequence[Range], source_next: int, detail: str
) -> None:
    """Write into the journal that these foreign records stay in place. Raises KafkaError."""
    for start, end in _not_accepted(journal, opening, ranges):
        await journal.note(
            journal.new_entry(
                opening.flow,
                producer_epoch=opening.producer_epoch,
                target_topic=opening.target_topic,
                source_from=source_next,
                source_to=source_next,
                records_count=0,
                reason=Trouble.FOREIGN.value,
                detail=detail,
                target_offset=start,
                kind=GapKind.FOREIGN,
                target_to=end,
            )
        )
