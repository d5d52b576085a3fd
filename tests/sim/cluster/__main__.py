"""Plays seeds of the simulated cluster: `python -m tests.sim.cluster --seeds 0:500`.

A seed decides everything: the cluster's settings, faults, delays, choices of the clients. Prints
JSON: seeds played, anomalies by seed, faults by name, records acknowledged, steps checked, CPU
seconds. Exit status 1 with anomalies. `--broken NAME` plays a variant of broken_variants.py and
stops at the first seed that notices.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from tests.sim.cluster.broken_variants import VARIANTS
from tests.sim.cluster.play import play_all
from tests.sim.seeds_command import SeedsCommand


def _summary(total: Mapping[str, Any]) -> str:
    return f"{total['records_acknowledged']} records acknowledged, {total['faults']} faults"


if __name__ == "__main__":
    command = SeedsCommand(
        module="tests.sim.cluster",
        description=__doc__,
        play_all=play_all,
        variants=VARIANTS,
        chunk_seeds=50,
        summary=_summary,
        quiet_level=logging.WARNING,
    )
    sys.exit(command.run())
