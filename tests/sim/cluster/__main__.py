"""Plays seeds of the simulated cluster: `python -m tests.sim.cluster --seeds 0:500`.

A seed decides everything: the cluster's settings, faults, delays, who is asked. Prints JSON:
seeds played, anomalies by seed, faults by name, records acknowledged, steps checked, CPU seconds.
Exit status 1 with anomalies. `--broken NAME` plays a variant of broken_variants.py and stops at
the first seed that notices.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import gc
import json
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.sim.broker.sim_process import ProcessLoop
from tests.sim.cluster.broken_variants import VARIANTS
from tests.sim.cluster.names import Anomaly
from tests.sim.cluster.scenarios import scenario_of
from tests.sim.cluster.world import SimWorld
from tests.sim.virtual_time import run_virtually

SECONDS: Final = 10.0
"""Of faults, in virtual time; healing comes on top."""
HASH_SEED: Final = "0"
"""Sets of strings have an order that depends on it."""
CHUNK_SEEDS: Final = 50
"""What one process plays before it says how it went."""


class _Exceptions(logging.Handler):
    """Exceptions that somebody caught only to log them: nothing in a play may lead to one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.seen.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


def world_of(seed: int) -> SimWorld:
    """The world that a seed decides."""
    return SimWorld(seed, scenario_of(seed))


async def _play(seed: int, make: Callable[[int], SimWorld], seconds: float) -> SimWorld:
    world = make(seed)
    await world.run(seconds)
    return world


def play(
    seed: int, make: Callable[[int], SimWorld] = world_of, seconds: float = SECONDS
) -> SimWorld:
    """Play one seed. Raises whatever was noticed."""
    # Back-offs of libraries draw from the global generator.
    random.seed(seed)
    exceptions = _Exceptions()
    logging.getLogger().addHandler(exceptions)
    # What is left of a play must not come to an end in the middle of the next one.
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
    """Play seeds; the result as JSON values."""
    anomalies: dict[int, str] = {}
    faults: collections.Counter[str] = collections.Counter()
    acknowledged = steps = played = 0
    began = time.process_time()
    for seed in seeds:
        played += 1
        try:
            world = play(seed)
        except Exception as error:  # noqa: BLE001 - whatever ends a play is an anomaly
            anomalies[seed] = f"{type(error).__name__}: {error}"
            if stop_at_first:
                break
        else:
            acknowledged += world.records_acknowledged
            faults.update(fault.split()[1] for fault in world.nemesis.faults)
            steps += world.checks.looks
    return {
        "played": played,
        "anomalies": anomalies,
        "records_acknowledged": acknowledged,
        "faults": faults.total(),
        "faults_by_name": dict(sorted(faults.items())),
        "steps_checked": steps,
        "cpu_seconds": time.process_time() - began,
    }


def play_in_chunks(seeds: range, jobs: int) -> Iterator[dict[str, Any]]:
    """The results of chunks of seeds, in so many processes."""
    chunks = [seeds[first : first + CHUNK_SEEDS] for first in range(0, len(seeds), CHUNK_SEEDS)]
    if jobs == 1:
        yield from map(play_all, chunks)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play_all, chunks)


def add_up(total: dict[str, Any], result: dict[str, Any]) -> None:
    """Add the result of some seeds to another's."""
    for name, value in result.items():
        if name == "faults_by_name":
            summed = collections.Counter(total.get(name, {})) + collections.Counter(value)
            total[name] = dict(sorted(summed.items()))
        elif isinstance(value, dict):
            total[name] = total.get(name, {}) | value
        else:
            total[name] = total.get(name, 0) + value


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.sim.cluster")
    one = os.environ.get("SIM_SEED")
    default = f"{one}:{int(one) + 1}" if one else "0:500"
    parser.add_argument(
        "--seeds", default=default, help="first:end or first:end:step, the end not included"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many processes play")
    parser.add_argument("--broken", choices=sorted(VARIANTS), help="play a broken variant")
    parser.add_argument("--verbose", action="store_true", help="the brokers' logs, to stderr")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        environment = os.environ | {"PYTHONHASHSEED": HASH_SEED}
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.sim.cluster", *sys.argv[1:]],
            environment,
        )
    if options.verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    else:
        logging.disable(logging.WARNING)
        logging.getLogger().addHandler(logging.NullHandler())
    seeds = range(*map(int, options.seeds.split(":")))
    total: dict[str, Any] = {"seeds": options.seeds}
    gc.freeze()
    if options.broken:
        with VARIANTS[options.broken].broken():
            add_up(total, play_all(seeds, stop_at_first=True))
    else:
        with contextlib.suppress(KeyboardInterrupt):
            for result in play_in_chunks(seeds, options.jobs):
                add_up(total, result)
                _tell(total, len(seeds))
    cpu_seconds = total.pop("cpu_seconds", 0.0)
    total["cpu_seconds_per_seed"] = round(cpu_seconds / max(total.get("played", 0), 1), 4)
    print(json.dumps(total))
    return 1 if total.get("anomalies") else 0


def _tell(total: dict[str, Any], count: int) -> None:
    """How far it is; for whoever waits."""
    sys.stderr.write(
        f"{total['played']} of {count} seeds, {len(total['anomalies'])} anomalies, "
        f"{total['records_acknowledged']} records acknowledged, {total['faults']} faults\n"
    )
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
