"""The mirror under client quotas: above one, a fetch response has no error and no partition."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from tests.sim.mirror.scenarios import chaos
from tests.sim.mirror.world import MirrorWorld
from tests.sim.virtual_time import run_virtually


class Quotas:
    """Let both clusters throttle half of all fetches."""

    def __init__(self, world: MirrorWorld, random: Random) -> None:
        self.held_back: Counter[str] = Counter()
        self._random = random
        world.source.throttle_ms = lambda: self._throttle_ms("source")
        world.target.throttle_ms = lambda: self._throttle_ms("target")

    def _throttle_ms(self, cluster: str) -> int:
        if self._random.random() < 0.5:
            return 0
        self.held_back[cluster] += 1
        return self._random.randint(1, 200)


def test_a_worker_works_under_quotas_on_both_sides() -> None:
    """Long polls, proofs, topics of state, an operator's orders."""

    async def scenario() -> None:
        world = MirrorWorld(1)
        quotas = Quotas(world, Random(1))
        world.write(40)
        first = await world.worker("w0")
        async with asyncio.timeout(600):
            while not any(flow.totals().records for flow in first.flows):
                await asyncio.sleep(0.01)
        await first.kill()  # a proof must find what it has not mapped
        world.write(20)
        second = await world.worker("w1")
        await world.settle(second, seconds_max=600)
        world.check_everything()
        assert set(quotas.held_back) == {"source", "target"}
        assert not second.failures()
        await second.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(2), ids=lambda seed: f"seed-{seed}")
def test_chaos_under_quotas(seed: int) -> None:
    async def scenario() -> None:
        world = MirrorWorld(seed)
        Quotas(world, Random(seed))
        await chaos(world, Random(seed), batches=20, batches_per_turn_max=10)

    run_virtually(scenario())
