"""The greatest safe position of a group in a partition that several links write into. Pure.

A position in one source says nothing about the records of the others. The group's position in the
whole is the first record that it has not read at its source, whichever source that is: nothing is
skipped, and what it has read behind that place is read again, and counted.

Why nothing is skipped although maps are read while others write. All maps are read twice: the
first time gives `known_end`, the second time the flows. A record that lies below `known_end` was
written before the first reading ended, and its flow had been opened before that, so the second
reading has the flow. Of that flow, with the group at p at the source:

- its map knows the first copy from p on: the position goes no further than that;
- p lies beyond the map's end: what the map does not know lies behind its last run, and the
  position goes no further than that run;
- p is the end of the source partition, asked after the first reading: no unread record existed
  then, so those that come later are written at `known_end` or above. The flow holds nothing back;
  without this an idle datacenter would hold a group for ever;
- no p is known: the position goes no further than the link's first copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .formats import OffsetMap, TranslationState
from .group_sync import SyncState

REREAD_RUNS_MAX: Final = 10_000
"""Runs of one map that are looked at to count what is read again; 24 bytes each."""


class SharedFlow(NamedTuple):
    """One link's part of a partition that several write into."""

    link: str
    offset_map: OffsetMap
    first_place: int
    """Target offset below which the link has no copies, of deleted source topics neither."""
    committed: int | None
    """The group's position in the source partition; None where none is known."""
    source_end: int | None
    """End of the source partition, asked after `known_end` and `committed`; None: unknown."""


class SafePosition(NamedTuple):
    """Where a group may go on; no offset where some map does not know."""

    state: SyncState
    target_offset: int | None = None
    held_by: str | None = None
    reread_records: int | None = None


def safe_position(
    flows: Sequence[SharedFlow], known_end: int, target_log_start: int
) -> SafePosition:
    """The greatest target offset before which the group has read everything.

    `flows` are all that write into the partition. Below `target_log_start` nothing is left to read.
    """
    place, held_by, state = known_end, None, SyncState.MERGED
    for flow in flows:
        found = flow.first_place
        if flow.committed is not None:
            if flow.committed == flow.source_end:
                continue
            found = flow.offset_map.target_next
            if flow.committed <= flow.offset_map.source_next:
                answer = flow.offset_map.place_from(flow.committed)
                if answer.target_offset is None:
                    is_inexact = answer.state is TranslationState.INEXACT
                    return SafePosition(
                        SyncState.INEXACT if is_inexact else SyncState.PENDING, held_by=flow.link
                    )
                found = answer.target_offset
        if found < place:
            place, held_by = found, flow.link
            state = SyncState.PARTIAL if flow.committed is None else SyncState.MERGED
    place = max(place, target_log_start)
    return SafePosition(state, place, held_by, _count_reread(flows, place))


def _count_reread(flows: Sequence[SharedFlow], place: int) -> int | None:
    total = 0
    for flow in flows:
        if flow.committed is None:
            continue
        count = flow.offset_map.count_copies(flow.committed, place, runs_max=REREAD_RUNS_MAX)
        if count is None:
            return None
        total += count
    return total
