"""Where a link begins: earliest, latest, by time; decided once per partition."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.formats import TranslationState
from mirror_maker.formats.naming import remote_topic
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Trouble
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.world import TOPIC, MirrorWorld, SourceWriter
from tests.sim.virtual_time import run_virtually


def _forget_before(world: MirrorWorld, offset: int) -> None:
    """Forget the records that are not to be copied."""
    writer = world.writers[0]
    writer.expected = [record for record in writer.expected if record.offset >= offset]


def test_latest_begins_at_the_end_and_a_restart_does_not_move_it() -> None:
    async def scenario() -> None:
        world = MirrorWorld(61, partitions=1)
        world.link_settings = {"start": "latest"}
        world.write(20)
        _forget_before(world, world.source.partition(world.partitions[0]).high_watermark)
        worker = await world.worker("w")
        while not worker.flows or worker.flows[0].replicator is None:
            await asyncio.sleep(0.05)
        await worker.kill()
        world.write(15)
        second = await world.worker("w")
        await world.settle(second)
        world.check_copies()
        world.check_map(complete=True)
        assert world.writers[0].expected, "something was written after the start"
        await second.stop()

    run_virtually(scenario())


def test_a_partition_found_later_is_copied_whole() -> None:
    async def scenario() -> None:
        world = MirrorWorld(62, partitions=1)
        world.link_settings = {"start": "latest"}
        world.write(20)
        _forget_before(world, world.source.partition(world.partitions[0]).high_watermark)
        worker = await world.worker("w")
        while not worker.flows or worker.flows[0].replicator is None:
            await asyncio.sleep(0.05)
        topic = world.source.topics[TOPIC]
        topic.partitions.append(SimPartition())
        at = TopicPartition(TOPIC, 1)
        world.source.leaders[at] = 0
        world.partitions.append(at)
        world.writers.append(SourceWriter(topic.partitions[1], Random(1)))
        for _ in range(10):
            world.writers[1].write()
        while at not in worker.link.known:
            await asyncio.sleep(0.05)
        worker.link.assign(world.partitions)
        world.write(20)
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


def test_a_timestamp_starts_at_its_first_record() -> None:
    async def scenario() -> None:
        world = MirrorWorld(63, partitions=1)
        writer = world.writers[0]
        writer.write_plain(5)
        late = 1_000 + 600  # the writer's times are 1,000 to 1,500 ms
        world.link_settings = {"start": "1970-01-01T00:00:01.600+00:00"}
        boundary = writer.partition.log_end_offset
        writer.shift_ms = late
        writer.write_plain(4)
        writer.shift_ms = 0
        writer.write_plain(3)  # older again, but later in the log
        _forget_before(world, boundary)
        worker = await world.worker("w")
        await world.settle(worker)
        assert len(world.copies(world.partitions[0])) == 7
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


def test_a_future_timestamp_starts_at_the_end() -> None:
    async def scenario() -> None:
        world = MirrorWorld(64, partitions=1)
        world.link_settings = {"start": "2199-01-01T00:00:00Z"}
        world.write(10)
        _forget_before(world, world.source.partition(world.partitions[0]).high_watermark)
        worker = await world.worker("w")
        while not worker.flows or worker.flows[0].replicator is None:
            await asyncio.sleep(0.05)
        world.write(10)
        await world.settle(worker)
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


def test_a_record_that_arrives_during_the_lookup_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        world = MirrorWorld(67, partitions=1)
        writer = world.writers[0]
        writer.write_plain(5)
        world.link_settings = {"start": "1970-01-01T00:00:01.600+00:00"}
        _forget_before(world, writer.partition.log_end_offset)
        writer.shift_ms = 600  # the writer's times are 1,000 to 1,500 ms
        at_time = LogOffsets.at_time

        async def look(logs: LogOffsets, at: TopicPartition, timestamp_ms: int) -> int:
            offset = await at_time(logs, at, timestamp_ms)
            writer.write_plain(3)
            return offset

        monkeypatch.setattr(LogOffsets, "at_time", look)
        worker = await world.worker("w")
        await world.settle(worker)
        assert writer.expected
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


def _mirror_by_hand(world: MirrorWorld, copied: int, noted: int) -> None:
    """Set up what MirrorMaker 2 leaves: records copied, and the offset noted for some of them."""
    at = world.partitions[0]
    expected = world.writers[0].expected
    copy = world.target.create(remote_topic("a", at.topic), 1).partitions[0]
    for record in expected[:copied]:
        copy.place(encode_batch([NewRecord(*record[1:])]), copy.log_end_offset)
    copy.commit(copy.log_end_offset)
    offsets = world.target.create("mm2-offsets.a.internal", 3).partitions[1]
    place = b'["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"t"}]'
    other = b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]'
    notes = [NewRecord(1, other, b'{"offset":0}'), NewRecord(1, place, b'{"offset":1}')]
    if noted:
        last = b'{"offset":%d}' % expected[noted - 1].offset
        notes.append(NewRecord(1, place, last))
    else:
        notes.append(NewRecord(1, place, None))
    offsets.place(encode_batch(notes), 0)
    offsets.commit(offsets.log_end_offset)


@pytest.mark.parametrize(
    ("copied", "noted"), [(12, 12), (15, 12), (0, 0), (4, 0)], ids=lambda n: str(n)
)
def test_a_mirror_maker_2_copy_is_continued(copied: int, noted: int) -> None:
    async def scenario() -> None:
        world = MirrorWorld(65, partitions=1)
        world.link_settings = {"start": "mm2"}
        world.write(30)
        expected = list(world.writers[0].expected)
        assert len({record[1:] for record in expected}) == len(expected)
        _mirror_by_hand(world, copied, noted)
        worker = await world.worker("w")
        await world.settle(worker)
        world.write(10)
        await world.settle(worker)
        world.check_copies()
        replicator = worker.flows[0].replicator
        assert replicator is not None
        offset_map = replicator.offset_map
        places = [offset_map.source_of(copy.offset) for copy in world.copies(world.partitions[0])]
        assert places[copied:] == [r.offset for r in world.writers[0].expected[copied:]]
        if copied:
            assert places[:copied] == [None] * copied
            before = offset_map.translate(expected[0].offset)
            assert before.state is TranslationState.INEXACT
        await worker.stop()

    run_virtually(scenario())


def test_a_target_that_contradicts_the_noted_offset_is_not_taken_over() -> None:
    async def scenario() -> None:
        world = MirrorWorld(66, partitions=1)
        world.link_settings = {"start": "mm2"}
        world.write(30)
        _mirror_by_hand(world, 9, 12)  # three fewer than were noted
        worker = await world.worker("w")
        flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        assert "0 ways to match" in (flow.reason or "")
        assert len(world.copies(world.partitions[0])) == 9
        await worker.stop()

    run_virtually(scenario())
