"""The process that rewrites logs for the log cleaner (`python -m local_cluster.compactor`).

It is started for the first job, and again after it died. Jobs and events are JSON lines, see
compactor.py. A job runs to its end before the next one is sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import local_cluster
from local_cluster.compactor import JOB
from local_cluster.log.compaction.compaction_job import CleanedGroup, CompactionJob

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""The longest event: that of a group of segments names all of them."""
END_SECONDS_MAX: Final = 5.0

log = logging.getLogger(__name__)


class CompactorDiedError(Exception):
    """The process ended in the middle of a job."""


class JobDone(NamedTuple):
    """The log is clean below an offset."""

    end_offset: int
    totals: dict[str, int]


class JobFailed(NamedTuple):
    """The job failed. The next one may succeed."""

    reason: str
    errno: int | None


Event = CleanedGroup | JobDone | JobFailed


class CompactorProcess:
    """One process at a time."""

    def __init__(self, bytes_per_second: float) -> None:
        """`bytes_per_second` limits what it reads and writes; 0: no limit."""
        self._bytes_per_second = bytes_per_second
        self._used_bytes_per_second = bytes_per_second
        """The limit of the process that runs."""
        self._process: asyncio.subprocess.Process | None = None

    async def send(self, job: CompactionJob) -> None:
        """Start a job, and the process if it does not run. Raises OSError."""
        process = await self._ensure_started()
        assert process.stdin is not None
        process.stdin.write(JOB.dump_json(job) + b"\n")
        await process.stdin.drain()

    async def next_event(self) -> Event:
        """Wait for the next event of the job. Raises CompactorDiedError, OSError."""
        process = self._process
        assert process is not None, "send() comes first"
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise CompactorDiedError(f"exit code {await process.wait()}")
        event: dict[str, Any] = json.loads(line)
        if "cleaned" in event:
            cleaned = event["cleaned"]
            return CleanedGroup(tuple(cleaned["replaced"]), cleaned["size_bytes"])
        if "compacted" in event:
            return JobDone(event["compacted"]["end_offset"], event["compacted"]["totals"])
        return JobFailed(event["failed"], event["errno"])

    async def end(self) -> None:
        """Kill the process, and with it the job. Raises TimeoutError if it does not end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS_MAX)
        except TimeoutError:
            raise TimeoutError(
                f"the compactor (pid {process.pid}) is killed and does not end"
            ) from None

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the limit, from the next job on: it starts another process."""
        self._bytes_per_second = bytes_per_second

    async def _ensure_started(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._bytes_per_second != self._used_bytes_per_second:
            await self.end()
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._used_bytes_per_second = self._bytes_per_second
        root = str(Path(local_cluster.__file__).parent.parent)
        python_path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "local_cluster.compactor",
            f"--parent={os.getpid()}",
            f"--bytes-per-second={self._bytes_per_second}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=EVENT_BYTES_MAX,
            env=os.environ | {"PYTHONPATH": python_path},
        )
        log.info("the compactor runs with pid %d", self._process.pid)
        return self._process
