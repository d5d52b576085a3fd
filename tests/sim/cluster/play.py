"""Plays seeds of the simulated cluster, and adds up the results."""

from __future__ import annotations

import collections
import gc
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from tests.sim.broker.sim_process import ProcessLoop
from tests.sim.cluster.names import Anomaly
from tests.sim.cluster.scenarios import scenario_of
from tests.sim.cluster.world import SimWorld
from tests.sim.virtual_time import run_virtually

SECONDS: Final = 10.0
"""Virtual seconds of faults; healing comes on top."""


class _LoggedExceptions(logging.Handler):
    """Exceptions that some code caught only to log them: no play may lead to one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.seen.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


def world_of(seed: int) -> SimWorld:
    """Return the world of a seed."""
    return SimWorld(seed, scenario_of(seed))


async def _play(seed: int, make: Callable[[int], SimWorld], seconds: float) -> SimWorld:
    world = make(seed)
    await world.run(seconds)
    return world


def play(
    seed: int, make: Callable[[int], SimWorld] = world_of, seconds: float = SECONDS
) -> SimWorld:
    """Play one seed. Raises Anomaly, or any exception of the brokers."""
    # Backoffs of libraries draw from the global generator.
    random.seed(seed)
    exceptions = _LoggedExceptions()
    logging.getLogger().addHandler(exceptions)
    # Finalizers of one play must not run in the middle of the next one.
    gc.disable()
    try:
        world: SimWorld = run_virtually(_play(seed, make, seconds), loop_factory=ProcessLoop)
    finally:
        gc.collect()
        logging.getLogger().removeHandler(exceptions)
    if exceptions.seen:
        raise Anomaly(f"exceptions were logged: {exceptions.seen}")
    return world


def play_all(seeds: range, *, stop_at_first: bool = False) -> dict[str, Any]:
    """Play seeds; return the result as JSON values."""
    anomalies: dict[int, str] = {}
    faults: collections.Counter[str] = collections.Counter()
    acknowledged = steps = played = commits = handovers = 0
    began = time.process_time()
    for seed in seeds:
        played += 1
        try:
            world = play(seed)
        except Exception as error:  # noqa: BLE001 - any exception of a play is an anomaly
            anomalies[seed] = f"{type(error).__name__}: {error}"
            if stop_at_first:
                break
        else:
            acknowledged += world.records_acknowledged
            faults.update(fault.split()[1] for fault in world.nemesis.faults)
            steps += world.checks.looks
            for group in world.members:
                commits += group.judge.commits
                handovers += group.judge.handovers
                faults.update({f"member-{name}": n for name, n in group.events.items()})
    return {
        "played": played,
        "anomalies": anomalies,
        "records_acknowledged": acknowledged,
        "faults": faults.total(),
        "faults_by_name": dict(sorted(faults.items())),
        "steps_checked": steps,
        "commits_of_members": commits,
        "handovers": handovers,
        "cpu_seconds": time.process_time() - began,
    }
