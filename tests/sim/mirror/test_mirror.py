"""The mirror in simulated worlds: killed at every step, overlapping, cut off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import PRODUCER_EPOCH_MAX, BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.naming import remote_topic
from mirror_maker.model import FlowState, LinkState
from mirror_maker.rules.trouble import Trouble
from tests.sim.kafka_double.client import SimClient
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.scenarios import chaos, kill_at_every_step
from tests.sim.mirror.world import (
    LIMITS,
    TOPIC,
    MirrorWorld,
    SimWorker,
    SourceWriter,
    read_map_topic,
)
from tests.sim.virtual_time import run_virtually

SEEDS = range(int(os.environ.get("SIM_SEEDS", "30")))
"""`SIM_SEEDS=2000` plays a long run; `-k 'seed-17'` plays one failing seed."""


def test_a_worker_copies_everything_once() -> None:
    async def scenario() -> None:
        world = MirrorWorld(1)
        world.write(80)
        worker = await world.worker("w")
        await world.settle(worker)
        world.write(40)
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]
)
def test_killed_at_every_step(seed: int) -> None:
    kill_at_every_step(lambda: MirrorWorld(seed, partitions=1), batches=12, batches_later=4)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_chaos(seed: int) -> None:
    """Lost requests, lost and late responses, lost fetch sessions, brokers without a slot for one,
    moved leaders, kills, and two workers at once."""

    async def scenario() -> None:
        world = MirrorWorld(seed)
        world.source.fetch_session_slots = (1_000, 1, 0)[seed % 3]
        await chaos(
            world,
            Random(seed),
            batches=30,
            batches_per_turn_max=20,
            turns=(3, 8),
            disturb=_disturb_and_lose_sessions if seed % 2 else _disturb,
        )

    run_virtually(scenario())


async def _disturb_and_lose_sessions(
    world: MirrorWorld, random: Random, workers: list[SimWorker], name: str
) -> None:
    world.source.lose_fetch_sessions()
    await _disturb(world, random, workers, name)


async def _disturb(world: MirrorWorld, random: Random, workers: list[SimWorker], name: str) -> None:
    match random.choice(("kill", "kill", "overlap", "lease", "leader", "stop")):
        case "kill":
            await workers.pop().kill()
        case "stop":
            await workers.pop().stop()
        case "overlap":
            workers.append(await world.worker(name))
        case "lease":
            workers[-1].lease.valid = False
            await asyncio.sleep(random.uniform(0.0, 0.2))
            workers[-1].lease.valid = True
        case "leader":
            for cluster, topic in ((world.source, TOPIC), (world.target, f"a.{TOPIC}")):
                if topic in cluster.topics:
                    cluster.move_leader(random.choice(world.partitions)._replace(topic=topic))


def _run_until_settled(prepare: Callable[[MirrorWorld], None]) -> MirrorWorld:
    async def scenario() -> MirrorWorld:
        world = MirrorWorld(5, partitions=1)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.kill()
        prepare(world)
        return world

    world: MirrorWorld = run_virtually(scenario())
    return world


def _failures_of_next_worker(world: MirrorWorld) -> list[str]:
    async def scenario() -> list[str]:
        # The world was made on another loop; only its data is used from here on.
        worker = await world.worker("next")
        try:
            async with asyncio.timeout(60):
                while not worker.failures():
                    await asyncio.sleep(0.05)
        finally:
            await worker.kill()
        return worker.failures()

    reasons: list[str] = run_virtually(scenario())
    return reasons


def test_a_target_that_lost_records_stops_the_flow() -> None:
    def cut(world: MirrorWorld) -> None:
        partition = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        header, _ = partition.batches.pop()
        partition.log_end_offset = partition.high_watermark = header.base_offset

    assert "lost records" in _failures_of_next_worker(_run_until_settled(cut))[0]


def test_a_recreated_source_topic_stops_the_flow() -> None:
    def make_anew(world: MirrorWorld) -> None:
        world.source.create(TOPIC, 1)

    assert "re-created" in _failures_of_next_worker(_run_until_settled(make_anew))[0]


def test_a_source_that_lost_the_position_stops_the_flow() -> None:
    def trim(world: MirrorWorld) -> None:
        world.write(5)
        partition = world.source.partition(world.partitions[0])
        partition.log_start_offset = partition.high_watermark

    assert "out of range" in _failures_of_next_worker(_run_until_settled(trim))[0]


def test_foreign_records_without_a_map_stop_the_flow() -> None:
    async def scenario() -> list[str]:
        world = MirrorWorld(7, partitions=1)
        world.write(3)
        topic = world.target.create(remote_topic("a", TOPIC), 1)
        batch = world.source.partition(world.partitions[0]).batches[0][1]
        topic.partitions[0].place(batch, 0)
        topic.partitions[0].commit(topic.partitions[0].log_end_offset)
        worker = await world.worker("w")
        async with asyncio.timeout(60):
            while not worker.failures():
                await asyncio.sleep(0.05)
        await worker.kill()
        return worker.failures()

    assert "no offset map explains" in run_virtually(scenario())[0]


def test_other_records_at_our_sequence_stop_the_flow() -> None:
    """A predecessor with another view of the source wrote them, and they were not committed when
    the
    tail was read. The write is answered as a repetition; reading back shows the difference."""

    def place_uncommitted(world: MirrorWorld) -> None:
        partition = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        last = partition.batches[-1][0]
        writer = world.writers[0]
        writer.write_plain(1)
        impostor = encode_batch(
            [NewRecord(1, b"another", b"record")],
            producer_id=last.producer_id,
            producer_epoch=last.producer_epoch,
            base_sequence=last.last_sequence + 1,
        )
        partition.place(impostor, partition.log_end_offset)

    async def scenario() -> list[str]:
        world = MirrorWorld(5, partitions=1)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.kill()
        place_uncommitted(world)
        partition = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        asyncio.get_running_loop().call_later(
            2.0, lambda: partition.commit(partition.log_end_offset)
        )
        second = await world.worker("next")
        async with asyncio.timeout(60):
            while not second.failures():
                await asyncio.sleep(0.05)
        await second.kill()
        return second.failures()

    assert "holds other records" in run_virtually(scenario())[0]


def _refuse_epoch_zero(world: MirrorWorld) -> None:
    """Let the target refuse the link's producer id at epoch 0 from now on."""

    def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
        if header.producer_id >= 0 and header.producer_epoch == 0:
            return ErrorCode.unknown_producer_id
        return None

    world.target.refuse = refuse


def test_a_refused_producer_state_ends_with_a_new_epoch() -> None:
    async def scenario() -> None:
        world = MirrorWorld(11)
        world.write(30)
        worker = await world.worker("w")
        await world.settle(worker)
        _refuse_epoch_zero(world)
        started_s = asyncio.get_running_loop().time()
        world.write(30)
        await world.settle(worker)
        waited_ms = (asyncio.get_running_loop().time() - started_s) * 1000
        assert waited_ms >= LIMITS.epoch_quiet_ms
        world.check_copies()
        world.check_map(complete=True)
        await worker.kill()
        world.write(10)
        second = await world.worker("next")
        await world.settle(second)
        world.check_copies()
        world.check_map(complete=True)
        epochs = {
            header.producer_epoch
            for partition in world.target.topics[remote_topic("a", TOPIC)].partitions
            for header, _ in partition.batches
        }
        assert epochs == {0, 1}
        await second.stop()

    run_virtually(scenario())


def test_a_refusal_of_the_last_epoch_stops_the_flow_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = SimClient.init_producer_id

    async def at_the_last_epoch(client: SimClient) -> tuple[int, int]:
        return (await ask(client))[0], PRODUCER_EPOCH_MAX

    monkeypatch.setattr(SimClient, "init_producer_id", at_the_last_epoch)

    async def scenario() -> None:
        world = MirrorWorld(13, partitions=1)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        refused = 0

        def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
            nonlocal refused
            if header.producer_id < 0:
                return None
            refused += 1
            return ErrorCode.unknown_producer_id

        accept, world.target.refuse = world.target.refuse, refuse
        world.writers[0].write_plain(3)
        flow = await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        assert "32767 is the last" in (flow.reason or "")
        before = refused
        await asyncio.sleep(10 * LIMITS.epoch_quiet_ms / 1000)
        assert refused == before, "it was retried, though nobody asked for it"
        world.check_prefix()
        world.target.refuse = accept
        assert flow.retry()
        async with asyncio.timeout(60):
            while flow.state is FlowState.FAILED:
                await asyncio.sleep(0.01)
        await world.settle(worker)
        world.check_everything()
        await worker.stop()

    run_virtually(scenario())


def test_a_write_of_an_old_epoch_that_comes_late_is_found() -> None:
    async def scenario() -> list[str]:
        world = MirrorWorld(12, partitions=1)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        _refuse_epoch_zero(world)
        world.writers[0].write_plain(3)
        await world.settle(worker)
        await worker.kill()
        partition = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        old = next(batch for header, batch in partition.batches if header.producer_epoch == 0)
        partition.place(old, partition.log_end_offset)
        partition.commit(partition.log_end_offset)
        second = await world.worker("next")
        async with asyncio.timeout(60):
            while not second.failures():
                await asyncio.sleep(0.05)
        await second.kill()
        return second.failures()

    assert "at epoch 0" in run_virtually(scenario())[0]


def test_retention_that_took_unmapped_copies_is_counted_by_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        world = MirrorWorld(13, partitions=1)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.kill()
        # Later batches are copied but not mapped, as after a kill before the map is written.
        unmapped = await world.worker("unmapped")
        monkeypatch.setattr(unmapped.link.map_store, "append", _refuse_to_write)
        world.write(20)
        at = world.partitions[0]
        while not (
            at in unmapped.link.flows
            and (replicator := unmapped.link.flows[at].replicator) is not None
            and replicator.source_next >= world.source.partition(at).log_end_offset
        ):
            await asyncio.sleep(0.05)
        await unmapped.kill()
        partition = world.target.topics[remote_topic("a", TOPIC)].partitions[0]
        everything = world.copies(at)
        partition.log_start_offset = partition.batches[-3][0].base_offset
        del partition.batches[:-3]
        world.write(20)
        second = await world.worker("next")
        await world.settle(second)
        copied = everything + [r for r in world.copies(at) if r.offset > everything[-1].offset]
        assert [r[1:] for r in copied] == [r[1:] for r in world.writers[0].expected]
        await second.stop()

    run_virtually(scenario())


async def _refuse_to_write(*args: object) -> None:
    raise KafkaError(ErrorCode.network_exception, "the map cannot be written")


def test_a_target_that_replaces_timestamps_stops_the_flow() -> None:
    async def scenario() -> list[str]:
        world = MirrorWorld(14, partitions=1)
        world.write(5)
        worker = await world.worker("w")
        original = SimClient.produce

        async def produce(self: SimClient, *args: Any, **options: Any) -> Any:
            answers = await original(self, *args, **options)
            return {at: answer._replace(log_append_time_ms=5) for at, answer in answers.items()}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SimClient, "produce", produce)
            async with asyncio.timeout(60):
                while not worker.failures():
                    await asyncio.sleep(0.05)
        await worker.kill()
        return worker.failures()

    assert "replaces timestamps" in run_virtually(scenario())[0]


def test_an_uncopyable_batch_stops_its_partition_after_earlier_batches() -> None:
    async def scenario() -> None:
        world = MirrorWorld(15)
        world.write(20)
        partition = world.source.partition(world.partitions[0])
        before = list(world.writers[0].expected)
        batch = partition.batches[-1][1]
        broken = bytearray(batch)
        broken[-1] ^= 0xFF
        base_offset = partition.log_end_offset
        partition.place(broken, base_offset)
        partition.commit(partition.log_end_offset)
        world.write(20)
        worker = await world.worker("w")
        async with asyncio.timeout(60):
            while not worker.failures():
                await asyncio.sleep(0.05)
        assert f"source offset {base_offset}" in worker.failures()[0]
        assert "CRC" in worker.failures()[0]
        copied = [record[1:] for record in world.copies(world.partitions[0])]
        assert copied == [record[1:] for record in before]
        other = worker.link.flows[world.partitions[1]]
        end = world.source.partition(world.partitions[1]).log_end_offset
        while other.replicator is None or other.replicator.source_next < end:
            await asyncio.sleep(0.05)
        assert other.state is FlowState.RUNNING
        assert worker.link.state() is LinkState.DEGRADED
        await worker.stop()

    run_virtually(scenario())


def test_new_topics_and_partitions_are_copied() -> None:
    async def scenario() -> None:
        world = MirrorWorld(16, partitions=2)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        topic = world.source.topics[TOPIC]
        topic.partitions.append(SimPartition())
        at = TopicPartition(TOPIC, 2)
        world.source.leaders[at] = 0
        world.partitions.append(at)
        world.writers.append(SourceWriter(topic.partitions[2], Random(1)))
        while at not in worker.link.known:
            await asyncio.sleep(0.05)
        worker.link.assign(world.partitions)
        world.write(30)
        await world.settle(worker)
        world.check_copies()
        assert len(world.target.topics[remote_topic("a", TOPIC)].partitions) == 3
        await worker.stop()

    run_virtually(scenario())


def test_a_handed_over_flow_is_mapped_first() -> None:
    async def scenario() -> None:
        world = MirrorWorld(17)
        world.write(40)
        worker = await world.worker("w")
        while not worker.flows or not any(flow.totals().records for flow in worker.flows):
            await asyncio.sleep(0.001)
        worker.link.assign([])
        while worker.flows:
            await asyncio.sleep(0.001)
        topic = read_map_topic(world.target)
        for at in world.partitions:
            flow = topic.latest_flow(at.topic, at.partition)
            offset_map = topic.offset_map(flow) if flow else None
            mapped = sum(r.records_count for r in offset_map.runs()) if offset_map else 0
            assert mapped == len(world.copies(at))
        worker.link.assign(world.partitions)
        await world.settle(worker)
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_nothing_of_a_recreated_topic_is_copied(seed: int) -> None:
    """The topic may be re-created at any moment between two rounds of discovery."""

    async def scenario() -> None:
        world = MirrorWorld(seed, partitions=1)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        before = list(world.writers[0].expected)
        await asyncio.sleep(Random(seed).uniform(0, 0.1))
        world.source.create(TOPIC, 1)
        anew = SourceWriter(world.source.partition(world.partitions[0]), Random(seed))
        while anew.partition.log_end_offset < before[-1].offset + 20:
            anew.write()
        async with asyncio.timeout(60):
            while not worker.failures():
                await asyncio.sleep(0.01)
        assert "re-created" in worker.failures()[0]
        await asyncio.sleep(5)
        copied = [record[1:] for record in world.copies(world.partitions[0])]
        assert copied == [record[1:] for record in before]
        await worker.kill()

    run_virtually(scenario())


def test_a_target_recreated_in_mid_stream_is_not_filled_silently() -> None:
    """It gets the copies from the start, or none; never from the middle on."""

    async def scenario() -> None:
        world = MirrorWorld(18, partitions=1)
        world.write(30)
        worker = await world.worker("w")
        await world.settle(worker)
        world.target.create(remote_topic("a", TOPIC), 1)
        world.write(5)
        expected = len(world.writers[0].expected)
        async with asyncio.timeout(60):
            while not worker.failures() and len(world.copies(world.partitions[0])) < expected:
                await asyncio.sleep(0.01)
        # Which of the three depends on when discovery finds the new topic.
        for reason in worker.failures():
            assert "lost records" in reason or "no offset map explains" in reason
        if not worker.failures():
            world.check_copies()
        await worker.kill()

    run_virtually(scenario())
