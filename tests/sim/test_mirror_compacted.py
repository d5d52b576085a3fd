"""Sources that lose records between their copying and the map's writing: compaction, retention."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from local_cluster.records.batch import NewRecord, Record, decode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.model import FlowState
from mirror_maker.trouble import Policies, Trouble
from tests.compacted_batches import encode_cleaned

from .kafka_double_log import SimPartition
from .mirror_world import TOPIC, MirrorWorld, read_map_topic
from .virtual_time import run_virtually


async def _refuse_to_write(*args: object) -> None:
    raise KafkaError(ErrorCode.network_exception, "the map cannot be written")


async def world_with_unmapped_copies(seed: int, monkeypatch: pytest.MonkeyPatch) -> MirrorWorld:
    """Copied by a worker that was killed before it wrote the map: eight batches of four."""
    world = MirrorWorld(seed, partitions=1)
    world.write(10)
    first = await world.worker("w")
    await world.settle(first)
    await first.kill()
    unmapped = await world.worker("unmapped")
    monkeypatch.setattr(unmapped.link.context.map_store, "append", _refuse_to_write)
    for _ in range(8):
        world.writers[0].write_plain(4)
    end = world.source.partition(world.partitions[0]).log_end_offset
    async with asyncio.timeout(60):
        while not (
            unmapped.flows
            and (replicator := unmapped.flows[0].replicator) is not None
            and replicator.source_next >= end
        ):
            await asyncio.sleep(0.05)
    await unmapped.kill()
    return world


def _compact(partition: SimPartition, gone: set[int]) -> None:
    """Take records out of plain batches, as compaction does: the offsets of the rest stay."""
    kept_batches = []
    for header, batch in partition.batches:
        records = decode_batch(batch, 0, header)
        if header.is_control or not any(record.offset in gone for record in records):
            kept_batches.append((header, batch))
            continue
        kept = [n for n, record in enumerate(records) if record.offset not in gone]
        if kept:
            rebuilt = encode_cleaned([NewRecord(*record[1:]) for record in records], kept)
            alone = SimPartition()
            alone.leader_epoch = header.partition_leader_epoch
            alone.log_end_offset = header.base_offset
            alone.place(rebuilt, header.base_offset)
            kept_batches += alone.batches
    partition.batches = kept_batches


def _check(world: MirrorWorld, before: list[Record], gone: set[int]) -> None:
    """Every record once, in order; the map knows those that the source still has."""
    at = world.partitions[0]
    copies = world.copies(at)
    assert [r[1:] for r in copies] == [r[1:] for r in before]
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(at.topic, at.partition)
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    for original, copy in zip(before, copies, strict=True):
        known = offset_map.source_of(copy.offset)
        assert known == (None if original.offset in gone else original.offset)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("continues", [True, False], ids=["written on", "quiet"])
def test_compaction_of_what_is_not_mapped_yet(
    seed: int, continues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        random = Random(seed)
        world = await world_with_unmapped_copies(seed, monkeypatch)
        writer = world.writers[0]
        unmapped = [record.offset for record in writer.expected[-32:]]
        # The last record of a log is never compacted.
        candidates = unmapped if continues else unmapped[:-1]
        if continues:
            writer.write_plain(3)
        gone = set(random.sample(candidates, random.randint(1, len(candidates))))
        if continues and seed % 3 == 0:
            gone |= set(unmapped[-6:])
        before = list(writer.expected)
        world.source.topics[TOPIC].configs["cleanup.policy"] = "compact"
        _compact(writer.partition, gone)
        worker = await world.worker("next")
        await world.settle(worker)
        _check(world, before, gone)
        await worker.kill()
        writer.write_plain(2)
        after = await world.worker("after")
        await world.settle(after)
        _check(world, list(writer.expected), gone)
        await after.stop()

    run_virtually(scenario())


def test_holes_in_a_log_that_is_not_compacted_are_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        world = await world_with_unmapped_copies(1, monkeypatch)
        _compact(world.writers[0].partition, {world.writers[0].expected[-5].offset})
        worker = await world.worker("next")
        flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        assert "is not a copy" in (flow.reason or "")
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("behind", [-10, 0, 20], ids=["inside", "at the end", "beyond"])
def test_retention_of_what_is_not_mapped_yet(behind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside: some copies have no source left. Beyond: records were lost that nobody copied."""

    async def scenario() -> None:
        world = await world_with_unmapped_copies(2, monkeypatch)
        world.link_settings = {"on": Policies(out_of_range="skip")}
        writer = world.writers[0]
        copied = list(writer.expected)
        for _ in range(15):
            writer.write_plain(4)
        first = copied[-1].offset + 1 + behind
        partition = writer.partition
        header = next(x for x, _ in partition.batches if x.base_offset >= first)
        partition.log_start_offset = header.base_offset
        worker = await world.worker("next")
        await world.settle(worker)
        expected = copied + [
            record
            for record in writer.expected[len(copied) :]
            if record.offset >= header.base_offset
        ]
        copies = [record[1:] for record in world.copies(world.partitions[0])]
        assert copies == [record[1:] for record in expected]
        lost = len(writer.expected) - len(expected)
        assert bool(lost) == (behind > 0)
        gaps = world.gaps(world.partitions[0])
        assert len(gaps) >= bool(lost)
        for gap in gaps:
            assert (gap.reason, gap.source_to) == (Trouble.OUT_OF_RANGE, header.base_offset)
        await worker.kill()
        writer.write_plain(2)
        after = await world.worker("after")
        await world.settle(after)
        assert len(world.copies(world.partitions[0])) == len(expected) + 2
        await after.stop()

    run_virtually(scenario())


def test_a_source_whose_last_copied_epoch_was_compacted_away_is_not_taken_for_a_cut_one() -> None:
    async def scenario() -> None:
        world = MirrorWorld(5, partitions=1)
        writer, partition = world.writers[0], world.source.partition(world.partitions[0])
        writer.write_plain(4)
        before = len(partition.batches)
        partition.leader_epoch = 1
        writer.write_aborted()
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.stop()
        del partition.batches[before:]
        writer.write_plain(2)
        after = await world.worker("after")
        await world.settle(after)
        world.check_copies()
        await after.stop()

    run_virtually(scenario())
