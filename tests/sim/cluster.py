"""Plays seeds of the simulated cluster: `python -m tests.sim.cluster --seeds 0:500`.

A seed decides everything: the cluster's settings, faults, delays, who is asked. Prints JSON:
seeds played, anomalies by seed, records acknowledged, CPU seconds. Exit status 1 with anomalies.
`--broken NAME` plays a variant of broken_variants.py and stops at the first seed that notices.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import random
import sys
import time
from typing import Any, Final

from .broken_variants import VARIANTS
from .cluster_world import SimWorld
from .virtual_time import run_virtually

SECONDS: Final = 10.0
"""Of faults, in virtual time; healing comes on top."""
HASH_SEED: Final = "0"
"""Sets of strings have an order that depends on it."""


def world_of(seed: int) -> SimWorld:
    """The cluster of a seed: most are the default, RF 3, min.insync.replicas 2, fsync."""
    return SimWorld(
        seed,
        flush="page_cache" if seed % 5 == 4 else "fsync",
        partitions=2 if seed % 3 == 2 else 1,
    )


async def _play(seed: int) -> SimWorld:
    world = world_of(seed)
    await world.run(SECONDS)
    return world


def play(seed: int) -> SimWorld:
    """Play one seed. Raises whatever was noticed."""
    # Back-offs of libraries draw from the global generator.
    random.seed(seed)
    # What is left of a play must not come to an end in the middle of the next one.
    gc.disable()
    try:
        world: SimWorld = run_virtually(_play(seed))
    finally:
        gc.collect()
    return world


def play_all(seeds: range, *, stop_at_first: bool = False) -> dict[str, Any]:
    """Play seeds; the result as JSON values."""
    anomalies: dict[int, str] = {}
    acknowledged = faults = steps = played = 0
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
            acknowledged += sum(len(producer.acknowledged) for producer in world.producers)
            faults += len(world.faults)
            steps += world.checks.looks
        if sys.stderr.isatty():
            sys.stderr.write(f"\rseed {seed}, {len(anomalies)} anomalies ")
    return {
        "seeds": f"{seeds.start}:{seeds.stop}",
        "played": played,
        "anomalies": anomalies,
        "records_acknowledged": acknowledged,
        "faults": faults,
        "steps_checked": steps,
        "cpu_seconds_per_seed": round((time.process_time() - began) / max(played, 1), 4),
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.sim.cluster")
    one = os.environ.get("SIM_SEED")
    default = f"{one}:{int(one) + 1}" if one else "0:500"
    parser.add_argument("--seeds", default=default, help="first:end, the end not included")
    parser.add_argument("--broken", choices=sorted(VARIANTS), help="play a broken variant")
    parser.add_argument("--verbose", action="store_true", help="the brokers' logs, to stderr")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        environment = os.environ | {"PYTHONHASHSEED": HASH_SEED}
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sim.cluster", *sys.argv[1:]], environment
        )
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    if not options.verbose:
        logging.disable(logging.CRITICAL)
    first, _, end = options.seeds.partition(":")
    variant = VARIANTS[options.broken]() if options.broken else contextlib.nullcontext()
    gc.freeze()
    with variant:
        result = play_all(range(int(first), int(end)), stop_at_first=options.broken is not None)
    print(json.dumps(result))
    return 1 if result["anomalies"] else 0


if __name__ == "__main__":
    sys.exit(main())
