"""Rounds of group sync that remember, against rounds that look at everything each time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.admin.group_offsets import CommittedOffset
from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.formats import MapTopic, OffsetMap, Run
from mirror_maker.group_sync.group_syncer import GroupSyncer
from mirror_maker.group_sync.position_rules import SyncedPosition
from mirror_maker.ports import SystemClock
from mirror_maker.settings import Limits, LinkSettings
from tests.support.groups_double import FakeGroup, GroupsDouble

PARTITIONS = 3
GROUPS = ("g", "h")
SETTINGS = LinkSettings(name="a-b", source_alias="a", source_bootstrap="-", sync_group_offsets=True)


class LinkDouble:
    """The flows of a link, and who watches them."""

    name = SETTINGS.name

    def __init__(self) -> None:
        self.flows: dict[TopicPartition, Any] = {}
        self.looked_up = 0
        self._watchers: list[set[TopicPartition]] = []
        self.settings = SETTINGS
        self.limits = Limits()
        self.map_store = SimpleNamespace(state=MapTopic())
        self.clock = SystemClock()

    def new_backoff(self) -> Backoff:
        return Backoff(1, 1, Random(1), self.clock)

    def copy(self, at: TopicPartition) -> None:
        """A flow begins to copy."""
        replicator = SimpleNamespace(offset_map=OffsetMap(0, 0))
        self.flows[at] = SimpleNamespace(
            target=at._replace(topic=f"a.{at.topic}"), replicator=replicator
        )
        self.note(at)

    def watch(self) -> set[TopicPartition]:
        watched = set(self.flows)
        self._watchers.append(watched)
        return watched

    def note(self, at: TopicPartition) -> None:
        for watched in self._watchers:
            watched.add(at)


class CheckpointsDouble:
    """What MirrorMaker 2's readers would find."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, TopicPartition], tuple[int, int | None]] = {}
        self.told = 0

    async def checkpoint(
        self, groups: Mapping[str, Sequence[SyncedPosition]], present: Collection[str]
    ) -> list[Any]:
        assert set(groups) <= set(present)
        for group_id, positions in groups.items():
            self.told += len(positions)
            for each in positions:
                if each.target_offset is not None:
                    self.found[group_id, each.target] = each.source_offset, each.target_offset
        return []


class World:
    """Both clusters, and the rounds that remember."""

    def __init__(self, *, asks_many: bool = True) -> None:
        self.link = LinkDouble()
        self.source = GroupsDouble(asks_many=asks_many)
        self.target = GroupsDouble(asks_many=asks_many)
        self.checkpoints = CheckpointsDouble()
        for partition in range(PARTITIONS):
            self.link.copy(TopicPartition("t", partition))
        self.link.copy(TopicPartition("never idle", 0))
        self.sync = self.new_sync(self.target, self.checkpoints)

    def new_sync(self, target: GroupsDouble, checkpoints: CheckpointsDouble) -> GroupSyncer:
        return GroupSyncer(
            cast("Any", self.link),
            cast("Any", self.source),
            cast("Any", target),
            cast("Any", checkpoints),
            cast("Any", None),
        )

    async def check_round(self) -> None:
        """One round, and what it must have come to."""
        before, target = copy.deepcopy((self.target, self.target))
        checkpoints = CheckpointsDouble()
        fresh = self.new_sync(target, checkpoints)
        failures = []
        for sync in (fresh, self.sync):
            try:
                await sync.sync()
            except KafkaError as error:
                failures.append(error.code)
        assert failures in ([], [ErrorCode.network_exception] * 2)
        if failures:
            return
        told, expected = self.sync.status(), fresh.status()
        assert told["positions"] == expected["positions"]
        assert told["states"] == expected["states"]
        assert self.target.groups == target.groups
        for name, group in before.groups.items():
            for at, position in group.positions.items():
                assert target.groups[name].positions[at].offset >= position.offset
        for name in before.lost | before.refused.keys():
            assert target.groups.get(name) == before.groups.get(name), "nobody knew where it was"
        assert self.checkpoints.found.items() >= checkpoints.found.items()


def act(world: World, kind: str, group: str, partition: int, number: int) -> None:
    at = TopicPartition("t", partition)
    theirs = at._replace(topic="a.t")
    flow = world.link.flows.get(at)
    offset_map = flow.replicator.offset_map if flow and flow.replicator else None
    match kind:
        case "commit":
            world.source.commit(group, at, number, "m" * (number % 2))
        case "copied" if offset_map is not None:
            before = offset_map.source_next
            offset_map.append(Run(before + number % 3, offset_map.target_next, number + 1))
            world.link.note(at)
        case "lost" if offset_map is not None:
            place = offset_map.source_next + number + 1, offset_map.target_next + number
            offset_map.skip_unknown(*place)
            world.link.note(at)
        case "stopped" if flow is not None:
            flow.replicator = None
            world.link.note(at)
        case "given away":
            world.link.flows.pop(at, None)
            world.link.note(at)
        case "copies again":
            world.link.copy(at)
        case "committed there":
            world.target.commit(group, theirs, number)
        case "state there":
            found = world.target.groups.setdefault(group, FakeGroup())
            found.state = ("Empty", "Stable", "Dead")[number % 3]
        case "deleted here":
            world.source.groups.pop(group, None)
        case "deleted there":
            world.target.groups.pop(group, None)
        case "refused":
            world.source.refused[group] = ErrorCode.group_authorization_failed
        case "granted":
            world.source.refused.pop(group, None)
        case "not told there":
            world.target.refused[group] = ErrorCode.coordinator_load_in_progress
        case "lost there":
            world.target.lost.add(group)
        case "not listed there":
            world.target.unlisted.add(group)
        case "told there":
            world.target.refused.pop(group, None)
            world.target.lost.discard(group)
            world.target.unlisted.discard(group)
        case "down":
            world.source.is_down = True
        case "up":
            world.source.is_down = False


KINDS = (
    *("commit", "copied", "lost", "stopped", "given away", "copies again", "committed there"),
    *("state there", "deleted here", "deleted there", "refused", "granted", "down", "up"),
    *("not told there", "lost there", "not listed there", "told there"),
)
acts = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(GROUPS),
    st.integers(0, PARTITIONS - 1),
    st.integers(0, 20),
)


@given(st.lists(st.lists(acts, max_size=3), max_size=20), st.booleans())
def test_what_is_remembered_is_what_a_fresh_look_finds(rounds: list[Any], asks_many: bool) -> None:
    async def scenario() -> None:
        world = World(asks_many=asks_many)
        for each in rounds:
            for kind, group, partition, number in each:
                act(world, kind, group, partition, number)
            await world.check_round()

    asyncio.run(scenario())


def test_a_round_in_which_nothing_happened_reads_nothing() -> None:
    async def scenario() -> None:
        world = World()
        for number in range(PARTITIONS):
            at = TopicPartition("t", number)
            act(world, "copied", "g", number, 10)
            world.source.commit("g", at, 5)
            world.source.commit("h", at, 50)  # ahead of what is copied
        for _ in range(3):
            await world.sync.sync()
        decoded = world.source.decoded.copy(), world.target.decoded.copy()
        told = world.checkpoints.told
        lookups = count_lookups(world)
        await world.sync.sync()
        assert (world.source.decoded, world.target.decoded) == decoded
        assert (world.checkpoints.told, lookups) == (told, [])
        assert world.sync.status()["states"] == {"synced": 3, "clamped": 3}
        # A flow that moves has the groups that stand in it looked at, and no others.
        world.source.groups["h"].positions.pop(TopicPartition("t", 0))
        await world.sync.sync()
        act(world, "copied", "g", 0, 10)
        lookups.clear()
        await world.sync.sync()
        assert set(lookups) == {TopicPartition("t", each) for each in range(PARTITIONS)}
        assert len(lookups) == PARTITIONS

    asyncio.run(scenario())


def test_nothing_is_told_of_positions_that_are_looked_after_elsewhere() -> None:
    def told(world: World) -> tuple[set[int], set[int]]:
        status = world.sync.status()
        assert sum(status["states"].values()) == len(status["positions"])
        return (
            {each["partition"] for each in status["positions"]},
            {each["partition"] for each in status["latencies"]},
        )

    async def scenario() -> None:
        world = World()
        for number in range(PARTITIONS):
            act(world, "copied", "g", number, 10)
            world.source.commit("g", TopicPartition("t", number), 5)
        await world.sync.sync()
        assert told(world) == ({0, 1, 2}, {0, 1, 2})
        act(world, "given away", "g", 0, 0)
        await world.sync.sync()
        assert told(world) == ({1, 2}, {1, 2})
        for at in list(world.link.flows):
            del world.link.flows[at]
            world.link.note(at)
        await world.sync.sync()
        assert told(world) == (set(), set())
        assert world.sync.status()["states"] == {}
        # It comes back: all of it is looked at anew.
        act(world, "copies again", "g", 1, 0)
        act(world, "copied", "g", 1, 10)
        await world.check_round()
        assert told(world)[0] == {1}

    asyncio.run(scenario())


def test_many_groups_are_asked_for_in_one_request_where_the_broker_can() -> None:
    async def scenario(asks_many: bool) -> tuple[int, int]:
        world = World(asks_many=asks_many)
        for number in range(20):
            world.source.groups[f"g{number}"] = FakeGroup(
                positions={TopicPartition("t", 0): CommittedOffset(0, -1, "")}
            )
        await world.sync.sync()
        calls = world.source.calls
        return calls[ApiKey.FIND_COORDINATOR], calls[ApiKey.OFFSET_FETCH]

    assert asyncio.run(scenario(True)) == (1, 1)
    assert asyncio.run(scenario(False)) == (20, 20)


def count_lookups(world: World) -> list[TopicPartition]:
    """The partitions whose flows are asked for from now on."""
    asked: list[TopicPartition] = []

    class Counted(dict[TopicPartition, Any]):
        def get(self, at: TopicPartition, default: Any = None) -> Any:
            asked.append(at)
            return super().get(at, default)

    world.link.flows = Counted(world.link.flows)
    return asked
