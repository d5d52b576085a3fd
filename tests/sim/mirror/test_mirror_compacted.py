"""Sources that lose records after they were copied and before the map is written."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any

import pytest

from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import Gap, OffsetMap, encode_gap, gaps_topic_name
from mirror_maker.formats.gaps import GapKind
from mirror_maker.model import FlowState
from mirror_maker.resume import log_comparison, tail_reader
from mirror_maker.rules.trouble import Policies, Trouble
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.translation_checks import check_translations
from tests.sim.mirror.world import LINK, TOPIC, MirrorWorld, SourceWriter, read_map_topic
from tests.sim.virtual_time import run_virtually
from tests.support.compacted_batches import without_records


async def _refuse_to_write(*args: object) -> None:
    raise KafkaError(ErrorCode.network_exception, "the map cannot be written")


async def world_with_unmapped_copies(
    seed: int, monkeypatch: pytest.MonkeyPatch, *, mapped: int = 10, unmapped_kinds: int = 0
) -> MirrorWorld:
    """Return a world with copies of a worker that was killed before it wrote the map.

    They are eight batches of four records, or as many batches and transactions of all kinds as
    given. `mapped` batches precede them.
    """
    world = MirrorWorld(seed, partitions=1)
    world.write(mapped)
    first = await world.worker("w")
    await world.settle(first)
    await first.kill()
    unmapped = await world.worker("unmapped")
    monkeypatch.setattr(unmapped.link.map_store, "append", _refuse_to_write)
    world.write(unmapped_kinds)
    for _ in range(0 if unmapped_kinds else 8):
        world.writers[0].write_plain(4)
    end = world.source.partition(world.partitions[0]).batches[-1][0].next_offset
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
    """Remove records from their batches, as compaction does: the other offsets stay."""
    cleaned = []
    for header, batch in partition.batches:
        kept = batch if header.is_control else without_records(batch, gone)
        if kept is not None:
            cleaned.append((read_header(kept), kept))
    partition.batches = cleaned


def _check(world: MirrorWorld, copied: list[Record], gone: set[int]) -> OffsetMap:
    """Check that every record is there once and in order, that every translation is true, and that
    the journal has the copies without a source."""
    at = world.partitions[0]
    copies = world.copies(at)
    assert [r[1:] for r in copies] == [r[1:] for r in copied]
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(at.topic, at.partition)
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    places = {original.offset: copy.offset for original, copy in zip(copied, copies, strict=True)}
    check_translations(offset_map, places, copied[-1].offset + 1)
    for original in copied:
        known = offset_map.source_of(places[original.offset])
        assert known == original.offset or original.offset in gone
        if known is None:
            assert any(
                entry.source_from <= original.offset < (entry.source_to or 0)
                and entry.target_offset <= places[original.offset] < (entry.target_to or 0)
                for entry in world.entries(at, GapKind.COPIED)
            )
    for entry in world.entries(at, GapKind.COPIED):
        inside = [r for r in copied if entry.source_from <= r.offset < (entry.source_to or 0)]
        assert sum(r.offset in gone for r in inside) == entry.copied_count
    return offset_map


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("continues", [True, False], ids=["written on", "quiet"])
def test_compaction_of_unmapped_copies(
    seed: int, continues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        random = Random(seed)
        world = await world_with_unmapped_copies(seed, monkeypatch)
        writer = world.writers[0]
        unmapped = [record.offset for record in writer.expected[-32:]]
        # Compaction never takes the last record of a log.
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


@pytest.mark.parametrize("seed", range(12))
def test_compaction_continues_between_two_proofs_of_unmapped_copies(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker wrote its journal entry, and was killed before it wrote the map."""

    async def scenario() -> None:
        random = Random(seed)
        world = await world_with_unmapped_copies(seed, monkeypatch)
        writer = world.writers[0]
        unmapped = [record.offset for record in writer.expected[-32:]]
        writer.write_plain(3)
        world.source.topics[TOPIC].configs["cleanup.policy"] = "compact"
        gone: set[int] = set()
        for number in range(2):
            gone |= {*random.sample(unmapped, random.randint(1, 20))}
            _compact(writer.partition, gone)
            killed = await world.worker(f"killed {number}")
            monkeypatch.setattr(killed.link.map_store, "append", _refuse_to_write)
            async with asyncio.timeout(60):
                while not (killed.flows and killed.flows[0].replicator is not None):
                    await asyncio.sleep(0.05)
            await killed.kill()
        before = list(writer.expected)
        worker = await world.worker("next")
        await world.settle(worker)
        _check(world, before, gone)
        await worker.stop()

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
def test_retention_of_unmapped_copies(behind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the tail, copies lose their source. Beyond it, records are lost that nobody copied."""

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
        gone = {record.offset for record in copied if record.offset < header.base_offset}
        _check(world, expected, gone)
        lost = len(writer.expected) - len(expected)
        assert bool(lost) == (behind > 0)
        gaps = world.gaps(world.partitions[0])
        assert len(gaps) >= bool(lost)
        for gap in gaps:
            assert (gap.reason, gap.source_to) == (Trouble.OUT_OF_RANGE, header.base_offset)
            assert gap.source_from == copied[-1].offset + 1, "copied records are not called lost"
        await worker.kill()
        writer.write_plain(2)
        after = await world.worker("after")
        await world.settle(after)
        assert len(world.copies(world.partitions[0])) == len(expected) + 2
        await after.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("is_first", [True, False], ids=["nothing mapped", "mapped before"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("SIM_SEEDS", "20"))))
def test_any_loss_at_the_source_before_the_map_was_written(
    seed: int, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of every kind, also transactions. The source loses its beginning up to any offset, or
    records anywhere. Nobody copied some of the lost records."""

    async def scenario() -> None:
        random = Random(seed)
        world = await world_with_unmapped_copies(
            seed, monkeypatch, mapped=0 if is_first else 6, unmapped_kinds=random.randint(2, 8)
        )
        world.link_settings = {"on": Policies(out_of_range="skip")}
        writer, at = world.writers[0], world.partitions[0]
        copied = list(writer.expected)
        world.write(random.randint(0, 4))
        partition = writer.partition
        first = random.randint(0, partition.log_end_offset)
        gone: set[int] = set()
        if random.random() < 0.5:
            world.source.topics[TOPIC].configs["cleanup.policy"] = "compact"
            offsets = [record.offset for record in writer.expected[:-1]]
            gone = set(random.sample(offsets, random.randint(0, len(offsets))))
            _compact(partition, gone)
        else:
            partition.log_start_offset = first
            gone = {record.offset for record in writer.expected if record.offset < first}
        writer.write_plain(3)
        worker = await world.worker("next")
        await world.settle(worker)
        uncopied = {record.offset for record in writer.expected[len(copied) :]}
        expected = [r for r in writer.expected if r.offset not in gone & uncopied]
        _check(world, expected, gone)
        told = world.gaps(at)
        for offset in gone & uncopied:
            is_told = any(gap.source_from <= offset < (gap.source_to or 0) for gap in told)
            assert is_told or partition.log_start_offset <= offset, "compaction took it"
        for gap in told:
            inside = any(gap.source_from <= r.offset < (gap.source_to or 0) for r in copied)
            holes = world.entries(at, GapKind.COPIED)
            assert not inside or any(hole.source_from < gap.source_from for hole in holes)
        await worker.kill()
        writer.write_plain(2)
        after = await world.worker("after")
        await world.settle(after)
        _check(world, [*expected, *writer.expected[-2:]], gone)
        await after.stop()

    run_virtually(scenario())


def test_a_source_whose_last_copied_epoch_was_compacted_is_not_truncated() -> None:
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


def test_a_false_loss_entry_of_an_older_worker_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its block ends before the copies, and its journal says that none of them was copied."""

    async def scenario() -> None:
        world = await world_with_unmapped_copies(3, monkeypatch)
        writer, at = world.writers[0], world.partitions[0]
        copied = list(writer.expected)
        first = copied[-10].offset
        writer.partition.log_start_offset = first
        topic = read_map_topic(world.target)
        flow = topic.latest_flow(*at)
        assert flow is not None
        opening, block = topic.opening(flow), topic.last_block(flow, 0)
        assert opening is not None
        assert block is not None
        older = Gap(
            flow=flow, producer_epoch=0, nonce=1, link=LINK, target_topic=f"a.{TOPIC}",
            source_from=block.source_next, source_to=first, records_count=None,
            reason="out_of_range", detail="", target_offset=block.target_next, noticed_at_ms=0,
            worker_id="older",
        )  # fmt: skip
        journal = world.target.topics[gaps_topic_name(LINK)].partitions[0]
        journal.place(encode_batch([NewRecord(0, *encode_gap(older))]), journal.log_end_offset)
        journal.commit(journal.log_end_offset)
        assert world.gaps(at) == [older]
        worker = await world.worker("next")
        await world.settle(worker)
        gone = {record.offset for record in copied if record.offset < first}
        _check(world, copied, gone)
        assert world.gaps(at) == []
        (entry,) = world.entries(at, GapKind.COPIED)
        assert (entry.source_from, entry.source_to) == (block.source_next, first)
        await worker.stop()

    run_virtually(scenario())


def test_a_topic_recreated_before_its_map_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world = await world_with_unmapped_copies(4, monkeypatch)
        at = world.partitions[0]
        topic = read_map_topic(world.target)
        former = topic.latest_flow(*at)
        assert former is not None
        mapped = topic.offset_map(former)
        assert mapped is not None
        before = world.copies(at)
        world.link_settings = {"on": Policies(recreated="skip")}
        world.source.create(TOPIC, 1)
        world.writers = [SourceWriter(world.source.partition(at), Random(1))]
        world.writers[0].write_plain(5)
        worker = await world.worker("next")
        await world.settle(worker)
        copies = world.copies(at)
        assert [r[1:] for r in copies[len(before) :]] == [r[1:] for r in world.writers[0].expected]
        (copied,) = world.entries(at, GapKind.COPIED)
        (lost,) = world.gaps(at)
        assert copied.flow == lost.flow == former
        assert copied.source_from == mapped.source_next
        assert (copied.target_offset, copied.target_to) == (mapped.target_next, len(before))
        assert copied.copied_count == 32
        # In a dense topic exactly the uncopied records are lost; here there are none.
        assert (lost.source_from, lost.source_to) == (mapped.source_next + 32, None)
        assert (lost.reason, lost.target_offset) == ("recreated", len(before))
        await worker.stop()

    run_virtually(scenario())


def test_a_topic_recreated_during_a_proof_is_no_loss_at_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source is read by name, and the new topic does not fit the unmapped copies."""

    async def scenario() -> None:
        world = await world_with_unmapped_copies(4, monkeypatch)
        world.link_settings = {"on": Policies(recreated="skip")}
        before = len(world.copies(world.partitions[0]))
        reads = 0

        async def recreate_first(*args: Any, **options: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads == 1:
                world.source.create(TOPIC, 1)
                partition = world.source.partition(world.partitions[0])
                world.writers = [SourceWriter(partition, Random(1))]
                world.writers[0].write_plain(60)
            return await tail_reader.read_tail(*args, **options)

        monkeypatch.setattr(log_comparison, "read_tail", recreate_first)
        worker = await world.worker("next")
        await world.settle(worker, is_audited=False)
        copies = world.copies(world.partitions[0])
        assert [r[1:] for r in copies[before:]] == [r[1:] for r in world.writers[0].expected]
        await worker.stop()

    run_virtually(scenario())


def test_copies_of_a_deleted_topic_follow_an_earlier_loss() -> None:
    """The entry about the loss stays, and the copies do not count as those of the lost records."""

    async def scenario() -> None:
        world = MirrorWorld(6, partitions=1)
        world.link_settings = {"on": Policies(out_of_range="skip", recreated="skip")}
        writer, at = world.writers[0], world.partitions[0]
        writer.write_plain(4)
        first = await world.worker("w")
        await world.settle(first)
        await first.kill()
        writer.write_plain(3)
        writer.partition.log_start_offset = writer.partition.log_end_offset
        writer.write_plain(2)
        unmapped = await world.worker("unmapped")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unmapped.link.map_store, "append", _refuse_to_write)
            async with asyncio.timeout(60):
                while len(world.copies(at)) < 6:
                    await asyncio.sleep(0.05)
            await unmapped.kill()
        world.source.create(TOPIC, 1)
        world.writers = [SourceWriter(world.source.partition(at), Random(1))]
        world.writers[0].write_plain(5)
        worker = await world.worker("next")
        await world.settle(worker, is_audited=False)
        (copied,) = world.entries(at, GapKind.COPIED)
        assert (copied.source_from, copied.copied_count) == (7, 2)
        assert [(gap.source_from, gap.source_to) for gap in world.gaps(at)] == [(4, 7), (9, None)]
        await worker.stop()

    run_virtually(scenario())
