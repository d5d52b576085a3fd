"""The target's retention takes unmapped copies: no duplicates, no stop without a reason."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.naming import TopicNames
from mirror_maker.model import DescribedProducer, FlowState
from mirror_maker.rules.trouble import Policies, Trouble
from tests.sim.kafka_double.client import SimClient
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.network import Killed
from tests.sim.mirror.test_mirror_compacted import world_with_unmapped_copies
from tests.sim.mirror.world import TOPIC, MirrorWorld, read_map_topic
from tests.sim.virtual_time import run_virtually


def _target_of(world: MirrorWorld) -> SimPartition:
    names = world.link_settings.get("names", TopicNames())
    return world.target.partition(TopicPartition(names.target_topic("a", TOPIC), 0))


def _forget_records(partition: SimPartition, before: int) -> None:
    """Delete records as retention does; the state of producers stays."""
    partition.batches = [entry for entry in partition.batches if entry[0].next_offset > before]
    partition.log_start_offset = before


async def _check_goes_on(world: MirrorWorld, *, written: int) -> None:
    """Check that later records are copied once and nothing else is, also after another kill."""
    writer = world.writers[0]
    copied = len(writer.expected) - written
    for name in ("next", "after", "last"):
        worker = await world.worker(name)
        await world.settle(worker)
        writer.write_plain(3)
        await world.settle(worker)
        await worker.kill()
        copies = [record[1:] for record in world.copies(world.partitions[0])]
        assert copies == [record[1:] for record in writer.expected[copied:]]


@pytest.mark.parametrize("written", [0, 9], ids=["quiet", "written on"])
@pytest.mark.parametrize("seed", range(4))
def test_retention_took_the_whole_tail(
    seed: int, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = await world_with_unmapped_copies(seed, monkeypatch)
        target = _target_of(world)
        _forget_records(target, target.high_watermark)
        if written:
            world.writers[0].write_plain(written)
        await _check_goes_on(world, written=written)

    run_virtually(scenario())


def test_both_sides_lost_the_front_of_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world = await world_with_unmapped_copies(3, monkeypatch)
        writer, target = world.writers[0], _target_of(world)
        _forget_records(target, target.high_watermark - 16)
        _forget_records(writer.partition, writer.expected[-16].offset)
        await _check_goes_on(world, written=16)

    run_virtually(scenario())


@pytest.mark.parametrize("later_ms", [1_000, -1_000], ids=["the times tell", "nothing tells"])
def test_both_sides_lost_the_whole_tail(later_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target still knows the timestamp of our last batch. Records with later timestamps were
    not copied; about earlier ones nobody knows."""

    async def scenario() -> None:
        world = await world_with_unmapped_copies(4, monkeypatch)
        world.link_settings = {"on": Policies(out_of_range="skip")}
        writer, target = world.writers[0], _target_of(world)
        copied = len(writer.expected)
        _forget_records(target, target.high_watermark)
        writer.write_plain(4)  # nobody copies these
        _forget_records(writer.partition, writer.partition.log_end_offset)
        writer.shift_ms += later_ms
        writer.write_plain(5)
        if later_ms < 0:
            worker = await world.worker("next")
            flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
            doubtful = writer.expected[copied + 4].offset
            assert f"nothing tells whether offset {doubtful}" in (flow.reason or "")
            assert not target.batches
            await worker.stop()
            return
        await _check_goes_on(world, written=5)
        (gap,) = world.gaps(world.partitions[0])
        assert gap.reason == Trouble.OUT_OF_RANGE
        assert (gap.source_from, gap.source_to) == (
            writer.expected[copied].offset, writer.expected[copied + 4].offset,
        )  # fmt: skip

    run_virtually(scenario())


@pytest.mark.parametrize("reason", ["forgotten", "cannot be asked"])
def test_an_undecidable_loss_stops_the_flow_with_its_reason(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = await world_with_unmapped_copies(5, monkeypatch)
        target = _target_of(world)
        _forget_records(target, target.high_watermark)
        if reason == "forgotten":
            target.producers.clear()
        else:
            _ask_in_vain(monkeypatch)
        worker = await world.worker("next")
        flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        assert "nobody can tell which source records" in (flow.reason or "")
        assert not target.batches
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(int(os.environ.get("SIM_SEEDS", "12"))))
def test_chaos_while_retention_is_short(seed: int) -> None:
    """Workers are killed at any step, and their copies may be gone before the next one starts."""

    async def scenario() -> None:
        world = MirrorWorld(seed, partitions=1)
        random, writer = Random(seed), world.writers[0]
        world.network.harm(random)
        world.write(3)
        ever: dict[int, bytes] = {}
        for round_number in range(8):
            step, killed = _killer(random.randint(1, 120))
            worker = await world.worker(f"w{round_number}", step)
            for _ in range(random.randint(0, 12)):
                writer.write()
                await asyncio.sleep(random.uniform(0, 0.02))
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await killed.wait()
            await worker.kill()
            await asyncio.sleep(random.choice([0.0, 5.0]))
            if _is_there(world):
                target = _target_of(world)
                ever |= {header.base_offset: batch for header, batch in target.batches}
                whole = random.random() < 0.5
                before = random.randint(target.log_start_offset, target.high_watermark)
                _forget_records(target, target.high_watermark if whole else before)
        world.network.heal()
        writer.write_plain(2)
        worker = await world.worker("last")
        await world.settle(worker)
        await worker.stop()
        ever |= {header.base_offset: batch for header, batch in _target_of(world).batches}
        copies = [
            record[1:]
            for _, batch in sorted(ever.items())
            for record in decode_batch(batch, 0, h.read_header(batch))
        ]
        assert copies == [record[1:] for record in writer.expected]

    run_virtually(scenario())


def _killer(steps: int) -> tuple[Callable[[], None], asyncio.Event]:
    """Kills a process at one of its steps, and remembers it."""
    killed = asyncio.Event()
    left = iter(range(steps))

    def step() -> None:
        if next(left, None) is None:
            killed.set()
            raise Killed

    return step, killed


def _is_there(world: MirrorWorld) -> bool:
    return TopicNames().target_topic("a", TOPIC) in world.target.topics


def _ask_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*args: object) -> None:
        raise KafkaError(ErrorCode.unsupported_version, "the broker has no DESCRIBE_PRODUCERS")

    monkeypatch.setattr(SimClient, "describe_producer", refuse)


def test_a_shared_target_that_forgot_the_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quiet flow under an identical name: the lost records were foreign."""

    async def scenario() -> None:
        world = MirrorWorld(6, partitions=1)
        world.link_settings = {"names": TopicNames(otherwise="identity")}
        writer = world.writers[0]
        writer.write_plain(4)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.kill()
        target = _target_of(world)
        target.log_end_offset += 20
        target.commit(target.log_end_offset)
        _forget_records(target, target.high_watermark)
        target.producers.clear()
        writer.write_plain(3)
        worker = await world.worker("next")
        await world.settle(worker)
        assert sum(header.records_count for header, _ in target.batches) == 3
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("commit_s", [0.0, 2.0, None], ids=["at once", "later", "is cut"])
def test_a_write_in_flight_to_a_shared_target_does_not_count_as_lost(
    commit_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of foreign records is lost; our first write after them was in flight."""

    async def scenario() -> None:
        world = MirrorWorld(7, partitions=1)
        world.link_settings = {"names": TopicNames(otherwise="identity")}
        writer = world.writers[0]
        writer.write_plain(4)
        worker = await world.worker("w")
        await world.settle(worker)
        producer_id = worker.link.map_store.registration.producer_id
        await worker.kill()
        target = _target_of(world)
        for _ in range(2):
            theirs = encode_batch([NewRecord(0, None, b"theirs")] * 10)
            target.place(theirs, target.log_end_offset)
        target.commit(target.log_end_offset)
        _forget_records(target, target.high_watermark - 10)
        writer.write_plain(3)
        records = [NewRecord(*record[1:]) for record in writer.expected[4:]]
        write = encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=4)
        asked = _arrive_when_asked(target, write, commit_s, monkeypatch)
        worker = await world.worker("next")
        await world.settle(worker)
        writer.write_plain(2)
        await world.settle(worker)
        await worker.kill()
        assert asked, "the scenario did not happen"
        _check_copied_and_mapped(world, producer_id, writer.expected[4:])

    run_virtually(scenario())


def _arrive_when_asked(
    target: SimPartition, write: bytearray, commit_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Return the offset of the write, which lands when the target is first asked for a producer. It
    is committed as much later, or lost with its leader."""
    describe = SimClient.describe_producer
    landed: list[int] = []

    async def arrive(
        client: SimClient, node_id: int, at: TopicPartition, producer_id: int
    ) -> DescribedProducer | None:
        if not landed:
            before = deepcopy(target.producers)
            landed.append(target.append(write)[0])
            loop = asyncio.get_running_loop()
            if commit_s is None:
                loop.call_later(2.0, target.cut_back, landed[0])
                loop.call_later(2.0, setattr, target, "producers", before)
            else:
                loop.call_later(commit_s, target.commit, target.log_end_offset)
        return await describe(client, node_id, at, producer_id)

    monkeypatch.setattr(SimClient, "describe_producer", arrive)
    return landed


def _check_copied_and_mapped(world: MirrorWorld, producer_id: int, expected: list[Record]) -> None:
    """Check that each of these records is on the target once, in order, where the map says."""
    copies = [
        record
        for header, batch in _target_of(world).batches
        if header.producer_id == producer_id
        for record in decode_batch(batch, 0, header)
    ]
    assert [copy[1:] for copy in copies] == [record[1:] for record in expected]
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(*world.partitions[0])
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    assert [offset_map.source_of(copy.offset) for copy in copies] == [r.offset for r in expected]
    places = [offset_map.place_from(record.offset).target_offset for record in expected]
    assert places == [copy.offset for copy in copies]
