"""A revocation holds within its bound on every simulated broker that reaches ZooKeeper."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.sim.rights.broken import BROKEN
from tests.sim.rights.world import play

SEEDS: Final = range(20)
NOTICED: Final = {"keeps-decisions": 0, "deaf-afterwards": 0, "watches-late": 25}
"""A seed in which each broken broker is noticed; another one if the simulation changes."""


def test_a_revocation_holds_within_its_bound() -> None:
    checked: Counter[str] = Counter()
    for seed in (*SEEDS, *NOTICED.values()):
        findings = play(seed)
        assert not findings.anomalies, (seed, findings.examples)
        checked += findings.checked
    for what in ("granted", "revoked", "accepted", "refused", "away", "held: check"):
        assert checked[what] > 100, checked


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_broker_is_noticed(name: str) -> None:
    assert play(NOTICED[name], BROKEN[name]).anomalies


def test_a_seed_plays_the_same_again() -> None:
    assert play(7) == play(7)
