"""The target compacts copies that are not mapped yet: the next worker continues on its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from local_cluster.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    pack_header,
    patch_crc,
    read_header,
)
from mirror_maker.formats import OffsetMap
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.verdicts import Verdict
from mirror_maker.model import FlowState
from mirror_maker.repair.plan import How
from mirror_maker.rules.trouble import Trouble
from tests.referee.undecided_tails import is_undecided
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.test_mirror_compacted import _refuse_to_write, world_with_unmapped_copies
from tests.sim.mirror.translation_checks import check_translations
from tests.sim.mirror.world import TOPIC, MirrorWorld, read_map_topic
from tests.sim.virtual_time import run_virtually
from tests.support.compacted_batches import without_records


def _compact(partition: SimPartition, gone: set[int]) -> None:
    """Remove records from their batches, and empty batches from the log."""
    cleaned = []
    for header, batch in partition.batches:
        kept = batch if header.is_control else without_records(batch, gone)
        if kept is not None:
            cleaned.append((read_header(kept), kept))
    partition.batches = cleaned


def _sample(random: Random, offsets: Sequence[int]) -> set[int]:
    """Draw single records, and every record of some stretch; never the last one of a log."""
    candidates = offsets[:-1]
    gone = set(random.sample(candidates, random.randint(1, len(candidates))))
    first = random.randrange(len(candidates))
    return gone | set(candidates[first : first + random.randint(4, 14)])


def _map_of(world: MirrorWorld) -> OffsetMap:
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(*world.partitions[0])
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    return offset_map


def _check(world: MirrorWorld, copied: Sequence[Record], places: dict[int, int]) -> int:
    """Check that copies and compacted records together are the copied records, each once, and that
    every translation is true. Return how many translations are inexact."""
    left = {copy.offset: copy[1:] for copy in world.copies(world.partitions[0])}
    expected = {places[record.offset]: record[1:] for record in copied}
    assert left.items() <= expected.items()
    offset_map = _map_of(world)
    inexact = check_translations(offset_map, places, copied[-1].offset + 1)
    sources = {target: source for source, target in places.items()}
    for target in left:
        known = offset_map.source_of(target)
        assert known == sources[target] or any(
            entry.source_from <= sources[target] < (entry.source_to or 0)
            and entry.target_offset <= target < (entry.target_to or 0)
            for entry in world.entries(world.partitions[0], GapKind.COPIED)
        )
    return inexact


def _check_audit(world: MirrorWorld) -> int:
    """Check that the audit has no finding; return how many records are complete or cleaned."""
    at = world.partitions[0]
    assert not world.findings(at)
    verdicts = world.verdicts(at)
    assert verdicts.keys() <= {Verdict.COMPLETE, Verdict.CLEANED}
    return sum(bucket.records_count for bucket in verdicts.values())


@pytest.mark.parametrize("source_is", ["whole", "compactable", "compacted"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("SIM_SEEDS", "12"))))
def test_the_target_compacted_unmapped_copies(
    seed: int, source_is: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole batches and parts of batches. The source is compacted too, or may be, or is not."""

    async def scenario() -> None:
        random = Random(seed)
        kinds = random.choice([0, random.randint(3, 9)])
        world = await world_with_unmapped_copies(
            seed, monkeypatch, mapped=6 if seed % 3 else 0, unmapped_kinds=kinds
        )
        writer, at = world.writers[0], world.partitions[0]
        copied = list(writer.expected)
        copies = world.copies(at)
        places = {r.offset: c.offset for r, c in zip(copied, copies, strict=True)}
        world.target.topics[f"a.{TOPIC}"].configs["cleanup.policy"] = "compact"
        _compact(world.target.partition(TopicPartition(f"a.{TOPIC}", 0)), _sample(
            random, [copy.offset for copy in copies]
        ))  # fmt: skip
        if source_is != "whole":
            world.source.topics[TOPIC].configs["cleanup.policy"] = "compact"
        if source_is == "compacted":
            _compact(writer.partition, _sample(random, [record.offset for record in copied]))
        for name in ("next", "after"):
            end = places[copied[-1].offset] + 1
            writer.write_plain(random.randint(1, 5))
            written = writer.expected[len(copied) :]
            worker = await world.worker(name)
            await world.settle(worker)
            places |= {record.offset: end + n for n, record in enumerate(written)}
            copied = list(writer.expected)
            inexact = _check(world, copied, places)
            assert not inexact or source_is == "compacted", "the places are known"
            assert not world.gaps(at)
            assert _check_audit(world) == len(copied)
            await worker.kill()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(6))
def test_the_target_compacts_between_two_proofs_of_the_same_tail(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        random = Random(seed)
        world = await world_with_unmapped_copies(seed, monkeypatch)
        writer, at = world.writers[0], world.partitions[0]
        copied, copies = list(writer.expected), world.copies(at)
        places = {r.offset: c.offset for r, c in zip(copied, copies, strict=True)}
        for topics, name in ((world.target.topics, f"a.{TOPIC}"), (world.source.topics, TOPIC)):
            topics[name].configs["cleanup.policy"] = "compact"
        copy = world.target.partition(TopicPartition(f"a.{TOPIC}", 0))
        for number in range(2):
            _compact(copy, set(random.sample(sorted(places.values())[:-1], 9)))
            _compact(writer.partition, set(random.sample(sorted(places)[:-1], 9)))
            killed = await world.worker(f"killed {number}")
            monkeypatch.setattr(killed.link.map_store, "append", _refuse_to_write)
            async with asyncio.timeout(60):
                while not (killed.flows and killed.flows[0].replicator is not None):
                    await asyncio.sleep(0.05)
            await killed.kill()
        worker = await world.worker("next")
        await world.settle(worker)
        _check(world, copied, places)
        _check_audit(world)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(6))
def test_copies_compacted_among_foreign_records(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If foreign records lay between our batches, the places of the lost copies are a hole."""

    async def scenario() -> None:
        random = Random(seed)
        world = MirrorWorld(seed, partitions=1)
        world.link_settings = {"names": TopicNames(otherwise="identity")}
        writer = world.writers[0]
        unmapped = await world.worker("unmapped")
        writer.write_plain(4)
        await world.settle(unmapped)
        monkeypatch.setattr(unmapped.link.map_store, "append", _refuse_to_write)
        copy = world.target.partition(TopicPartition(TOPIC, 0))
        for _ in range(6):
            writer.write_plain(4)
            async with asyncio.timeout(60):
                while len(_ours(copy, writer.expected)) < len(writer.expected):
                    await asyncio.sleep(0.05)
            copy.place(encode_batch([NewRecord(0, None, b"theirs")] * 3), copy.log_end_offset)
            copy.commit(copy.log_end_offset)
        await unmapped.kill()
        copied, copies = list(writer.expected), _ours(copy, writer.expected)
        places = {r.offset: c.offset for r, c in zip(copied, copies, strict=True)}
        world.target.topics[TOPIC].configs["cleanup.policy"] = "compact"
        # Two whole batches of ours and the foreign records between them; some records of a third.
        first = random.randint(1, 3) * 4
        gone = {c.offset for c in copies[first : first + 8]}
        _compact(copy, set(range(min(gone), max(gone) + 1)) | {copies[-6].offset})
        writer.write_plain(2)
        worker = await world.worker("next")
        await world.settle(worker)
        left = _ours(copy, writer.expected)
        expected = [r for r in writer.expected if places.get(r.offset) not in gone]
        assert [r[1:] for r in left] == [
            r[1:] for r in expected if places.get(r.offset) != copies[-6].offset
        ]
        places |= {r.offset: c.offset for r, c in zip(writer.expected[-2:], left[-2:], strict=True)}
        offset_map = _map_of(world)
        inexact = check_translations(offset_map, places, writer.expected[-1].offset + 1)
        assert inexact == 8, "the offsets in the hole, except its first"
        (entry,) = world.entries(world.partitions[0], GapKind.COPIED)
        assert entry.copied_count == 8 + 1, "the first copy after it shows where it ends"
        assert (entry.source_from, entry.source_to) == (
            copied[first].offset, copied[first + 8].offset + 1,
        )  # fmt: skip
        assert all(entry.target_offset <= at < (entry.target_to or 0) for at in gone)
        assert not world.gaps(world.partitions[0])
        _check_audit(world)
        await worker.stop()

    run_virtually(scenario())


def _ours(copy: SimPartition, originals: Sequence[Record]) -> list[Record]:
    return [
        record
        for header, batch in copy.batches
        if header.next_offset <= copy.high_watermark and header.producer_id >= 0
        for record in decode_batch(batch, 0, header)
    ]


@pytest.mark.parametrize("whole", [True, False], ids=["a batch", "a record"])
def test_a_copy_that_is_not_compacted_must_be_complete(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = await world_with_unmapped_copies(1, monkeypatch)
        copy = world.target.partition(TopicPartition(f"a.{TOPIC}", 0))
        header = copy.batches[-4][0]
        _compact(copy, set(range(header.base_offset, header.next_offset)[: None if whole else 1]))
        worker = await world.worker("next")
        flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        assert f"a.{TOPIC} is not compacted" in (flow.reason or "")
        await worker.stop()

    run_virtually(scenario())


def test_a_tail_whose_end_is_undecided_stops_until_it_is_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target has lost the last copies, and the source some records before and after them."""

    async def scenario() -> None:
        world = await world_with_unmapped_copies(2, monkeypatch)
        writer, at = world.writers[0], world.partitions[0]
        copy = world.target.partition(TopicPartition(f"a.{TOPIC}", 0))
        copied, copies = list(writer.expected), world.copies(at)
        for topics, name in ((world.target.topics, f"a.{TOPIC}"), (world.source.topics, TOPIC)):
            topics[name].configs["cleanup.policy"] = "compact"
        _empty_last_batch(copy, {each.offset for each in copies[-8:]})
        writer.write_plain(4)
        written = writer.expected[-4:]
        _compact(writer.partition, {each.offset for each in (*copied[-8:-2], *written[:2])})
        worker = await world.worker("next")
        flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        assert is_undecided(flow.reason)
        assert is_undecided((await worker.link.examine(at))["stop"]), "as the referee asks"
        await worker.link.repair(at, How.RECOPY)
        async with asyncio.timeout(600):
            while (
                flow.state is not FlowState.RUNNING or world.copies(at)[-1][1:] != written[-1][1:]
            ):
                await asyncio.sleep(0.5)
        found = [each[1:] for each in world.copies(at)]
        assert all(each[1:] in found for each in (*copied[-2:], *written[2:]))
        await worker.stop()

    run_virtually(scenario())


def _empty_last_batch(partition: SimPartition, gone: set[int]) -> None:
    """Compact a log whose last batch stays empty, as the last one of its producer."""
    last = partition.batches[-1][0]
    _compact(partition, gone)
    batch = bytearray(
        pack_header(
            last._replace(
                batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES,
                attributes=last.attributes & ~CODEC_MASK,
                base_timestamp=last.max_timestamp,
                records_count=0,
            )
        )
    )
    patch_crc(batch, 0)
    partition.batches.append((read_header(batch), bytes(batch)))
