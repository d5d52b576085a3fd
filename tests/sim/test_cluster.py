"""The broker's own modules as a cluster of three in a seeded world: no anomaly; broken ones found.

`SIM_SEEDS=20000` plays more, `SIM_SEED=n` one; see cluster.py for the command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .broken_variants import VARIANTS

SEEDS = int(os.environ.get("SIM_SEEDS", "500"))
SEEDS_FOR_VARIANTS = 400
"""A broken variant that none of so many seeds notices is not noticed."""
ROOT = Path(__file__).parents[2]


def played(*arguments: str) -> dict[str, Any]:
    """What the command says; in a process of its own, for a fixed order of sets."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_no_anomaly() -> None:
    one = os.environ.get("SIM_SEED")
    result = played("--seeds", f"{one}:{int(one) + 1}" if one else f"0:{SEEDS}")
    assert result["anomalies"] == {}
    assert result["records_acknowledged"] > result["played"]
    assert one or result["faults"] > 3 * result["played"]


def test_a_seed_is_the_same_every_time() -> None:
    first, second = played("--seeds", "7:9"), played("--seeds", "7:9")
    for result in (first, second):
        del result["cpu_seconds_per_seed"]
    assert first == second


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_a_broken_variant_is_noticed(name: str) -> None:
    result = played("--broken", name, "--seeds", f"0:{SEEDS_FOR_VARIANTS}")
    assert result["anomalies"], f"{name} went unnoticed in {SEEDS_FOR_VARIANTS} seeds"
