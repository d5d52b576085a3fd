"""The quiet period of a target partition before a new generation: its effects and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from local_cluster.client.model import TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.flow.flow import Flow
from mirror_maker.formats import Run
from mirror_maker.formats.naming import remote_topic
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Policies
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.scenarios import until
from tests.sim.mirror.world import LIMITS, TOPIC, MirrorWorld, SimWorker, SourceWriter
from tests.sim.virtual_time import run_virtually

SKIP = Policies(recreated="skip")
QUIET_S = LIMITS.epoch_quiet_ms / 1000
OTHER = TopicPartition("z-" + TOPIC, 0)
"""A topic that sorts after the others."""


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def copied_world(seed: int) -> tuple[MirrorWorld, SimWorker]:
    world = MirrorWorld(seed)
    world.link_settings = {"on": SKIP}
    world.limits = replace(LIMITS, proofs_at_once_max=1)
    world.source.create(OTHER.topic, 1)
    world.write(20)
    worker = await world.worker("w")
    await world.settle(worker)
    return world, worker


def create_again(world: MirrorWorld) -> None:
    world.source.create(TOPIC, len(world.partitions))
    world.writers = [
        SourceWriter(world.source.partition(at), Random(seed))
        for seed, at in enumerate(world.partitions)
    ]
    world.write_ends()


async def until_copied(world: MirrorWorld) -> None:
    """Wait until the copies end with everything that the new log has."""

    def is_copied() -> bool:
        for at, writer in zip(world.partitions, world.writers, strict=True):
            wanted = [record[1:] for record in writer.expected]
            if [record[1:] for record in world.copies(at)][-len(wanted) :] != wanted:
                return False
        return True

    await until(is_copied)


def rests(flows: Iterable[Flow]) -> bool:
    return all("a new generation begins at " in (flow.reason or "") for flow in flows)


def arrive_late(copy: SimPartition, producer: tuple[int, int], sequence: int) -> int:
    """Append a record of the old log that a (producer id, epoch) has sent; return its offset."""
    late = bytearray(encode_batch([NewRecord(1, b"late", b"of the old log")]))
    h.patch_producer(late, 0, *producer, sequence)
    h.patch_crc(late, 0)
    place, _ = copy.append(late)
    copy.commit(copy.log_end_offset)
    return place


def test_a_partition_in_its_quiet_period_reports_it_and_holds_up_no_other() -> None:
    async def scenario() -> None:
        world, worker = await copied_world(1)
        create_again(world)
        await until(lambda: rests(worker.flows))
        still = worker.link.stalled().worst
        assert [each.state for each in still] == [FlowState.STARTING] * 2
        # One slot for proofs: a flow in its quiet period must not keep it.
        began_s = now_s()
        worker.link.assign([*world.partitions, OTHER])
        await until(lambda: OTHER in worker.link.flows)
        await until(lambda: worker.link.flows[OTHER].state is FlowState.RUNNING)
        assert rests(worker.link.flows[at] for at in world.partitions)
        worker.link.assign([OTHER])
        await until(lambda: list(worker.link.flows) == [OTHER])
        worker.link.assign([*world.partitions, OTHER])
        await until(lambda: rests(worker.link.flows[at] for at in world.partitions))
        await worker.stop()
        assert now_s() - began_s < QUIET_S, "nothing waited for the quiet period"

    run_virtually(scenario())


def test_a_topic_deleted_for_the_whole_quiet_period_is_opened_at_once() -> None:
    async def scenario() -> None:
        world, worker = await copied_world(2)
        before = [world.copies(at) for at in world.partitions]
        del world.source.topics[TOPIC]
        await until(lambda: all(f.state is FlowState.SOURCE_GONE for f in worker.flows))
        await asyncio.sleep(QUIET_S)
        create_again(world)
        began_s = now_s()
        await until_copied(world)
        assert now_s() - began_s < QUIET_S
        for index, at in enumerate(world.partitions):
            copies, expected = world.copies(at), world.writers[index].expected
            assert copies[: len(before[index])] == before[index]
            assert [r[1:] for r in copies[len(before[index]) :]] == [r[1:] for r in expected]
        await worker.stop()

    run_virtually(scenario())


def test_a_topic_that_comes_back_earlier_waits_for_the_remaining_time() -> None:
    async def scenario() -> None:
        world, worker = await copied_world(3)
        del world.source.topics[TOPIC]
        await until(lambda: all(f.state is FlowState.SOURCE_GONE for f in worker.flows))
        gone_s = now_s()
        await asyncio.sleep(QUIET_S / 2)
        create_again(world)
        await until_copied(world)
        assert QUIET_S <= now_s() - gone_s < 1.5 * QUIET_S
        await worker.stop()

    run_virtually(scenario())


def test_a_late_write_of_the_old_log_restarts_the_quiet_period() -> None:
    async def scenario() -> None:
        world, worker = await copied_world(4)
        flow = worker.link.flows[world.partitions[0]]
        assert flow.replicator is not None
        producer = (flow.replicator.producer_id, flow.replicator.producer_epoch)
        sequence = flow.replicator.block.next_sequence
        copy = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        del world.source.topics[TOPIC]
        await until(lambda: all(f.state is FlowState.SOURCE_GONE for f in worker.flows))
        create_again(world)
        await until(lambda: rests([flow]))
        await asyncio.sleep(QUIET_S / 2)
        # From a worker that was stopped or cut off: it continues the sequence.
        arrive_late(copy, producer, sequence)
        arrived_s = now_s()
        await until_copied(world)
        assert now_s() - arrived_s >= QUIET_S
        assert not worker.failures()
        epochs = [header.producer_epoch for header, _ in copy.batches]
        assert epochs == sorted(epochs), "no batch of the old epoch follows the new one"
        await worker.stop()

    run_virtually(scenario())


def test_a_copy_that_arrives_late_and_is_mapped_is_not_called_lost() -> None:
    """Its worker was slow, not dead: it writes the map when the answer arrives."""

    async def scenario() -> None:
        world, worker = await copied_world(7)
        flow = worker.link.flows[world.partitions[0]]
        assert flow.replicator is not None
        producer = (flow.replicator.producer_id, flow.replicator.producer_epoch)
        block = flow.replicator.block
        source_next, sequence = block.source_next, block.next_sequence
        copy = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        create_again(world)
        await until(lambda: rests([flow]))
        assert flow.gaps() == []
        place = arrive_late(copy, producer, sequence)
        block.append([Run(source_next, place, 1)], source_next + 1, sequence + 1)
        await worker.link.map_store.append(*block.take_records())
        await until_copied(world)
        await until(lambda: flow.gaps() != [])
        assert [(gap.source_from, gap.source_to, gap.target_offset) for gap in flow.gaps()] == [
            (source_next + 1, None, place + 1)
        ]
        await worker.stop()

    run_virtually(scenario())


def test_a_source_that_lists_no_topics_starts_no_quiet_period() -> None:
    async def scenario() -> None:
        world, worker = await copied_world(6)
        world.source.topics.clear()
        await until(lambda: all(f.state is FlowState.SOURCE_GONE for f in worker.flows))
        await asyncio.sleep(QUIET_S)
        create_again(world)
        began_s = now_s()
        await until_copied(world)
        assert now_s() - began_s >= QUIET_S
        await worker.stop()

    run_virtually(scenario())


def test_a_new_owner_of_the_flow_waits_for_the_whole_quiet_period() -> None:
    """What a worker saw before it released the flow says nothing about later writes of others."""

    async def scenario() -> None:
        world, worker = await copied_world(5)
        del world.source.topics[TOPIC]
        await until(lambda: all(f.state is FlowState.SOURCE_GONE for f in worker.flows))
        worker.link.assign([])
        await until(lambda: not worker.link.flows)
        await asyncio.sleep(QUIET_S)
        create_again(world)
        worker.link.assign(world.partitions)
        began_s = now_s()
        await until_copied(world)
        assert now_s() - began_s >= QUIET_S
        await worker.stop()

    run_virtually(scenario())
