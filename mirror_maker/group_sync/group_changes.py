"""One look at all groups, that works out anew only what may have changed since the last. Pure.

What becomes of a group's positions follows from four things alone: where it stands at the source,
the maps of the flows there, where it stands on the target, and its state there. A group of which
all four are what they were is what it was. The unit is the group: of one that moved in a single
partition every position is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from local_cluster.client.admin.group_offsets import CommittedOffset
from local_cluster.client.model import TopicPartition
from mirror_maker.group_sync.position_rules import (
    FlowMap,
    SyncedPosition,
    SyncState,
    translate_positions,
)

Positions = Mapping[TopicPartition, CommittedOffset]


class Translated(NamedTuple):
    """A group's positions, translated."""

    here: Positions
    """What they were at the source."""
    exact: Sequence[SyncedPosition]
    shared: Sequence[SyncedPosition]
    """Those in partitions that others write into as well: MIXED."""


class _Settled(NamedTuple):
    exact: Sequence[SyncedPosition]
    there: Positions
    state: str
    outcomes: Sequence[SyncedPosition]


class GroupRound:
    """What is known of the groups after one look; the next one begins with it.

    Mappings and lists are compared by identity: who asks gives what is as it was as the same
    object (`WatchedGroups`).
    """

    def __init__(
        self, last: GroupRound | None = None, moved: Set[TopicPartition] = frozenset()
    ) -> None:
        """`last` is a round that was ended, `moved` are the source partitions whose maps may be
        others since it began, those that came and went among them."""
        self._moved = moved
        self._translated_before = {} if last is None else last._translated
        self._settled_before = {} if last is None else last._settled
        self._translated: dict[str, Translated] = {}
        self._settled: dict[str, _Settled] = {}

    def translate(
        self,
        group_id: str,
        here: Positions,
        flow_map: Callable[[TopicPartition], FlowMap | None],
    ) -> Translated:
        """A group's positions, translated; the same objects where they are as they were."""
        found = self._translated_before.get(group_id)
        if found is None or found.here is not here or not here.keys().isdisjoint(self._moved):
            positions = translate_positions(group_id, here, flow_map)
            found = Translated(
                here,
                [each for each in positions if each.state is not SyncState.MIXED],
                [each for each in positions if each.state is SyncState.MIXED],
            )
        self._translated[group_id] = found
        return found

    def is_new(self, group_id: str) -> bool:
        """Whether a group that was translated in this round was translated anew."""
        return self._translated[group_id] is not self._translated_before.get(group_id)

    def settled(
        self,
        group_id: str,
        exact: Sequence[SyncedPosition],
        there: Positions | None,
        state: str,
    ) -> Sequence[SyncedPosition] | None:
        """What became of a group's exact positions, where all is as it was; None where that is to
        be decided anew. `there` is None where the target did not tell."""
        last = self._settled_before.get(group_id)
        if (
            last is None
            or last.exact is not exact
            or last.there is not there
            or last.state != state
        ):
            return None
        self._settled[group_id] = last
        return last.outcomes

    def settle(
        self,
        group_id: str,
        exact: Sequence[SyncedPosition],
        there: Positions,
        state: str,
        outcomes: Sequence[SyncedPosition],
    ) -> None:
        """Note what became of a group of which nothing had to be committed: that is so again
        while all is as it is."""
        self._settled[group_id] = _Settled(exact, there, state, outcomes)
