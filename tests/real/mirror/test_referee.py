"""A short run of the referee; the others: tests/referee/README.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

SECONDS = 22
RUN_SECONDS_MAX = 800.0
SEED = 44
"""Its plan has one worker, and kills it and brokers of both sides."""
MUST_CHECK = (
    "audit counts",
    "group positions",
    "kill mirror",
    "offsets translated: exact",
    "offsets translated back: exact",
    "records compared",
    "transactions readable",
)
"""Figures that must not be zero, or nothing was checked."""


@pytest.mark.timeout(900)
def test_merged_compacted_and_transactional_topics_under_kills(tmp_path: Path) -> None:
    """Two sources into one topic by one worker, many partitions."""
    outcome = tmp_path / "outcome.json"
    command = [sys.executable, "-m", "tests.referee", "--seconds", str(SECONDS)]
    command += ["--modes", "merge", "--states", "plain,compacted,kept,transactional"]
    # In the suite other processes share the cores.
    command += ["--rate", "80", "--offsets-max", "15000", "--seed", str(SEED)]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path / "files"), "-o", str(outcome)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    figures = json.loads(outcome.read_text())["figures"]
    missing = [name for name in MUST_CHECK if not figures.get(name)]
    assert not missing, (missing, figures)
