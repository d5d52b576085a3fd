"""A host of the deployment: its file, its state directory, its installed version, its command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.ten_hosts.network import Network
from tests.ten_hosts.processes import HOST, kill_all, mark

ROOT: Final = Path(__file__).parents[2]
COMMAND_SECONDS_MAX: Final = 3_600.0
TOKEN: Final = "the-token-of-all-hosts-0123456789"
COMPLAINT_CHARACTERS_MAX: Final = 4_000


class CommandFailed(Exception):
    """A `heliograph` command ended with an exit code that is not allowed."""


class Call(NamedTuple):
    """A command that a host ran."""

    host: str
    words: str
    seconds: float
    exit_code: int


Heard = Callable[[Call], None]


class Host:
    """A machine with Heliograph installed."""

    def __init__(self, number: int, network: Network, directory: Path, hear: Heard) -> None:
        self.number = number
        self.address = network.addresses[number]
        self.name = f"host-{number}"
        self._network = network
        self._hear = hear
        self._directory = directory
        self._site = directory / "site"
        self._state = directory / "state"
        self.file = directory / "etc" / "shop.yaml"

    @property
    def logs(self) -> Path:
        """Where the logs of its processes are."""
        return self._state / "logs"

    def install(self, version: str) -> None:
        """Install a version of the package, beside what runs.

        The code is this repository's; the metadata says which version it is.
        """
        metadata = self._site / "heliograph-0.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True, exist_ok=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: heliograph\nVersion: {version}\n")

    def write_file(self, text: str) -> None:
        """Put the topology file and the token of the supervisors on the host."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)
        token = self.file.with_name("token")
        token.write_text(TOKEN)
        token.chmod(0o600)

    def up(self) -> Any:
        """Apply the file; 4 says that links or hosts are waited for."""
        return self.run("up", "shop.yaml", "--host", self.address, allowed=(0, 4))

    def status(self) -> dict[str, Any]:
        """Return the status document, whether all is well or not."""
        document: dict[str, Any] = self.run("status", allowed=(0, 4), told=False)
        return document

    def run(self, *words: str, allowed: tuple[int, ...] = (0,), told: bool = True) -> Any:
        """Run a command with JSON output, and return that. Raises CommandFailed."""
        begun = time.monotonic()
        done = subprocess.run(
            [
                *self._network.prefix(self.number),
                *(sys.executable, "-m", "topology", *words),
                *("-o", "json", "--state-dir", str(self._state)),
            ],
            cwd=self.file.parent,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        if told:
            seconds = time.monotonic() - begun
            self._hear(Call(self.name, " ".join(words), seconds, done.returncode))
        if done.returncode not in allowed:
            said = (done.stderr.strip() or done.stdout.strip())[-COMPLAINT_CHARACTERS_MAX:]
            raise CommandFailed(
                f"{self.name}: heliograph {' '.join(words)} ended with {done.returncode}:\n{said}"
            )
        return json.loads(done.stdout) if done.stdout.strip() else None

    def kill(self) -> int:
        """Kill every process at once; return how many they were."""
        return kill_all(self.number)

    def lose(self) -> None:
        """Lose the machine: its processes, and all that was on its disks."""
        self.kill()
        shutil.rmtree(self._directory)

    def _environment(self) -> dict[str, str]:
        former = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        path = os.pathsep.join(dict.fromkeys([str(self._site), str(ROOT), *former]))
        return {**os.environ, "PYTHONPATH": path, HOST: mark(self.number)}
