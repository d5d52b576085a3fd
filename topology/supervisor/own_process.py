"""One operating-system process of ours: started, recognized again, stopped.

A process is identified by pid and start time. So a pid that the system has reused for another
process is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

_GO: Final = b"go\n"
_WAIT_FOR_GO: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "heliograph")
"""A shell that reads one line and then execs the command that follows, under the same pid."""

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a process."""

    pid: int
    started: str
    """The result of `start_mark`; only compared for equality."""


def start_mark(pid: int) -> str:
    """Return a process's start time in a form that is unique among processes with this pid.

    On Linux it is the boot id and the clock ticks since boot. psutil derives the start time from
    the wall clock, so it would change when the wall clock is set. Raises psutil.NoSuchProcess.
    """
    try:
        # The second field, the name in parentheses, may hold any text. Ticks are the 22nd field.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return f"{BOOT_ID_FILE.read_text().strip()} {fields[19]}"
    except OSError:
        return f"{psutil.Process(pid).create_time():.3f}"


@dataclass(slots=True)
class OwnProcess:
    """A running process of ours: a child of this process, or one of an earlier supervisor."""

    identity: Identity
    child: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    """None for a process that an earlier supervisor started."""

    @property
    def pid(self) -> int:
        return self.identity.pid

    def has_ended(self) -> bool:
        """Return whether it has exited; a child is reaped."""
        if self.child is not None:
            return self.child.poll() is not None
        return find_process(self.identity) is None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs, or if it is no child."""
        return self.child.returncode if self.child is not None else None

    def release(self) -> None:
        """Let a process that was just started exec its command; no-op if it has exited."""
        assert self.child is not None and self.child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(_GO)
        self.child.stdin.close()

    def terminate(self) -> None:
        """Send SIGTERM; no-op if it has exited."""
        self._signal(signal.SIGTERM)

    def hang_up(self) -> None:
        """Send SIGHUP, by which it reloads its settings; no-op if it has exited."""
        self._signal(signal.SIGHUP)

    def kill(self) -> None:
        """Kill it and the other processes of its process group."""
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
    """Return the live process with this identity; None if it has exited or the pid was reused."""
    try:
        process = psutil.Process(identity.pid)
        if start_mark(identity.pid) != identity.started:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def adopt(identity: Identity) -> OwnProcess | None:
    """Return the process of an earlier supervisor, or None if it has exited."""
    return OwnProcess(identity) if find_process(identity) is not None else None


def start(argv: Sequence[str], *, log_file: Path, directory: Path) -> OwnProcess:
    """Start a process in its own session and append its output to the log. Raises OSError.

    The process waits for `release`, and exits if this process exits before that. So every process
    can be recorded before it does anything.
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
    # A child that has already exited is still a zombie, so its start time can be read.
    return OwnProcess(Identity(child.pid, start_mark(child.pid)), child)


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a daemon: the given one, with our packages importable."""
    packages = str(Path(__file__).resolve().parents[2])
    paths = [packages, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONUNBUFFERED": "1",
    }
