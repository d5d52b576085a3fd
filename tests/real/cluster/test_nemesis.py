"""Rows of the table of faults and workloads; the others: tests/nemesis/README.md."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.nemesis import older
from tests.nemesis.faults.table import FAULTS
from tests.nemesis.life import live
from tests.nemesis.outcome import NO_PROGRESS, OK
from tests.nemesis.plan import Step

pytestmark = pytest.mark.real

HOLD_SECONDS = 2.0


@pytest.mark.timeout(420)
async def test_a_killed_leader_under_a_set_and_a_queue(tmp_path: Path) -> None:
    await row_holds("kill-leader", HOLD_SECONDS, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_rolling_upgrade_under_a_set_and_a_queue(tmp_path: Path) -> None:
    reason = older.why_not()
    if reason is not None:
        pytest.skip(reason)
    await row_holds("rolling-upgrade", FAULTS["rolling-upgrade"].hold_seconds, tmp_path)


async def row_holds(fault: str, hold_seconds: float, directory: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    step = Step((fault,), hold_seconds, calm_seconds=0.0)
    names = ["set-full", "queue"]
    outcomes = await live("ours", fault, [step], names, directory, seed, print)
    for outcome in outcomes:
        # On a busy machine a workload may make no progress for long.
        assert outcome.verdict in (OK, NO_PROGRESS), (outcome.examples, outcome.reason)
        assert outcome.checked["replicas"] > 0
        assert outcome.checked["read" if outcome.workload == "set-full" else "polled"] > 0
