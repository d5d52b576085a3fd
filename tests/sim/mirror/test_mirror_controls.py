"""Pause, resume and throttle, on workers that share a link and come back after a kill."""

from __future__ import annotations

import asyncio

import pytest

from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.model import FlowState, LinkState
from tests.sim.mirror.world import TOPIC, MirrorWorld
from tests.sim.virtual_time import run_virtually


def test_a_pause_holds_for_every_worker_until_it_is_resumed() -> None:
    async def scenario() -> None:
        world = MirrorWorld(21)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.link.control(lambda controls: controls.pause(PausedPart(TOPIC, 0)))
        held, running = world.partitions
        before = len(world.copies(held))
        world.write(40)
        async with asyncio.timeout(60):
            while len(world.copies(running)) < len(world.writers[1].expected):
                await asyncio.sleep(0.05)
        assert len(world.copies(held)) == before
        assert worker.link.flows[held].current_state() is FlowState.HELD
        await worker.kill()
        successor = await world.worker("w")
        await asyncio.sleep(10)
        assert len(world.copies(held)) == before
        assert successor.link.flows[held].current_state() is FlowState.HELD
        await successor.link.control(lambda controls: controls.pause(PausedPart()))
        assert successor.link.state() is LinkState.HELD
        assert successor.link.reason == "an operator has paused it"
        # One worker gets the order, another one follows it.
        other = await world.worker("other")
        await other.link.map_store.catch_up()
        await asyncio.sleep(1)
        await other.link.control(lambda controls: controls.resume(PausedPart()))
        await other.kill()
        await world.settle(successor)
        world.check_copies()
        world.check_map(complete=True)
        await successor.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_rate_limits_copying_and_is_raised_while_the_link_runs(is_restarted: bool) -> None:
    """Also after a restart, from the first record on."""

    async def scenario(controls: Controls) -> None:
        world = MirrorWorld(22, partitions=1)
        world.write(5)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.link.control(lambda _: controls)
        if is_restarted:
            await worker.kill()
        for _ in range(10):
            world.writers[0].write_plain(40)
        if is_restarted:
            worker = await world.worker("w")
        expected = len(world.writers[0].expected)
        await asyncio.sleep(20)  # without the limit it would take less than one
        assert len(world.copies(world.partitions[0])) < expected
        unlimited = Controls(source_bytes_per_second=0, target_bytes_per_second=0)
        await worker.link.control(lambda _: unlimited)
        await world.settle(worker, seconds_max=60)
        world.check_copies()
        await worker.stop()

    for controls in (
        Controls(source_bytes_per_second=100),
        Controls(target_bytes_per_second=100),
    ):
        run_virtually(scenario(controls))
