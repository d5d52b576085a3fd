"""Long work in slices: other callbacks run in between."""

from __future__ import annotations

import asyncio
import time

from local_cluster.monitoring.sliced import SLICE_NS, Slices

STEPS = 50


def busy_steps(step_ns: int) -> list[int]:
    return [step_ns] * STEPS


async def test_other_callbacks_run_between_slices() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    slices = Slices()
    for _ in range(2):
        async for step_ns in slices.over(busy_steps(SLICE_NS // 4)):
            began_ns = time.perf_counter_ns()
            while time.perf_counter_ns() - began_ns < step_ns:
                pass
    other.cancel()
    # A slice takes four steps, whichever loop they belong to.
    assert turns >= 2 * STEPS // 4


async def test_short_work_is_not_interrupted() -> None:
    slices = Slices()
    async for _ in slices.over(range(1)):
        pass
    began_ns = time.perf_counter_ns()
    seen = [step async for step in slices.over(range(3))]
    assert seen == [0, 1, 2]
    assert began_ns
