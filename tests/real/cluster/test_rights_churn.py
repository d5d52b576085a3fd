"""Rights and passwords that change under load hold within a second on every broker.

The nemesis plays the same with every fault (tests/nemesis/README.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nemesis.life import live
from tests.nemesis.outcome import ANOMALY, OK, Outcome
from tests.nemesis.plan import Step
from tests.planted.planting import environment

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

FAULT = "kept-decisions"


async def played(directory: Path) -> Outcome:
    step = Step(("none",), 2.0, calm_seconds=0.0)
    (outcome,) = await live("ours", "none", [step], ["rights-churn"], directory, 21, print)
    return outcome


async def test_rights_and_passwords_hold_within_the_bound(tmp_path: Path) -> None:
    outcome = await played(tmp_path)
    assert outcome.verdict == OK, (outcome.examples, outcome.reason)
    print(f"p50, p99, longest (ms), number: {outcome.measured}")
    assert outcome.measured.keys() == {"request", "parked fetch", "login"}


@pytest.mark.long
async def test_brokers_that_keep_their_decisions_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(FAULT).items():
        monkeypatch.setenv(name, value)
    outcome = await played(tmp_path)
    assert outcome.verdict == ANOMALY, outcome.reason
    assert "outlived" in outcome.anomalies, (outcome.examples, outcome.checked)
    logs = [log.read_text() for log in tmp_path.glob("broker-*/broker.log")]
    assert len(logs) == 3
    assert all(f"planted: {FAULT} in local_cluster." in log for log in logs)
