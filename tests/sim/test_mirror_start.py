"""Where a link begins: earliest, latest, by time; decided once for each partition."""

from __future__ import annotations

import asyncio
from random import Random

from local_cluster.client.model import TopicPartition

from .kafka_double import SimPartition
from .mirror_world import TOPIC, MirrorWorld, SourceWriter
from .virtual_time import run_virtually


def _forget_before(world: MirrorWorld, offset: int) -> None:
    """What is not to be copied is not expected."""
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
        assert world.writers[0].expected, "something was written behind the start"
        await second.stop()

    run_virtually(scenario())


def test_what_is_found_later_is_copied_whole() -> None:
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


def test_a_time_begins_at_its_first_record() -> None:
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
        writer.write_plain(3)  # older again, but behind it in the log
        _forget_before(world, boundary)
        worker = await world.worker("w")
        await world.settle(worker)
        assert len(world.copies(world.partitions[0])) == 7
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


def test_a_time_that_is_still_to_come_begins_at_the_end() -> None:
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
