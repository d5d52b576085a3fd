"""Which positions of consumer groups are committed on the target, and why others are not. Pure.

A group's position on the source is translated by the flow's map. It is committed on the target only
for a group that nobody uses there, and only forward, unless the link says otherwise. Every other
position has a state that status pages show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from local_cluster.client.admin.group_offsets import CommittedOffset
from local_cluster.client.model import TopicPartition
from mirror_maker.formats import OffsetMap, TranslationState

QUIET_STATES: Final = frozenset({"Empty", "Dead"})
"""States of groups without members (DescribeGroups), whose positions may be written."""
UNKNOWN_STATE: Final = ""
NO_LEADER_EPOCH: Final = -1
"""Leader epochs of the source mean nothing on the target."""


class SyncState(StrEnum):
    """The result for one position."""

    SYNCED = "synced"
    """The target has the exact translation."""
    CLAMPED = "clamped"
    """The group is ahead of the copy; the target has the end of the copy."""
    INEXACT = "inexact"
    """The target has a safe position: nothing is skipped, some records may be read again. Without a
    target offset, the position is older than what this link copied, and is not committed."""
    PENDING = "pending"
    """No translation is known: the target no longer has those copies."""
    ACTIVE = "active"
    """The group has members on the target and commits its position itself."""
    AHEAD = "ahead"
    """The target has a later position, and `rewind` is off."""
    MIXED = "mixed"
    """The copy may have records of several origins, and no map has the flow yet."""
    MERGED = "merged"
    """The target has the greatest safe position in a copy with records of several origins."""
    PARTIAL = "partial"
    """Like `merged`, but held back by records of which it is unknown how far the group has read."""
    MIRRORED = "mirrored"
    """A mirror committed the position at the source; the group did not reach it there."""
    REFUSED = "refused"
    """The target refused the commit."""
    NOT_TOLD = "not_told"
    """The target did not return the group's position, so nothing is committed."""


class SyncedPosition(NamedTuple):
    """One position of one group, on both sides."""

    group_id: str
    source: TopicPartition
    target: TopicPartition
    source_offset: int
    target_offset: int | None
    """The translation; None with PENDING, MIXED and MIRRORED, and with some INEXACT."""
    metadata: str
    state: SyncState
    held_by: str | None = None
    """With MERGED and PARTIAL: the owner of the first unread record, which is the position: a link,
    or the target itself."""
    reread_records: int | None = None
    """With MERGED and PARTIAL: records behind the position that the group has read elsewhere; None
    if they cannot be counted."""


class FlowMap(NamedTuple):
    """A flow that this worker copies."""

    target: TopicPartition
    offset_map: OffsetMap
    is_shared: bool = False
    """Whether others may write into the target partition too."""


def translate_positions(
    group_id: str,
    positions: Mapping[TopicPartition, CommittedOffset],
    flow_map: Callable[[TopicPartition], FlowMap | None],
) -> list[SyncedPosition]:
    """Translate a group's positions in source partitions that have a map."""
    translated = []
    for source, position in positions.items():
        flow = flow_map(source)
        if flow is None:
            continue
        answer = flow.offset_map.translate(position.offset)
        target_offset, state = answer.target_offset, SyncState.SYNCED
        if flow.is_shared:
            target_offset, state = None, SyncState.MIXED
        elif answer.state is TranslationState.INEXACT:
            state = SyncState.INEXACT
        elif answer.state is TranslationState.PENDING:
            if position.offset > flow.offset_map.source_next:
                target_offset, state = flow.offset_map.target_next, SyncState.CLAMPED
            else:
                state = SyncState.PENDING
        translated.append(
            SyncedPosition(
                group_id,
                source,
                flow.target,
                position.offset,
                target_offset,
                position.metadata,
                state,
            )
        )
    return translated


def decide(
    position: SyncedPosition,
    there: CommittedOffset | None,
    target_group_state: str,
    *,
    rewind: bool,
) -> tuple[SyncedPosition, CommittedOffset | None]:
    """Return the result for a position, and the commit for the target, if any.

    `there` is the target's present position; `target_group_state` is empty if the group does not
    exist.
    """
    if position.target_offset is None:
        return position, None
    wanted = CommittedOffset(position.target_offset, NO_LEADER_EPOCH, position.metadata)
    is_shared = position.state in (SyncState.MERGED, SyncState.PARTIAL)
    # Positions in a shared partition have no metadata.
    is_same = there is not None and (is_shared or there.metadata == wanted.metadata)
    if there is not None and is_same and there.offset == wanted.offset:
        return position, None
    if target_group_state != UNKNOWN_STATE and target_group_state not in QUIET_STATES:
        return position._replace(state=SyncState.ACTIVE), None
    # A safe place falls back while a source does not answer; that is no reason to rewind.
    may_go_back = rewind and not is_shared
    if there is not None and there.offset > wanted.offset and not may_go_back:
        return position._replace(state=SyncState.AHEAD), None
    return position, wanted
