"""The `heliograph` command as a process, on one topology file and one state directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND_TIMEOUT_S = 240.0


class HeliographCommand:
    """Every call ends with the exit code that is asked for, or fails with what it complained of."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "topology.yaml"
        self.state_dir = directory / "state"
        self.options = ("-o", "json", "--state-dir", str(self.state_dir))

    def run(self, *arguments: str, code: int = 0) -> Any:
        """What it printed as JSON."""
        return json.loads(self._done(arguments, code).stdout)

    def document(self, *arguments: str) -> Any:
        """What it printed as JSON, whatever its exit code says of it."""
        return json.loads(self._done(arguments, None).stdout)

    def complain(self, *arguments: str, code: int = 1) -> str:
        """What it complained of."""
        return self._done(arguments, code).stderr

    def up(self) -> Any:
        return self.run("up", str(self.file))

    def _done(
        self, arguments: tuple[str, ...], code: int | None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "topology", *arguments, *self.options],
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done


def pids(status: Any) -> dict[str, int]:
    """Of the daemons in a status document."""
    return {each["key"]: each["pid"] for each in status["daemons"]}
