"""One operating-system process of ours: started, recognized again, stopped; never a stranger.

A process is known by its pid together with its start time, so that a pid that the system has
given to somebody else meanwhile is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

_GO: Final = b"go\n"
_WAIT_FOR_GO: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "heliograph")
"""A shell that becomes the command that follows, under the same pid, once it has read a line."""

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a process is known by."""

    pid: int
    started: str
    """When it started, exactly, as `start_mark` says it; compared, never computed with."""


def start_mark(pid: int) -> str:
    """When a process started, in a form that no other process of that pid has.

    On Linux the boot and the clock ticks since it: a wall clock that is set meanwhile would move
    the start time that psutil works out from it. Raises psutil.NoSuchProcess.
    """
    try:
        # The name in parentheses, the second field, may hold anything; ticks are the 22nd field.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return f"{BOOT_ID_FILE.read_text().strip()} {fields[19]}"
    except OSError:
        return f"{psutil.Process(pid).create_time():.3f}"


@dataclass(slots=True)
class OwnProcess:
    """A running process of ours, a child of this process or found again after it."""

    identity: Identity
    child: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    """None for a process that an earlier supervisor started."""

    @property
    def pid(self) -> int:
        return self.identity.pid

    def has_ended(self) -> bool:
        """Whether it is gone; a child is reaped."""
        if self.child is not None:
            return self.child.poll() is not None
        return find_process(self.identity) is None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs, and where it was no child."""
        return self.child.returncode if self.child is not None else None

    def release(self) -> None:
        """Let a process that was just started begin; nothing happens if it has ended."""
        assert self.child is not None and self.child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(_GO)
        self.child.stdin.close()

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM); nothing happens if it has ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and what it started in its own process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not self.has_ended() and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.child is not None:
            self.child.send_signal(number)  # does nothing once the child is reaped
            return
        process = find_process(self.identity)
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def find_process(identity: Identity) -> psutil.Process | None:
    """The live process of that identity, or None: gone, a zombie, or a stranger."""
    try:
        process = psutil.Process(identity.pid)
        if start_mark(identity.pid) != identity.started:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def adopt(identity: Identity) -> OwnProcess | None:
    """The process an earlier supervisor started, if it still runs."""
    return OwnProcess(identity) if find_process(identity) is not None else None


def start(argv: Sequence[str], *, log_file: Path, directory: Path) -> OwnProcess:
    """Start a process in a session of its own, its output appended to the log. Raises OSError.

    It does nothing before `release`, and ends if this process is gone before that: so nothing runs
    that could not be written down first.
    """
    with open(log_file, "ab") as log:
        child = subprocess.Popen(
            [*_WAIT_FOR_GO, *argv],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=child_environment(os.environ),
            start_new_session=True,
        )
    # Even if it has ended by now it is there to be asked, because nobody has reaped it.
    return OwnProcess(Identity(child.pid, start_mark(child.pid)), child)


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a daemon: this one's, with our packages importable."""
    packages = str(Path(__file__).resolve().parents[2])
    paths = [packages, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONUNBUFFERED": "1",
    }


def python_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs one of our modules with this interpreter.

    `-P` keeps the working directory off the import path: it belongs to the deployment.
    """
    return (sys.executable, "-P", "-m", module, *arguments)
