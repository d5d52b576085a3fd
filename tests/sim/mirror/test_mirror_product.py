"""The mirror over the product of its modes: no anomaly, and broken mirrors are found.

`SIM_SEED=n` plays one seed; mirror_product/__main__.py has the command that plays many.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.sim import played_seeds
from tests.sim.mirror_product.broken import VARIANTS
from tests.sim.mirror_product.cells import DIMENSIONS, Cell, cell_of, covering, is_allowed
from tests.sim.mirror_product.pairwise import pairs_of, product_rows
from tests.sim.played_seeds import every_second

ONE = os.environ.get("SIM_SEED")
SEEDS = len(covering())
SEEDS_PER_TEST = 12
"""Small, so that several pytest workers share the seeds."""
SEEDS_FOR_VARIANTS = 3
"""Seeds that are played for a broken variant, from its own on; one of them must notice it."""
SEEDS_THAT_FOUND = {
    3005: "a copy of a former topic is mapped after the journal called it lost",
    4730: "an opening of a former topic arrives late",
    5235: "a copied entry is written twice and then grows",
    17216: "a former worker's finding arrives before a newer progress",
    10136: "two workers journal one loss, the shorter entry comes first",
}
pytestmark = pytest.mark.timeout(900)


played = partial(played_seeds.played, "tests.sim.mirror_product")


@pytest.mark.skipif(ONE is not None, reason="SIM_SEED names one seed")
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_anomaly(first: int) -> None:
    """Every pair of values of two dimensions, together with the next test."""
    seeds = range(first, min(first + SEEDS_PER_TEST, SEEDS))
    result = played("--seeds", f"{seeds.start}:{seeds.stop}")
    assert result["anomalies"] == {}
    assert result["played"] == len(seeds)
    assert result["copies"] > 30 * len(seeds)


@pytest.mark.skipif(ONE is not None, reason="SIM_SEED names one seed")
@pytest.mark.parametrize("seed", SEEDS_THAT_FOUND, ids=SEEDS_THAT_FOUND.values())
def test_seeds_that_found_an_error(seed: int) -> None:
    assert played("--seeds", f"{seed}:{seed + 1}")["anomalies"] == {}


@pytest.mark.skipif(ONE is None, reason="SIM_SEED names no seed")
def test_no_anomaly_in_one_seed() -> None:
    assert ONE is not None
    assert played("--seeds", f"{ONE}:{int(ONE) + 1}")["anomalies"] == {}


def test_the_first_seeds_have_every_pair_of_values() -> None:
    """Every pair of any two dimensions that some allowed cell has."""
    rows = product_rows(DIMENSIONS, is_allowed)
    wanted = set().union(*map(pairs_of, rows))
    found = set().union(*map(pairs_of, covering()))
    assert found == wanted
    assert len(wanted) > 300
    assert len(covering()) < 90


def test_the_seeds_walk_the_whole_product() -> None:
    rows = product_rows(DIMENSIONS, is_allowed)
    walked = {cell_of(SEEDS + index) for index in range(len(rows))}
    assert walked == {Cell(**row) for row in rows}


def test_a_seed_is_the_same_every_time() -> None:
    first, second = played("--seeds", "10:12"), played("--seeds", "10:12")
    for result in (first, second):
        del result["cpu_seconds_per_seed"]
    assert first == second


@pytest.mark.parametrize("name", every_second(VARIANTS))
def test_a_broken_variant_is_noticed(name: str) -> None:
    first = VARIANTS[name].noticed_at
    result = played("--broken", name, "--seeds", f"{first}:{first + SEEDS_FOR_VARIANTS}")
    assert result["anomalies"], f"{name} went unnoticed in {SEEDS_FOR_VARIANTS} seeds"
