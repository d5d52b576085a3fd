"""What processes cost, as the kernel counts it (Linux): CPU seconds, memory."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

_PROCESS_CLOCK: Final = 2
"""CPUCLOCK_SCHED of clock_getcpuclockid(3): nanoseconds on the CPU, user and system."""


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds of the processes, their living descendants, and their ended children.

    The clock of a living process counts nanoseconds; /proc/PID/stat, which is read for children
    that ended, counts hundredths of a second.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid in _with_descendants(pids):
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
            after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(after_name[13]) + int(after_name[14])) / ticks
    return total


def memory_bytes(pids: Iterable[int]) -> int:
    """Proportional set size of the processes and their living descendants."""
    total = 0
    for pid in _with_descendants(pids):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def _with_descendants(pids: Iterable[int]) -> set[int]:
    found = set(pids)
    for pid in tuple(found):
        with contextlib.suppress(psutil.Error):
            found |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return found
