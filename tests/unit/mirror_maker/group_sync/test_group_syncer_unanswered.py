"""Nothing is committed for a group whose position the target does not return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode
from mirror_maker.backoff import Backoff
from mirror_maker.formats import MapTopic, OffsetMap, Run, encode_record
from mirror_maker.formats.marks import MirroredCommit
from mirror_maker.formats.naming import TopicNames
from mirror_maker.group_sync.group_syncer import GroupSyncer
from mirror_maker.group_sync.position_rules import SyncedPosition, SyncState
from mirror_maker.ports import SystemClock
from mirror_maker.settings import Limits, LinkSettings
from tests.support.groups_double import GroupsDouble

AT = TopicPartition("t", 0)
GROUP = "g"


def not_told(target: GroupsDouble) -> None:
    target.refused[GROUP] = ErrorCode.coordinator_load_in_progress


def lost(target: GroupsDouble) -> None:
    target.lost.add(GROUP)


def unlisted(target: GroupsDouble) -> None:
    target.unlisted.add(GROUP)


def not_told_and_unlisted(target: GroupsDouble) -> None:
    not_told(target)
    unlisted(target)


def recover(target: GroupsDouble) -> None:
    target.refused.clear()
    target.lost.clear()
    target.unlisted.clear()


HIDE = pytest.mark.parametrize("hide", [not_told, lost, unlisted, not_told_and_unlisted])
Hide = Callable[[GroupsDouble], None]


class World:
    """A link that has copied ten records, and a group in both clusters."""

    def __init__(self, *, are_mixed: bool) -> None:
        self.source, self.target = GroupsDouble(), GroupsDouble()
        self.state = MapTopic()
        self.safe_place = 3
        """Where the group may go on in a mixed partition."""
        copied = OffsetMap(0, 0)
        copied.append(Run(0, 0, 10))
        names = TopicNames(otherwise="identity") if are_mixed else TopicNames()
        self.copy = AT if are_mixed else AT._replace(topic="a.t")
        flow = SimpleNamespace(target=self.copy, replicator=SimpleNamespace(offset_map=copied))
        settings = LinkSettings(
            name="x",
            source_alias="a",
            source_bootstrap="-",
            names=names,
            sync_group_offsets=True,
        )
        store = SimpleNamespace(state=self.state, append=self._append, catch_up=self._catch_up)
        link = SimpleNamespace(
            name="x",
            settings=settings,
            limits=Limits(),
            map_store=store,
            clock=SystemClock(),
            new_backoff=lambda: Backoff(1, 1, Random(1), SystemClock()),
            flows={AT: flow},
            watch=lambda: {AT},
        )
        self.sync = GroupSyncer(
            cast("Any", link),
            cast("Any", self.source),
            cast("Any", self.target),
            None,
            cast("Any", SimpleNamespace(place=self._place)),
        )

    async def _place(
        self, link: str, positions: Sequence[SyncedPosition], **options: Any
    ) -> list[SyncedPosition]:
        return [
            each._replace(metadata="", state=SyncState.MERGED, target_offset=self.safe_place)
            for each in positions
        ]

    async def _append(self, records: Sequence[Any], keys: Sequence[bytes] = ()) -> None:
        for each in records:
            self.state.replay(*encode_record(each))
        for key in keys:
            self.state.replay(key, None)

    async def _catch_up(self) -> None:
        pass

    async def round(self) -> dict[str, int]:
        """One round; how many positions have which state then."""
        await self.sync.sync()
        states: dict[str, int] = self.sync.status()["states"]
        return states

    def there(self) -> int | None:
        """Where the group stands at the target."""
        group = self.target.groups.get(GROUP)
        position = group.positions.get(self.copy) if group is not None else None
        return None if position is None else position.offset

    def mark(self) -> MirroredCommit | None:
        return self.state.mirrored_commit(GROUP, *self.copy)


@HIDE
@pytest.mark.parametrize("are_mixed", [False, True])
async def test_the_groups_later_position_is_never_moved_back(hide: Hide, are_mixed: bool) -> None:
    world = World(are_mixed=are_mixed)
    world.source.commit(GROUP, AT, 3)
    world.target.commit(GROUP, world.copy, 8, "own")
    hide(world.target)
    # It is looked up though it is not listed, so it is known to be ahead.
    expected = "ahead" if hide is unlisted else "not_told"
    assert await world.round() == await world.round() == {expected: 1}
    assert (world.there(), world.mark()) == (8, None)
    recover(world.target)
    assert await world.round() == {"ahead": 1}
    assert (world.there(), world.mark()) == (8, None)


@HIDE
@pytest.mark.parametrize("are_mixed", [False, True])
async def test_a_group_follows_again_when_the_target_answers(hide: Hide, are_mixed: bool) -> None:
    world = World(are_mixed=are_mixed)
    world.source.commit(GROUP, AT, 3)
    await world.round()
    assert world.there() == 3, "a group that does not exist there is committed"
    hide(world.target)
    world.source.commit(GROUP, AT, 5)
    world.safe_place = 5
    await world.round()
    assert world.there() == (5 if hide is unlisted else 3)
    recover(world.target)
    await world.round()
    assert world.there() == 5
    assert (await world.round()).keys() == {"merged" if are_mixed else "synced"}


@HIDE
async def test_marks_are_deleted_only_for_surely_deleted_groups(hide: Hide) -> None:
    world = World(are_mixed=True)
    world.source.commit(GROUP, AT, 3)
    await world.round()
    mark = world.mark()
    assert mark is not None
    del world.source.groups[GROUP]
    hide(world.target)
    unlisted(world.target)
    await world.round()
    assert (world.mark(), world.there()) == (mark, 3)
    # The mark says that the mirror committed the position, so it does not go back to the source.
    recover(world.target)
    await world.round()
    assert world.mark() == mark
    del world.target.groups[GROUP]
    await world.round()
    assert world.mark() is None
