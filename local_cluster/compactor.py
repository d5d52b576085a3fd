"""`python -m local_cluster.compactor`: compacts logs for one broker, which started it.

Per line of its standard input a `CompactionJob` as JSON; on its standard output, a line per event:

    {"cleaned": {"replaced": [0, 120], "size_bytes": 4711}}     a group is written
    {"compacted": {"end_offset": 900, "totals": {...}}}         the job is done
    {"failed": "why", "errno": 28}                              the job is not; the next one may be

It ends when its input does, and is killed when the broker dies: nothing may be written into a
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

from local_cluster.log.compaction.compaction_job import (
    CleanedGroup,
    Compacted,
    CompactionJob,
    run_job,
)
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.segment.swap import remove_cleaned

NICENESS: Final = 10
"""Serving goes first."""
BURST_SECONDS: Final = 0.25
"""How much of the rate may be used at once after a pause."""

_PR_SET_PDEATHSIG: Final = 1

JOB: Final = TypeAdapter(CompactionJob)

_log = logging.getLogger("local_cluster.compactor")


class RateThrottle:
    """At most so many bytes read and written per second; 0 for no limit."""

    def __init__(self, bytes_per_second: float, parent: int) -> None:
        self._rate = bytes_per_second
        self._parent = parent
        self._free_at = time.monotonic()

    def take(self, size_bytes: int) -> None:
        """Sleep as long as the rate wants. Raises SystemExit where the broker is gone."""
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
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    _die_with_parent()
    if os.getppid() != arguments.parent:
        return 1
    # A stop of the whole process group is for the broker to order.
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
                    _tell({"cleaned": asdict(event)})
                case Compacted():
                    _tell({"compacted": asdict(event)})
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        # A batch that cannot be opened is a ValueError.
        _log.warning("%s was not compacted: %r", job.directory, error)
        with contextlib.suppress(OSError):
            # On a full disk what was written in vain is the first that should go.
            remove_cleaned(OsFiles(), job.directory)
        _tell({"failed": repr(error), "errno": getattr(error, "errno", None)})


def _tell(event: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _die_with_parent() -> None:
    """Have the kernel kill this process when the broker ends, however that comes (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
