"""A short run of the campaign on ten hosts, on loopback addresses; all of it: `make ten-hosts`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(3_600)]

RUN_SECONDS_MAX = 3_500.0


def test_ten_hosts_lose_one_and_replace_it_under_load(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.ten_hosts", "--network", "loopback"]
    command += ["--steps", "replace", "--seed", "3", "--directory", str(tmp_path)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "result")],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["is_well"]
    for datacenter in ("ewr", "jfk", "lga"):
        figures = result["figures"]
        acknowledged = figures[f"{datacenter}: acknowledged"]
        assert 0 < acknowledged <= figures[f"{datacenter}: in the source log"]
