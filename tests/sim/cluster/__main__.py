"""Plays seeds of the simulated cluster: `python -m tests.sim.cluster --seeds 0:500`.

A seed decides everything: the cluster's settings, faults, delays, choices of the clients. Prints
JSON: seeds played, anomalies by seed, faults by name, records acknowledged, steps checked, CPU
seconds. Exit status 1 with anomalies. `--broken NAME` plays a variant of broken_variants.py and
stops at the first seed that notices.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import sys
from typing import Any

from local_cluster.compilation.finder import install
from tests.sim.cluster.broken_variants import VARIANTS
from tests.sim.cluster.play import add_up, play_all, play_in_chunks
from tests.sim.fixed_process import fix_process


def main() -> int:
    """Run the command; return its exit status."""
    options = _parse()
    fix_process("tests.sim.cluster", is_broken=bool(options.broken))
    if options.verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    else:
        logging.disable(logging.WARNING)
        logging.getLogger().addHandler(logging.NullHandler())
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
                _report_progress(total, len(seeds))
    cpu_seconds = total.pop("cpu_seconds", 0.0)
    total["cpu_seconds_per_seed"] = round(cpu_seconds / max(total.get("played", 0), 1), 4)
    print(json.dumps(total))
    return 1 if total.get("anomalies") else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.sim.cluster")
    one = os.environ.get("SIM_SEED")
    default = f"{one}:{int(one) + 1}" if one else "0:500"
    parser.add_argument(
        "--seeds", default=default, help="first:end or first:end:step, the end not included"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many processes play")
    parser.add_argument("--broken", choices=sorted(VARIANTS), help="play a broken variant")
    parser.add_argument("--verbose", action="store_true", help="the brokers' logs, to stderr")
    return parser.parse_args()


def _report_progress(total: dict[str, Any], count: int) -> None:
    sys.stderr.write(
        f"{total['played']} of {count} seeds, {len(total['anomalies'])} anomalies, "
        f"{total['records_acknowledged']} records acknowledged, {total['faults']} faults\n"
    )
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
