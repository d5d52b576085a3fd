"""Foreign records in a copy that is not shared."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.naming import TopicNames
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Policies, Policy, Trouble
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.translation_checks import check_translations
from tests.sim.mirror.world import TOPIC, MirrorWorld, SimWorker, SourceWriter, read_map_topic
from tests.sim.virtual_time import run_virtually

FOREIGN = b"nobody copied this"


def _copy_of(world: MirrorWorld) -> SimPartition:
    names = world.link_settings.get("names", TopicNames())
    return world.target.partition(TopicPartition(names.target_topic("a", TOPIC), 0))


def _intrude(world: MirrorWorld, count: int = 1) -> int:
    """Write into the copy as any client could; return the offset."""
    partition = _copy_of(world)
    batch = encode_batch([NewRecord(0, None, FOREIGN)] * count)
    offset, _ = partition.append(batch)
    partition.commit(partition.log_end_offset)
    return offset


def _own_copies(world: MirrorWorld) -> list[Record]:
    return [r for r in world.copies(world.partitions[0]) if r.value != FOREIGN]


def _check(world: MirrorWorld) -> None:
    """Check the copies, the map, and that the journal has exactly the foreign offsets."""
    at = world.partitions[0]
    own, expected = _own_copies(world), world.expected(at)
    assert [r[1:] for r in own] == [r[1:] for r in expected]
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(*at)
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    places = {e.offset: c.offset for e, c in zip(expected, own, strict=True)}
    check_translations(offset_map, places, expected[-1].offset + 1)


def _told(world: MirrorWorld) -> set[int]:
    """Return the target offsets that the journal calls foreign."""
    entries = world.entries(world.partitions[0], GapKind.FOREIGN)
    return {n for each in entries for n in range(each.target_offset, each.target_to or 0)}


async def _settled(world: MirrorWorld, name: str, policy: Policy) -> SimWorker:
    world.link_settings = {"on": Policies(foreign=policy)}
    world.writers[0].write_plain(4)
    worker = await world.worker(name)
    await world.settle(worker)
    return worker


@pytest.mark.parametrize("policy", ["fail", "pause"])
def test_a_foreign_record_stops_the_flow_and_is_named(policy: Policy) -> None:
    async def scenario() -> None:
        world = MirrorWorld(1, partitions=1)
        worker = await _settled(world, "w", policy)
        offset = _intrude(world)
        world.writers[0].write_plain(3)
        state = FlowState.FAILED if policy == "fail" else FlowState.PAUSED
        flow = await worker.until_troubled(Trouble.FOREIGN, state)
        assert f"a.t-0 holds records at offsets {offset} that this link" in (flow.reason or "")
        await worker.kill()
        # Batches written after it, before it was noticed, are in the map.
        second = await world.worker("next")
        flow = await second.until_troubled(Trouble.FOREIGN, state)
        assert f"at offsets {offset} that" in (flow.reason or "")
        assert not _told(world)
        await second.stop()
        assert len(_own_copies(world)) in (4, 7)

    run_virtually(scenario())


def test_a_foreign_record_is_skipped_with_a_journal_entry() -> None:
    async def scenario() -> None:
        world = MirrorWorld(2, partitions=1)
        worker = await _settled(world, "w", "skip")
        offset = _intrude(world, 2)
        world.writers[0].write_plain(3)
        await world.settle(worker)
        assert worker.flows[0].restarts == 0, "copying continues meanwhile"
        _check(world)
        assert _told(world) == {offset, offset + 1}
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(40))
def test_foreign_records_among_kills(seed: int) -> None:
    """At any time and for any worker, the journal gets each foreign record and nothing else."""

    async def scenario() -> None:
        random = Random(seed)
        world = MirrorWorld(seed, partitions=1)
        world.network.harm(random, lost=(0.0, 0.02), late=(0.0, 0.05))
        worker = await _settled(world, "w", "skip")
        foreign: set[int] = set()
        for turn in range(6):
            world.write(random.randint(0, 5))
            if random.random() < 0.7:
                count = random.randint(1, 3)
                offset = _intrude(world, count)
                foreign |= set(range(offset, offset + count))
            await asyncio.sleep(random.uniform(0, 0.2))
            if random.random() < 0.4:
                await worker.kill()
                worker = await world.worker(f"w{turn}")
        world.network.heal()
        world.writers[0].write_plain(2)
        await world.settle(worker)
        await asyncio.sleep(5)
        await world.settle(worker)
        _check(world)
        assert _told(world) == foreign
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize(
    "settings",
    [{"names": TopicNames(otherwise="identity")}, {"names": TopicNames(merge=(TOPIC,))},
     {"on_unmapped_target": "append"}],
    ids=["identity", "merge", "append"],
)  # fmt: skip
def test_foreign_records_in_a_shared_copy_are_no_trouble(settings: dict[str, object]) -> None:
    async def scenario() -> None:
        world = MirrorWorld(3, partitions=1)
        world.link_settings = settings
        world.writers[0].write_plain(4)
        worker = await world.worker("w")
        await world.settle(worker)
        _intrude(world)
        world.writers[0].write_plain(3)
        await world.settle(worker)
        assert worker.flows[0].restarts == 0
        assert not world.entries(world.partitions[0], GapKind.FOREIGN)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_foreign_records_before_a_recreated_source_are_reported(policy: Policy) -> None:
    """The new generation begins after it, so no later proof would meet it."""

    async def scenario() -> None:
        world = MirrorWorld(7, partitions=1)
        first = await _settled(world, "w", "fail")
        await first.kill()
        offset = _intrude(world, 2)
        at = world.partitions[0]
        world.source.create(TOPIC, 1)
        world.writers = [SourceWriter(world.source.partition(at), Random(1))]
        world.writers[0].write_plain(3)
        world.link_settings = {"on": Policies(foreign=policy, recreated="skip")}
        worker = await world.worker("next")
        if policy == "fail":
            flow = await worker.until_troubled(Trouble.FOREIGN, FlowState.FAILED)
            assert f"offsets {offset}..{offset + 1} " in (flow.reason or "")
            await worker.stop()
            return
        await world.settle(worker, is_audited=False)
        assert _told(world) == {offset, offset + 1}
        own = [record[1:] for record in _own_copies(world)]
        assert own[4:] == [record[1:] for record in world.writers[0].expected]
        await worker.stop()

    run_virtually(scenario())
