"""Plays seeds of the mirror's product: `python -m tests.sim.mirror_product --seeds 0:500`.

A seed decides everything: the cell (`cells`), random choices, delays. Prints JSON: seeds played,
anomalies by seed, copies judged, disturbances by name, CPU seconds. Exit status 1 with anomalies.
`--broken NAME` plays a variant of `broken` and stops at the first seed that notices.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from tests.sim.mirror_product.broken import VARIANTS
from tests.sim.mirror_product.play import play_all
from tests.sim.seeds_command import SeedsCommand


def _summary(total: Mapping[str, Any]) -> str:
    return f"{total['copies']} copies, {sum(total['disturbances'].values())} disturbances"


if __name__ == "__main__":
    command = SeedsCommand(
        module="tests.sim.mirror_product",
        description=__doc__,
        play_all=play_all,
        variants=VARIANTS,
        chunk_seeds=25,
        summary=_summary,
        quiet_level=logging.CRITICAL,
    )
    sys.exit(command.run())
