"""Runs of tiny batches, copied as one each: cut anew by every fetch, exactly once all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats.naming import remote_topic
from mirror_maker.passthrough import CopyPath

from .mirror_world import LIMITS, TOPIC, KillAtStep, MirrorWorld, SimWorker
from .virtual_time import run_virtually


class TinyWorld(MirrorWorld):
    """Its sources are full of batches of one record or two, with other kinds now and then."""

    def __init__(self, seed: int, partitions: int = 1) -> None:
        super().__init__(seed, partitions)
        # A fetch brings some batches and cuts off another: where, depends on when it is sent.
        self.limits = replace(
            LIMITS,
            fetch_partition_bytes_max=self.random.choice((900, 1_500)),
            partition_pending_bytes_max=4_000,
            produce_request_bytes_max=2_000,
        )
        for writer in self.writers:
            writer.codecs = (self.random.choice((0, 3)),)

    def write(self, batches: int) -> None:
        for _ in range(batches):
            writer = self.random.choice(self.writers)
            if self.random.random() < 0.1:
                writer.write()
            else:
                writer.write_plain(self.random.randint(1, 2))


def _coalesced(worker: SimWorker) -> int:
    return sum(flow.totals().batches[CopyPath.COALESCED] for flow in worker.link.flows.values())


async def _killed_at(seed: int, step: int | None) -> int:
    """A worker that dies at its nth step on the network, and another that takes over."""
    world = TinyWorld(seed)
    world.write(40)
    kill = KillAtStep(step)
    first = await world.worker("w", kill)
    if step is None:
        await world.settle(first)
        assert _coalesced(first) > 8
        await first.kill()
        return kill.count
    try:
        async with asyncio.timeout(30):
            await kill.killed.wait()
    except TimeoutError:
        pass  # it was done before its nth step
    await first.kill()
    world.check_prefix()
    world.check_map(complete=False)
    world.write(10)
    second = await world.worker("w")
    await world.settle(second)
    world.check_copies()
    world.check_map(complete=True)
    assert not second.failures()
    await second.stop()
    return kill.count


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_every_step_with_tiny_batches(seed: int) -> None:
    steps = run_virtually(_killed_at(seed, None))
    assert steps > 50
    for step in range(1, steps + 1):
        run_virtually(_killed_at(seed, step))


@pytest.mark.parametrize("seed", range(25), ids=lambda seed: f"seed-{seed}")
def test_chaos_with_tiny_batches(seed: int) -> None:
    """Lost and late messages, kills, and two workers at once that cut their runs differently."""
    run_virtually(_chaos(seed))


async def _chaos(seed: int) -> None:
    world = TinyWorld(seed, partitions=2)
    random = Random(seed)
    network = world.network
    network.lost_request = random.choice((0.0, 0.01, 0.05))
    network.lost_answer = random.choice((0.0, 0.01, 0.05))
    network.late_arrival = random.choice((0.0, 0.02, 0.1))
    world.write(60)
    workers = [await world.worker("w0")]
    for turn in range(random.randint(3, 6)):
        await asyncio.sleep(random.uniform(0.0, 0.4))
        world.write(random.randint(0, 60))
        world.check_prefix()
        if random.random() < 0.5:
            await workers.pop().kill()
        else:
            workers.append(await world.worker(f"w{turn}-overlap"))
        if not workers:
            workers.append(await world.worker(f"w{turn + 1}"))
        world.check_map(complete=False)
    network.heal()
    while len(workers) > 1:
        await workers.pop(random.randrange(len(workers))).kill()
    await world.settle(workers[0])
    await asyncio.sleep(5)  # whatever is still on its way arrives
    world.check_copies()
    world.check_map(complete=True)
    assert not workers[0].failures()
    await workers[0].stop()


def test_a_target_that_takes_no_larger_batches_gets_them_as_they_are() -> None:
    async def scenario() -> None:
        world = TinyWorld(3)
        largest = 150
        refused: list[BatchHeader] = []

        def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
            if at.topic != remote_topic("a", TOPIC) or header.size_bytes <= largest:
                return None
            refused.append(header)
            return ErrorCode.message_too_large

        for _ in range(60):
            world.writers[0].write_plain(1)
        assert all(
            header.size_bytes <= largest
            for header, _ in world.source.partition(world.partitions[0]).batches
        )
        world.target.refuse = refuse
        worker = await world.worker("w")
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        assert not worker.failures()
        assert len(refused) == 1, "it is not tried again and again"
        await worker.stop()

    run_virtually(scenario())
