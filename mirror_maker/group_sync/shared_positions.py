"""The greatest safe position of a group in a partition that has records of several origins. Pure.

A position says what a group has read where it stands; the records of a shared partition were read
in different places. The group's position in the whole is the first record that it has not read,
whoever wrote it: nothing is skipped, and what it has read behind that place is read again, and
counted. What is read is known per link that writes into the partition:

- a topic of `merge` takes records from several sources, and the group has a position at each;
- under identical names the group stands at one place of a log that has records of all origins too
  (`origin_position`): of the clients there, and of every link into it.

Why nothing is skipped although maps are read while others write. First `known_end` is asked, then
the maps are read, then the ends of the sources. A record that lies below `known_end` was written
before, and its flow had been opened before that, so the reading has the flow. Of that flow, with
everything before p at its source read:

- its map knows the first copy from p on: the position goes no further than that;
- p lies beyond the map's end: what the map does not know lies behind its last run, and the
  position goes no further than that run;
- nothing from p to the end of the source is copied, by the map: no unread record existed when the
  end was asked, so those that come later are written at `known_end` or above. The flow holds
  nothing back; without this an idle datacenter would hold a group for ever;
- no p is known: the position goes no further than the link's first copy.

Records that were born in the partition itself have their place in it already (`OwnRecords`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mirror_maker.formats import OffsetMap, TranslationState
from mirror_maker.group_sync.position_rules import SyncState

REREAD_RUNS_MAX: Final = 10_000
"""Runs of one map that are looked at to count what is read again; 24 bytes each."""
COVER_RUNS_MAX: Final = 10_000
"""Runs of one map that are passed over at once, and"""
COVER_TURNS_MAX: Final = 1_000
"""changes from map to map, in one look for a record that is no copy."""


class SharedFlow(NamedTuple):
    """One link's part of a partition that several write into."""

    link: str
    offset_map: OffsetMap
    first_place: int
    """Target offset below which the link has no copies, of deleted source topics neither."""
    committed: int | None
    """The group has read everything of the source partition before this; None: nothing known."""
    source_end: int | None
    """End of the source partition, asked after `known_end` and the maps; None: unknown."""


class OwnRecords(NamedTuple):
    """What clients write into the shared partition themselves."""

    cluster: str
    """Whose partition it is, for `held_by`."""
    unread_from: int
    """The group has read every record of theirs before this offset."""
    offset_map: OffsetMap | None
    """How they are copied to where the group stands; None where no link does that, and
    `unread_from` is the first record that is no copy."""


class SafePosition(NamedTuple):
    """Where a group may go on; no offset where some map does not know."""

    state: SyncState
    target_offset: int | None = None
    held_by: str | None = None
    reread_records: int | None = None


def safe_position(
    flows: Sequence[SharedFlow],
    known_end: int,
    target_log_start: int,
    own: OwnRecords | None = None,
) -> SafePosition:
    """The greatest target offset before which the group has read everything.

    `flows` are all that write into the partition, `own` what its clients write, where that counts.
    Below `target_log_start` nothing is left to read.
    """
    place, held_by, state = known_end, None, SyncState.MERGED
    if own is not None and own.unread_from < place:
        place, held_by = own.unread_from, own.cluster
        state = SyncState.PARTIAL if own.offset_map is None else SyncState.MERGED
    for flow in flows:
        found, is_known = flow.first_place, flow.committed is not None
        if flow.committed is not None:
            if _is_read_to_its_end(flow.offset_map, flow.committed, flow.source_end):
                continue
            found = flow.offset_map.target_next
            if flow.committed <= flow.offset_map.source_next:
                answer = flow.offset_map.place_from(flow.committed)
                is_known = answer.state is not TranslationState.INEXACT
                if answer.target_offset is None:
                    return SafePosition(
                        SyncState.PENDING if is_known else SyncState.INEXACT, held_by=flow.link
                    )
                found = answer.target_offset
        if found < place:
            place, held_by = found, flow.link
            state = SyncState.MERGED if is_known else SyncState.PARTIAL
    place = max(place, target_log_start)
    return SafePosition(state, place, held_by, _count_reread(flows, place, own))


def origin_position(back: OffsetMap, offset: int) -> int:
    """How far a group that stands at `offset` of a log has read another cluster's records, which
    a link with the map `back` copies into that log: their offset at home.

    What that link leaves out (its start, its filter, gaps in its journal) holds no group back.
    """
    return back.source_place(offset)


def first_that_is_no_copy(maps: Sequence[OffsetMap], offset: int) -> int:
    """The first offset from `offset` on that none of all maps into a partition explains.

    Too small where the limits above are met; then the next look may begin at the answer.
    """
    for _ in range(COVER_TURNS_MAX):
        before = offset
        for each in maps:
            offset = each.covered_to(offset, runs_max=COVER_RUNS_MAX)
        if offset == before:
            break
    return offset


def _is_read_to_its_end(offset_map: OffsetMap, committed: int, source_end: int | None) -> bool:
    if source_end is None or committed > source_end:
        return False  # a position behind the end is of another topic of that name
    if committed == source_end:
        return True
    return offset_map.source_next >= source_end and offset_map.has_none_from(committed)


def _count_reread(flows: Sequence[SharedFlow], place: int, own: OwnRecords | None) -> int | None:
    total = 0
    for flow in flows:
        if flow.committed is None:
            continue
        count = flow.offset_map.count_copies(flow.committed, place, runs_max=REREAD_RUNS_MAX)
        if count is None:
            return None
        total += count
    if own is not None and own.offset_map is not None:
        count = own.offset_map.count_sources(place, own.unread_from, runs_max=REREAD_RUNS_MAX)
        if count is None:
            return None
        total += count
    return total
