"""One row of the table of faults and workloads; the others: tests/nemesis/README.md."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.nemesis.life import live
from tests.nemesis.outcome import NO_PROGRESS, OK
from tests.nemesis.plan import Step

pytestmark = pytest.mark.real

HOLD_SECONDS = 2.0


@pytest.mark.timeout(420)
async def test_a_killed_leader_under_a_set_and_a_queue(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    step = Step(("kill-leader",), HOLD_SECONDS, calm_seconds=0.0)
    names = ["set-full", "queue"]
    outcomes = await live("ours", "kill-leader", [step], names, tmp_path, seed, print)
    for outcome in outcomes:
        # On a machine that is busy with other things a workload may rest for long.
        assert outcome.verdict in (OK, NO_PROGRESS), (outcome.examples, outcome.reason)
        assert outcome.checked["replicas"] > 0
        assert outcome.checked["read" if outcome.workload == "set-full" else "polled"] > 0
