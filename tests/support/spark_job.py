"""A Spark driver in a process of its own, with its JVM and its Python workers, to be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class SparkJob:
    """A module that runs as a driver until it is killed."""

    def __init__(
        self,
        module: str,
        arguments: list[str],
        log_file: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` has variables besides those of this process."""
        self.log_file = log_file
        with log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, **(environment or {})},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill -9 the driver, its JVM and its Python processes."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def kill_workers(self) -> int:
        """Kill -9 the Python workers that run tasks; return how many there were."""
        processes = self._processes()
        daemons = [pid for pid, _, command in processes if b"pyspark.daemon" in command]
        workers = [pid for pid, parent, _ in processes if parent in daemons]
        for pid in workers:
            _send(pid, signal.SIGKILL)
        return len(workers)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the job."""
        for pid, _, _ in self._processes():
            _send(pid, number)

    def _processes(self) -> list[tuple[int, int, bytes]]:
        """Return (pid, parent, command line) of every process of the job's session."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            _, parent, _, session = (int(each) if each.isdigit() else 0 for each in fields[:4])
            if session == self.process.pid:
                found.append((int(entry.name), parent, command))
        return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
