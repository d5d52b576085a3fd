"""Seeds from their beginning to their end."""

from __future__ import annotations

import asyncio
import collections
import gc
import time
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.sim.mirror_product.cells import Cell, cell_of
from tests.sim.mirror_product.disturbances import Disturbances
from tests.sim.mirror_product.evidence import Evidence, gather
from tests.sim.mirror_product.judges import judge
from tests.sim.mirror_product.world import ProductWorld
from tests.sim.virtual_time import ThreadlessLoop, run_virtually

LATE_SECONDS: Final = 5.0
"""Every message in flight has arrived by then: more than `Network.late_ms_max`."""
BATCHES: Final = {"few": 12, "many": 60, "crowd": 150}
"""Batches at the beginning; about as many follow."""


@dataclass(frozen=True)
class Played:
    """The result of a seed."""

    cell: Cell
    copies: int
    disturbances: list[str]


def play(seed: int, cell: Cell | None = None) -> Played:
    """Play one seed. Raises Anomaly, or any other error that was met."""
    cell = cell or cell_of(seed)
    evidence, happened = run_virtually(
        run_world(ProductWorld(cell, seed), Random(seed)), loop_factory=ThreadlessLoop
    )
    return Played(cell, judge(evidence), happened)


async def run_world(world: ProductWorld, random: Random) -> tuple[Evidence, list[str]]:
    """Play a world; return the evidence, and the disturbances."""
    disturbances = Disturbances(world, random)
    batches = BATCHES[world.cell.flows]
    world.write(batches)
    await disturbances.begin()
    world.start()
    for _ in range(random.randint(3, 6)):
        await asyncio.sleep(random.uniform(0.0, 0.4))
        world.write(random.randint(0, batches // 3))
        await disturbances.turn()
    await disturbances.end()
    world.write_ends()
    world.assign_all()
    await world.settle()
    await asyncio.sleep(LATE_SECONDS)
    await world.settle()
    evidence = gather(world)
    for process in world.processes:
        await process.stop()
    return evidence, disturbances.happened


def play_all(seeds: range, *, stop_at_first: bool = False) -> dict[str, Any]:
    """Play seeds; return the result as JSON values."""
    anomalies: dict[int, str] = {}
    disturbances: collections.Counter[str] = collections.Counter()
    copies = played = 0
    began = time.process_time()
    for seed in seeds:
        played += 1
        try:
            done = play(seed)
        except Exception as error:  # noqa: BLE001 - any end of a play is an anomaly
            anomalies[seed] = f"{cell_of(seed)}: {type(error).__name__}: {error}"
            if stop_at_first:
                break
        else:
            copies += done.copies
            disturbances.update(done.disturbances)
        gc.collect()
    return {
        "played": played,
        "anomalies": anomalies,
        "copies": copies,
        "disturbances": dict(sorted(disturbances.items())),
        "cpu_seconds": time.process_time() - began,
    }
