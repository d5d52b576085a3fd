"""The simulated cluster: no seed shows an anomaly, and every broken variant is noticed.

`SIM_SEED=n` plays one seed; `python -m tests.sim.cluster` plays many.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.sim import played_seeds
from tests.sim.cluster.broken_variants import VARIANTS
from tests.sim.cluster.scenarios import MEMBER_SEEDS
from tests.sim.played_seeds import every_second

ONE = os.environ.get("SIM_SEED")
SEEDS = 100
"""`make simulate` plays thousands."""
SEEDS_PER_TEST = 50
"""Several pytest workers share the seeds."""
SEEDS_FOR_VARIANTS = 600
"""Seeds that are tried before a broken variant counts as unnoticed."""
FIRST_GROUP = 12
"""The first seed that plays groups of both protocols."""
MORE_GROUPS = 4
pytestmark = pytest.mark.timeout(900)
"""A variant may take many seeds, on a busy machine."""


played = partial(played_seeds.played, "tests.sim.cluster")


@pytest.mark.skipif(ONE is not None, reason="SIM_SEED names one seed")
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_anomaly(first: int) -> None:
    result = played("--seeds", f"{first}:{first + SEEDS_PER_TEST}")
    assert result["anomalies"] == {}
    assert result["played"] == SEEDS_PER_TEST
    assert result["records_acknowledged"] > 30 * SEEDS_PER_TEST
    assert result["faults"] > 3 * SEEDS_PER_TEST


@pytest.mark.skipif(ONE is not None, reason="SIM_SEED names one seed")
def test_no_anomaly_among_members_of_both_protocols() -> None:
    """The seeds after those of `test_no_anomaly` that play groups."""
    last = SEEDS + MEMBER_SEEDS * MORE_GROUPS
    result = played("--seeds", f"{SEEDS + FIRST_GROUP}:{last}:{MEMBER_SEEDS}")
    assert result["anomalies"] == {}
    assert result["handovers"] > 20 * MORE_GROUPS
    assert result["commits_of_members"] > 100 * MORE_GROUPS
    assert result["faults_by_name"]["member-change"] > MORE_GROUPS


@pytest.mark.skipif(ONE is None, reason="SIM_SEED names no seed")
def test_no_anomaly_in_one_seed() -> None:
    assert ONE is not None
    assert played("--seeds", f"{ONE}:{int(ONE) + 1}")["anomalies"] == {}


def test_a_seed_is_the_same_every_time() -> None:
    first, second = played("--seeds", "5:8"), played("--seeds", "5:8")
    for result in (first, second):
        del result["cpu_seconds_per_seed"]
    assert first == second


@pytest.mark.parametrize("name", every_second(VARIANTS))
def test_a_broken_variant_is_noticed(name: str) -> None:
    variant = VARIANTS[name]
    last = variant.noticed_at + SEEDS_FOR_VARIANTS * variant.step
    result = played("--broken", name, "--seeds", f"{variant.noticed_at}:{last}:{variant.step}")
    assert result["anomalies"], f"{name} went unnoticed in {SEEDS_FOR_VARIANTS} seeds"
