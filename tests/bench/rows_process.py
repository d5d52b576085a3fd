"""Rows about the processes themselves: start-up, idle memory, idle CPU; one system at a time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from tests.bench.bench import Bench
from tests.bench.model import (
    CPU_CORE,
    KAFKA,
    MEMORY_ALL_MB,
    MEMORY_MB,
    OURS,
    READY_SECONDS,
    Row,
    Sample,
    Side,
    Wanted,
)
from tests.bench.starting import RunningZooKeeper, running_kafka, running_ours
from tests.bench.systems import System

READY_SECONDS_WANTED: Final = 1.5
IDLE_MEMORY_RATIO_MAX: Final = 0.25

START: Final = Row(
    name="start",
    title="Start on an empty log directory until ApiVersions and Metadata are answered",
    wanted={READY_SECONDS: [Wanted(READY_SECONDS_WANTED, "absolute")]},
)
IDLE: Final = Row(
    name="idle",
    title="Idle, no topics",
    wanted={MEMORY_ALL_MB: [Wanted(IDLE_MEMORY_RATIO_MAX)]},
)


async def start_and_idle(
    bench: Bench, zookeeper: RunningZooKeeper, say: Callable[[str], None]
) -> list[Sample]:
    """Start each system some times, alone; the last time it is watched while it does nothing."""
    samples: list[Sample] = []
    for index in range(bench.scale.starts):
        for side in (KAFKA, OURS):
            home = bench.directory / "starts"
            running: AbstractAsyncContextManager[tuple[System, float]]
            if side == KAFKA:
                running = running_kafka(home)
            else:
                running = running_ours(home, zookeeper, flush="page_cache")
            async with running as (system, seconds):
                say(f"start: {side} was ready after {seconds:.2f} s")
                samples.append(Sample(START.name, side, {READY_SECONDS: seconds}))
                if index == bench.scale.starts - 1:
                    samples.append(await _idle(system, side, bench.scale.idle_seconds))
            shutil.rmtree(home)
    return samples


async def _idle(system: System, side: Side, seconds: float) -> Sample:
    await asyncio.sleep(seconds)  # what starting left to do is over
    with system.cost() as cost:
        await asyncio.sleep(seconds)
    figures = {
        MEMORY_MB: system.memory_mb(with_helpers=False),
        MEMORY_ALL_MB: system.memory_mb(with_helpers=True),
        CPU_CORE: cost.cpu_seconds / cost.seconds * 100,
    }
    return Sample(IDLE.name, side, figures)
