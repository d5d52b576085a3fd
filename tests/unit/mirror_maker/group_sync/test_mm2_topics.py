"""Which of MirrorMaker 2's records are written, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.client.model import (
    ClusterMetadata,
    PartitionMetadata,
    ProducedPartition,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.records.batch import decode_batch
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.copy.mm2_offset_syncs import FlowSyncs
from mirror_maker.formats import Run
from mirror_maker.formats.mm2 import (
    Checkpoint,
    OffsetSync,
    decode_checkpoint,
    decode_offset_sync,
    offset_syncs_topic,
)
from mirror_maker.group_sync.mm2_topics import Mm2Topics
from mirror_maker.group_sync.position_rules import SyncedPosition, SyncState
from mirror_maker.settings import Limits, LinkSettings

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """Takes what is written to its one broker."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes]] = []
        self.is_down = False
        self.on_produce: Callable[[], None] = lambda: None
        self.stalled: set[str] = set()
        """Topics whose writes are never answered."""

    async def metadata(self, names: list[str]) -> ClusterMetadata:
        there = PartitionMetadata(0, 1, 0, (1,), (1,), ErrorCode.none)
        return ClusterMetadata(
            "c",
            1,
            {},
            {name: TopicMetadata(name, None, ErrorCode.none, False, {0: there}) for name in names},
        )

    async def produce(
        self, node_id: int, batches: ProduceBatches
    ) -> dict[TopicPartition, ProducedPartition]:
        if self.is_down:
            raise KafkaError(ErrorCode.network_exception, "down")
        if any(at.topic in self.stalled for at, _ in batches.items()):
            await asyncio.Event().wait()
        self.on_produce()
        for _, batch in batches.items():
            for record in decode_batch(batch, 0, read_header(batch)):
                self.written.append((record.key or b"", record.value or b""))
        return {at: ProducedPartition(ErrorCode.none, 0, -1, 0, None) for at, _ in batches.items()}

    def checkpoints(self) -> list[Checkpoint]:
        """What was written since the last time."""
        taken, self.written = self.written, []
        return [decode_checkpoint(*each) for each in taken]

    def syncs(self) -> list[OffsetSync]:
        taken, self.written = self.written, []
        return [decode_offset_sync(*each) for each in taken]


class InstantClock:
    """Stands still, and never waits."""

    def now_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> int:
        return 1_000

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(0)


class World:
    """A link, its watched flows, and both clusters."""

    def __init__(self) -> None:
        self.source, self.sink = Cluster(), Cluster()
        self.moved: set[TopicPartition] = set()
        self.flows: dict[TopicPartition, Any] = {}
        settings = LinkSettings(
            name="a-b", source_alias="a", source_bootstrap="-", mm2_topics="target"
        )
        clock = InstantClock()
        link = SimpleNamespace(
            name=settings.name,
            settings=settings,
            limits=Limits(),
            clock=clock,
            new_backoff=lambda: Backoff(1, 1, Random(1), clock),
            watch=lambda: self.moved,
            flows=self.flows,
            is_first_worker=True,
        )
        self.topics = Mm2Topics(
            cast("Any", link), cast("Any", self.source), cast("Any", self.sink), "b"
        )

    def flow(self, at: TopicPartition) -> FlowSyncs:
        syncs = FlowSyncs(at)
        self.flows[at] = SimpleNamespace(replicator=SimpleNamespace(syncs=syncs))
        return syncs


def position(group: str, source: TopicPartition, offset: int) -> SyncedPosition:
    target = source._replace(topic=f"a.{source.topic}")
    return SyncedPosition(group, source, target, offset, offset + 100, "", SyncState.SYNCED)


async def test_a_checkpoint_is_written_when_a_position_moved() -> None:
    world = World()
    both = [position("g", T0, 1), position("g", T1, 2)]
    await world.topics.checkpoint({"g": both}, ["g"])
    found = world.sink.checkpoints()
    assert found == [Checkpoint("g", "a.t", 0, 1, 101, ""), Checkpoint("g", "a.t", 1, 2, 102, "")]
    await world.topics.checkpoint({"g": [both[0], position("g", T1, 3)]}, ["g"])
    assert world.sink.checkpoints() == [Checkpoint("g", "a.t", 1, 3, 103, "")]
    await world.topics.checkpoint({}, ["g"])
    assert world.sink.checkpoints() == []


async def test_checkpoints_of_deleted_groups_are_forgotten() -> None:
    world = World()
    both = {name: [position(name, T0, 1), position(name, T1, 2)] for name in "gh"}
    await world.topics.checkpoint(both, "gh")
    await world.topics.checkpoint({}, "h")  # g is deleted
    await world.topics.checkpoint({"h": both["h"][:1]}, "h")  # T1 is copied elsewhere
    world.sink.checkpoints()
    # Whatever happened meanwhile, the present offsets are written.
    await world.topics.checkpoint(both, "gh")
    found = world.sink.checkpoints()
    assert [(each.group, each.partition) for each in found] == [("g", 0), ("g", 1), ("h", 1)]


async def test_positions_of_mixed_partitions_are_kept_apart() -> None:
    world = World()
    exact, mixed = {"g": [position("g", T0, 1)]}, {"g": [position("g", T1, 2)]}
    for _ in range(2):
        await world.topics.checkpoint(exact, exact)
        await world.topics.checkpoint(mixed, mixed, are_mixed=True)
    assert [each.partition for each in world.sink.checkpoints()] == [0, 1]


async def test_a_failed_checkpoint_is_written_later() -> None:
    world = World()
    groups = {"g": [position("g", T0, 1)]}
    world.sink.is_down = True
    with pytest.raises(KafkaError):
        await world.topics.checkpoint(groups, groups)
    world.sink.is_down = False
    await world.topics.checkpoint(groups, groups)
    assert len(world.sink.checkpoints()) == 1


async def test_offset_syncs_of_moved_flows_are_written_and_kept_after_a_failure() -> None:
    world = World()
    syncs = world.flow(T0)
    world.flow(T1)
    syncs.append(Run(0, 100, 10))
    await world.topics.write_offset_syncs()
    assert world.sink.syncs() == [], "it was not reported as moved"
    world.moved.update({T0, T1, TopicPartition("given away", 0)})
    world.sink.is_down = True
    with pytest.raises(KafkaError):
        await world.topics.write_offset_syncs()
    world.sink.is_down = False
    await world.topics.write_offset_syncs()
    assert world.sink.syncs() == [OffsetSync("t", 0, 0, 100), OffsetSync("t", 0, 9, 109)]
    assert world.moved == set()


async def test_a_round_of_offset_syncs_ends_though_flows_move_on() -> None:
    world = World()
    flows = [world.flow(at) for at in (T0, T1)]
    written = 0

    def move_on() -> None:
        nonlocal written
        written += 1
        assert written <= 2, "later moves are for the next round"
        for syncs in flows:
            syncs.append(Run(10 * written, 100 + 10 * written, 10))
        world.moved.update({T0, T1})

    for syncs in flows:
        syncs.append(Run(0, 100, 10))
    world.moved.update({T0, T1})
    world.sink.on_produce = move_on
    await world.topics.write_offset_syncs()
    assert world.moved == {T0, T1}
    world.sink.on_produce = lambda: None
    await world.topics.write_offset_syncs()
    assert world.moved == set()
    lasts = {(each.partition, each.upstream_offset) for each in world.sink.syncs()}
    assert {(0, 29), (1, 29)} <= lasts, "nothing is forgotten"


async def test_heartbeats_do_not_wait_for_offset_syncs() -> None:
    world = World()
    world.flow(T0).append(Run(0, 100, 10))
    world.moved.add(T0)
    world.sink.stalled.add(offset_syncs_topic("a"))
    running = asyncio.create_task(world.topics.run())
    async with asyncio.timeout(60):
        while min(len(world.source.written), len(world.sink.written)) < 3:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
