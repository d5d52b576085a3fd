"""A process whose wall clock is set while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.nemesis import clock

PROGRAM = """
import sys, time
for _ in sys.stdin:
    time.sleep(0.001)
    print(time.time_ns() // 10**9, int(time.time()), time.monotonic_ns() // 10**9, flush=True)
"""
SLACK_SECONDS = 1_000
"""However slow the machine is."""


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not(tmp_path: Path) -> None:
    environment = os.environ | clock.environment(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, 1_000_000, -1_000_000, 0):
            clock.set_offset(tmp_path, seconds)
            process.stdin.write("\n")
            process.stdin.flush()
            wall, also_wall, monotonic = map(int, process.stdout.readline().split())
            assert abs(wall - time.time() - seconds) < SLACK_SECONDS
            assert abs(also_wall - time.time() - seconds) < SLACK_SECONDS
            assert abs(monotonic - time.monotonic()) < SLACK_SECONDS
        process.stdin.close()
