"""A deployment of Heliograph, seen through its command alone: up, status, gaps, pause, down."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.referee.history import EntryKind, JournalEntry

COMMAND_SECONDS_MAX: Final = 300.0
UNHEALTHY: Final = 4
"""Exit code of `heliograph status` where something does not run."""
RUNNING: Final = "running"


class CommandFailed(Exception):
    """A `heliograph` command ended with another exit code than 0."""


def heliograph_program() -> str:
    """The installed command: beside this Python, or on the path. Raises FileNotFoundError."""
    beside = Path(sys.executable).with_name("heliograph")
    found = str(beside) if beside.exists() else shutil.which("heliograph")
    if found is None:
        raise FileNotFoundError("no `heliograph` command; `make demo` or `make lint` installs it")
    return found


class Deployment:
    """One topology file and its state directory."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "topology.yaml"
        self._state_dir = directory / "state"

    @property
    def logs(self) -> Path:
        """Where the daemons' logs are."""
        return self._state_dir / "logs"

    def up(self, text: str) -> None:
        """Apply a topology file. Raises CommandFailed."""
        self.file.write_text(text)
        self._run("up", str(self.file))

    def status(self) -> dict[str, Any]:
        """The status document, whether all runs or not. Raises CommandFailed."""
        document: dict[str, Any] = self._run("status", allowed=(0, UNHEALTHY))
        return document

    def pid(self, daemon: str) -> int | None:
        """The pid of a daemon by its key; None while it has no process."""
        daemons = {each["key"]: each["pid"] for each in self.status()["daemons"]}
        pid: int | None = daemons.get(daemon)
        return pid

    def journal(self) -> list[JournalEntry]:
        """Every entry of every link's journal. Raises CommandFailed."""
        names = JournalEntry._fields
        return [
            JournalEntry(*(entry[name] for name in names))._replace(kind=EntryKind(entry["kind"]))
            for entry in self._run("gaps")["gaps"]
        ]

    def hold(self, link: str, topic: str) -> None:
        """Pause a topic of a link. Raises CommandFailed."""
        self._run("mirror", "pause", "--link", link, "--topic", topic)

    def release(self, link: str, topic: str) -> None:
        """Resume a topic of a link. Raises CommandFailed."""
        self._run("mirror", "resume", "--link", link, "--topic", topic)

    def stop_of(self, link: str, topic: str, partition: int) -> str | None:
        """Why a partition cannot be copied on, if it cannot. Raises CommandFailed."""
        told = self._run("mirror", "repair", link, topic, str(partition), "--dry-run")
        stop: str | None = told["stop"]
        return stop

    def wait_running(self, seconds_max: float) -> list[str]:
        """Wait until every daemon runs; the keys of those that do not by then."""
        deadline = time.monotonic() + seconds_max
        while True:
            daemons = self.status()["daemons"]
            away = [each["key"] for each in daemons if each["state"] != RUNNING]
            if not away or time.monotonic() > deadline:
                return away
            time.sleep(1.0)

    def down(self) -> None:
        """Stop everything, and delete its data. Raises CommandFailed."""
        self._run("down", "--purge")

    def worker_command(self, target: str, worker_id: str) -> list[str]:
        """The command of one more mirror worker for the links into a cluster."""
        command = [heliograph_program(), "mirror", "run", str(self.file)]
        return [*command, "--target", target, "--worker-id", worker_id]

    def _run(self, *arguments: str, allowed: Sequence[int] = (0,)) -> Any:
        command = [heliograph_program(), *arguments, "-o", "json"]
        done = subprocess.run(
            [*command, "--state-dir", str(self._state_dir)],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        if done.returncode not in allowed:
            words = " ".join(arguments)
            raise CommandFailed(
                f"heliograph {words} ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
            )
        return json.loads(done.stdout)
