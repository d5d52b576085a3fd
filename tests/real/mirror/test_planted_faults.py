"""Former faults of the product, planted into real processes.

The referee and the nemesis' mirrors must each notice them, without a hint what to look for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.nemesis.life import live
from tests.nemesis.outcome import ANOMALY
from tests.nemesis.plan import Step
from tests.planted.planting import environment
from tests.planted.table import FAULTS

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
RUN_SECONDS_MAX = 800.0
HOLD_SECONDS = 10.0


class Noticed(NamedTuple):
    """How a fault is provoked, and how it shows."""

    options: str
    """Options of the referee."""
    findings: Set[tuple[str, str]]
    """Promises and kinds of which at least one must be found."""
    workload: str
    """Workload of the nemesis."""
    anomalies: Set[str]
    """Anomalies of which at least one must be found."""


NOTICED = {
    "merge-collision": Noticed(
        "--seconds 24 --modes merge --states plain --seed 44 --rate 100",
        {("copy", "lost"), ("translation", "inexact")},
        "mirror-merged",
        {"copy-lost", "translation-inexact"},
    ),
    "delete-horizon": Noticed(
        "--seconds 40 --modes identity --states compacted,kept --seed 1",
        {("progress", "behind")},
        "mirror-compacted",
        {"progress-behind"},
    ),
    "gone-as-lost": Noticed(
        "--seconds 45 --modes identity --states retention --seed 8",
        {("journal", "copied")},
        "mirror-disturbed",
        {"journal-copied"},
    ),
    "foreign-unseen": Noticed(
        "--seconds 30 --modes prefixed --states plain,grown --seed 5",
        {("copy", "foreign")},
        "mirror-disturbed",
        {"copy-foreign"},
    ),
}


def test_every_fault_is_played() -> None:
    of_brokers = {"kept-decisions"}  # see tests/real/cluster/test_rights_churn.py
    assert NOTICED.keys() | of_brokers == FAULTS.keys()


@pytest.mark.parametrize("fault", NOTICED)
def test_the_referee_notices(fault: str, tmp_path: Path) -> None:
    outcome, files = tmp_path / "outcome.json", tmp_path / "files"
    command = [sys.executable, "-m", "tests.referee", *NOTICED[fault].options.split()]
    # A stalled partition does not catch up, however long the wait.
    command += ["--offsets-max", "6000", "--catch-up-seconds", "30"]
    done = subprocess.run(
        [*command, "--directory", str(files), "-o", str(outcome)],
        cwd=ROOT,
        env=os.environ | environment(fault),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-8_000:] + done.stderr[-2_000:]
    logs = "".join(log.read_text(errors="replace") for log in files.glob("*/logs/mirror-*.log"))
    assert f"planted: {fault} in mirror_maker." in logs
    lives = json.loads(outcome.read_text())["lives"].values()
    found = {(each["promise"], each["kind"]) for life in lives for each in life["findings"]}
    assert found & NOTICED[fault].findings, found


@pytest.mark.parametrize("fault", NOTICED)
async def test_a_nemesis_mirror_notices(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(fault).items():
        monkeypatch.setenv(name, value)
    step = Step(("none",), HOLD_SECONDS, calm_seconds=0.0)
    workload = NOTICED[fault].workload
    (outcome,) = await live("ours", "none", [step], [workload], tmp_path, 1, print)
    assert outcome.verdict == ANOMALY, (outcome.verdict, outcome.reason)
    assert outcome.anomalies.keys() & NOTICED[fault].anomalies, outcome.examples
    logs = "".join(log.read_text() for log in tmp_path.glob("workload-*/w*/mirror.log"))
    assert f"planted: {fault} in mirror_maker." in logs
