"""The greatest safe position of a group in a partition with records of several origins. Pure.

A group has read the records of a shared partition in different places, and has a position in each.
Its position in the whole is the first record that it has not read, whoever wrote it. So nothing is
skipped. Records behind that place that it has read already are read again, and counted. How far it
has read is known per link that writes into the partition:

- A topic of `merge` gets records from several sources, and the group has a position at each.
- Under identical names the group has one position, in a log that has records of all origins too
  (`origin_position`): of the clients there, and of every link into it.

Nothing is skipped although maps are read while others write. First `known_end` is read, then the
maps, then the ends of the sources. A record below `known_end` was written before, and its flow had
been opened before that, so the maps have the flow. Let the group have read everything before p at
that flow's source:

- The map knows the first copy from p on: the position goes no further than that.
- p lies beyond the map's end: copies that the map does not know lie behind its last run, and the
  position goes no further than that run.
- By the map, nothing from p to the end of the source is copied: no unread record existed when the
  end was read, so later ones are written at `known_end` or above. The flow holds nothing back.
  Without this rule an idle datacenter would hold a group back for ever.
- p is unknown: the position goes no further than the link's first copy.

Records of the partition's own clients have their place in it already (`OwnRecords`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mirror_maker.formats import OffsetMap, TranslationState
from mirror_maker.group_sync.position_rules import SyncState

REREAD_RUNS_MAX: Final = 10_000
"""Runs of one map that are examined to count what is read again; 24 bytes each."""
COVER_RUNS_MAX: Final = 10_000
"""Runs of one map that one step passes over."""
COVER_TURNS_MAX: Final = 1_000
"""Steps from map to map, in one search for a record that is no copy."""


class SharedFlow(NamedTuple):
    """One link's part of a partition that several links write into."""

    link: str
    offset_map: OffsetMap
    first_place: int
    """Target offset below which the link has no copies, including those of deleted source
    topics."""
    committed: int | None
    """The group has read everything of the source partition before this; None: unknown."""
    source_end: int | None
    """End of the source partition, read after `known_end` and the maps; None: unknown."""


class OwnRecords(NamedTuple):
    """The records that clients write into the shared partition themselves."""

    cluster: str
    """The cluster of the partition, for `held_by`."""
    unread_from: int
    """The group has read every such record before this offset."""
    offset_map: OffsetMap | None
    """The map by which they are copied to the group's cluster. None if no link does that;
    `unread_from` is then the first record that is no copy."""


class SafePosition(NamedTuple):
    """Where a group may continue; no offset if a map does not know it."""

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
    """Return the greatest target offset before which the group has read everything.

    `flows` are all that write into the partition; `own` are its clients' records, if they count.
    Nothing is left to read below `target_log_start`.
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
    """Return how far a group at `offset` of a log has read another cluster's records.

    A link with the map `back` copies those into that log; the result is their offset in the other
    cluster. Records that the link does not copy (by its start, filter or journal) hold no group
    back.
    """
    return back.source_place(offset)


def first_that_is_no_copy(maps: Sequence[OffsetMap], offset: int) -> int:
    """Return the first offset from `offset` on that no map into a partition explains.

    The result is too small if a limit above is reached; the next search may begin there.
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
        return False  # a position behind the end belongs to another topic of that name
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
