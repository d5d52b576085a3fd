"""What every kind of mirror world must survive: a kill at every step, and chaos."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest

from tests.sim.kafka_double.network import Killed
from tests.sim.mirror.world import MirrorWorld, SimWorker
from tests.sim.virtual_time import run_virtually

LATE_SECONDS = 5.0
"""Every message in flight has arrived by then: more than `Network.late_ms_max`."""
SOME_OR_EVERY_STEP = pytest.mark.parametrize(
    "stride", [3, pytest.param(1, marks=pytest.mark.long)], ids=["some", "every"]
)
"""Two of three steps are left to the long run."""


class KillAtStep:
    """Raises Killed at the nth step of the process, and counts the steps."""

    def __init__(self, step: int | None) -> None:
        self.at = step
        self.count = 0
        self.killed = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        if self.at is not None and self.count >= self.at:
            self.killed.set()
            raise Killed


def kill_at_every_step(
    make_world: Callable[[], MirrorWorld],
    *,
    batches: int,
    batches_later: int,
    check_undisturbed: Callable[[SimWorker], None] = lambda worker: None,
    steps_min: int = 50,
    stride: int = 1,
) -> None:
    """Kill a worker once at every call to and return from the network, or at every `stride`-th.

    `batches` are written at the beginning, `batches_later` after the kill. `check_undisturbed` gets
    the worker that nobody kills. It must take more than `steps_min` steps, or the scenario does not
    serve its purpose.
    """
    steps = run_virtually(_steps_of_undisturbed(make_world, batches, check_undisturbed))
    assert steps > steps_min
    for step in range(1, steps + 1, stride):
        run_virtually(_killed_at(step, make_world, batches, batches_later))


async def _steps_of_undisturbed(
    make_world: Callable[[], MirrorWorld], batches: int, check: Callable[[SimWorker], None]
) -> int:
    world = make_world()
    world.write(batches)
    steps = KillAtStep(None)
    worker = await world.worker("w", steps)
    await world.settle(worker)
    world.check_everything()
    check(worker)
    await worker.kill()
    return steps.count


async def _killed_at(
    step: int, make_world: Callable[[], MirrorWorld], batches: int, batches_later: int
) -> None:
    """Kill a worker at its nth step on the network, and let another one take over."""
    world = make_world()
    world.write(batches)
    kill = KillAtStep(step)
    first = await world.worker("w", kill)
    with suppress(TimeoutError):  # it may be done before its nth step
        async with asyncio.timeout(30):
            await kill.killed.wait()
    await first.kill()
    world.check_prefix()
    world.check_map(complete=False)
    world.write(batches_later)
    second = await world.worker("w")
    await world.settle(second)
    world.check_everything()
    assert not second.failures()
    await second.stop()


Disturb = Callable[[MirrorWorld, Random, list[SimWorker], str], Awaitable[None]]
"""Disturbs a world or its workers; a worker that it adds gets the name."""


async def kill_or_overlap(
    world: MirrorWorld, random: Random, workers: list[SimWorker], name: str
) -> None:
    """Kill the last worker, or start another one beside it."""
    if random.random() < 0.5:
        await workers.pop().kill()
    else:
        workers.append(await world.worker(name))


async def chaos(
    world: MirrorWorld,
    random: Random,
    *,
    batches: int,
    batches_per_turn_max: int,
    turns: tuple[int, int] = (3, 6),
    disturb: Disturb = kill_or_overlap,
) -> None:
    """Lose and delay requests and responses, and disturb the workers, while the source is written.

    Then heal the network; one worker must complete everything. `turns` are the least and the
    largest number of disturbances.
    """
    world.network.harm(random)
    world.write(batches)
    workers = [await world.worker("w0")]
    for turn in range(random.randint(*turns)):
        await asyncio.sleep(random.uniform(0.0, 0.4))
        world.write(random.randint(0, batches_per_turn_max))
        world.check_prefix()
        await disturb(world, random, workers, f"w{turn}-overlap")
        if not workers:
            workers.append(await world.worker(f"w{turn + 1}"))
        world.check_map(complete=False)
    world.network.heal()
    while len(workers) > 1:
        await workers.pop(random.randrange(len(workers))).kill()
    await world.settle(workers[0])
    await asyncio.sleep(LATE_SECONDS)
    await world.audited(workers[0])  # late writes of others are replaced
    world.check_everything()
    assert not workers[0].failures()
    await workers[0].stop()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(120):
        while not is_so():
            await asyncio.sleep(0.05)
