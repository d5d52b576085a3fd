"""Plays seeds of the mirror's product: `python -m tests.sim.mirror_product --seeds 0:500`.

A seed decides everything: the cell (`cells`), random choices, delays. Prints JSON: seeds played,
anomalies by seed, copies judged, disturbances by name, CPU seconds. Exit status 1 with anomalies.
`--broken NAME` plays a variant of `broken` and stops at the first seed that notices.
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
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from local_cluster.compilation.finder import install
from tests.sim.fixed_process import fix_process
from tests.sim.mirror_product.broken import VARIANTS
from tests.sim.mirror_product.cells import cell_of
from tests.sim.mirror_product.play import play

CHUNK_SEEDS: Final = 25
"""Seeds that one process plays before it reports."""


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


def play_in_chunks(seeds: range, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the results of chunks of seeds, played in this many processes."""
    chunks = [seeds[first : first + CHUNK_SEEDS] for first in range(0, len(seeds), CHUNK_SEEDS)]
    if jobs == 1:
        yield from map(play_all, chunks)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play_all, chunks)


def add_up(total: dict[str, Any], result: dict[str, Any]) -> None:
    """Add the result of some seeds to the total."""
    for name, value in result.items():
        if name == "disturbances":
            summed = collections.Counter(total.get(name, {})) + collections.Counter(value)
            total[name] = dict(sorted(summed.items()))
        elif isinstance(value, dict):
            total[name] = total.get(name, {}) | value
        else:
            total[name] = total.get(name, 0) + value


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.sim.mirror_product")
    one = os.environ.get("SIM_SEED")
    default = f"{one}:{int(one) + 1}" if one else "0:500"
    parser.add_argument(
        "--seeds", default=default, help="first:end or first:end:step, the end not included"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that play")
    parser.add_argument("--broken", choices=sorted(VARIANTS), help="play a broken variant")
    parser.add_argument("--verbose", action="store_true", help="write the mirrors' logs to stderr")
    options = parser.parse_args()
    fix_process("tests.sim.mirror_product", is_broken=bool(options.broken))
    if options.verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    else:
        logging.disable(logging.CRITICAL)
    seeds = range(*map(int, options.seeds.split(":")))
    total: dict[str, Any] = {"seeds": options.seeds, "build": install().text}
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
    """Print the progress to stderr."""
    sys.stderr.write(
        f"{total['played']} of {count} seeds, {len(total['anomalies'])} anomalies, "
        f"{total['copies']} copies, {sum(total['disturbances'].values())} disturbances\n"
    )
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
