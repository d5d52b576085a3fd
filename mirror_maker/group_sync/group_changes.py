"""One round over all groups that decides only about what may have changed since the last. Pure.

Four things decide about a group: its positions at the source, the maps of the flows there, its
positions on the target, and its state there. If all four are unchanged, so is the result. The unit
is the group: if it moved in one partition, all of its positions are decided again.
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
    """The positions at the source."""
    exact: Sequence[SyncedPosition]
    shared: Sequence[SyncedPosition]
    """Positions in partitions that others write into as well: MIXED."""


class _Settled(NamedTuple):
    exact: Sequence[SyncedPosition]
    there: Positions
    state: str
    outcomes: Sequence[SyncedPosition]


class GroupRound:
    """What is known of the groups after one round; the next round begins with it.

    Mappings and lists are compared by identity: a caller passes unchanged ones as the same object
    (`WatchedGroups`).
    """

    def __init__(
        self, last: GroupRound | None = None, moved: Set[TopicPartition] = frozenset()
    ) -> None:
        """`last` is a completed round. `moved` are the source partitions whose maps may have
        changed since it began, including flows that came and went.
        """
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
        """Return a group's positions, translated; the same objects if nothing has changed."""
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
        """Return whether this round has translated the group again."""
        return self._translated[group_id] is not self._translated_before.get(group_id)

    def settled(
        self,
        group_id: str,
        exact: Sequence[SyncedPosition],
        there: Positions | None,
        state: str,
    ) -> Sequence[SyncedPosition] | None:
        """Return the result for a group's exact positions if nothing has changed, else None.

        `there` is None if the target did not answer about the group.
        """
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
        """Note the result for a group that needed no commit: it stays as long as nothing
        changes.
        """
        self._settled[group_id] = _Settled(exact, there, state, outcomes)
