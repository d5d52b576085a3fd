"""`python -m local_cluster.compactor`: compacts logs for the broker that started it.

It reads a `CompactionJob` as JSON from each line of its standard input. It writes one line per
event to its standard output:

    {"cleaned": {"replaced": [0, 120], "size_bytes": 4711}}     a group is written
    {"compacted": {"end_offset": 900, "totals": {...}}}         the job is done
    {"failed": "why", "errno": 28}                              the job failed; the next may succeed

It ends when its input ends, and the kernel kills it when the broker dies: it must not write into a
directory that another broker process has opened since.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import time
from dataclasses import asdict
from typing import Final

from pydantic import TypeAdapter

from local_cluster.log.compaction.cleaner import run_job
from local_cluster.log.compaction.compaction_job import CleanedGroup, Compacted, CompactionJob
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.segment.swap import remove_cleaned
from local_cluster.process_log import configure_log

NICENESS: Final = 10
"""Serving goes first."""
BURST_SECONDS: Final = 0.25
"""After a pause, this much of the rate may be used at once."""

_PR_SET_PDEATHSIG: Final = 1

JOB: Final = TypeAdapter(CompactionJob)

log = logging.getLogger("local_cluster.compactor")


class RateThrottle:
    """Limits the bytes that are read and written per second; a rate of 0 is no limit."""

    def __init__(self, bytes_per_second: float, parent: int) -> None:
        self._rate = bytes_per_second
        self._parent = parent
        self._free_at = time.monotonic()

    def take(self, size_bytes: int) -> None:
        """Sleep as long as the rate requires. Raises SystemExit where the broker is gone."""
        if os.getppid() != self._parent:
            raise SystemExit(1)
        if self._rate <= 0:
            return
        now = time.monotonic()
        self._free_at = max(self._free_at, now - BURST_SECONDS) + size_bytes / self._rate
        if self._free_at > now:
            time.sleep(self._free_at - now)


def main() -> int:
    """Do jobs until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m local_cluster.compactor", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process id of the broker")
    parser.add_argument("--bytes-per-second", type=float, default=0.0, help="0: no limit")
    arguments = parser.parse_args()
    configure_log("INFO")
    _die_with_parent()
    if os.getppid() != arguments.parent:
        return 1
    # A signal to the whole process group is for the broker to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    throttle = RateThrottle(arguments.bytes_per_second, arguments.parent)
    for line in sys.stdin.buffer:
        _do(JOB.validate_json(line), throttle)
    return 0


def _do(job: CompactionJob, throttle: RateThrottle) -> None:
    try:
        for event in run_job(job, OsFiles(), throttle):
            match event:
                case CleanedGroup():
                    _report({"cleaned": asdict(event)})
                case Compacted():
                    _report({"compacted": asdict(event)})
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        # A batch that cannot be opened is a ValueError.
        log.warning("%s was not compacted: %r", job.directory, error)
        with contextlib.suppress(OSError):
            # On a full disk the files of the failed round are the first to go.
            remove_cleaned(OsFiles(), job.directory)
        _report({"failed": repr(error), "errno": getattr(error, "errno", None)})


def _report(event: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _die_with_parent() -> None:
    """Make the kernel kill this process when the broker ends, however it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
