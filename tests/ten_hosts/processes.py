"""The processes of a host, which an environment variable tells apart from those of others."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

import psutil

HOST: Final = "TEN_HOSTS_HOST"
"""Number of the host and number of the campaign's process, in the environment of every process."""


def mark(number: int) -> str:
    """Return the value of `HOST` in the processes of a host of this campaign."""
    return f"{number} of {psutil.Process().pid}"


def processes_of(number: int) -> Iterator[psutil.Process]:
    """Yield the processes of a host."""
    wanted = mark(number)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(HOST) == wanted:
                yield process


def kill_all(number: int) -> int:
    """Kill everything that runs on a host, as a loss of power does; return how many they were.

    What another process has started meanwhile is killed as well.
    """
    killed = 0
    while found := [each for each in processes_of(number) if each.status() != "zombie"]:
        _send(found, signal.SIGKILL)
        killed += len(found)
        psutil.wait_procs(found, timeout=10)
    return killed


def suspend(number: int) -> None:
    """Freeze everything that runs on a host."""
    _send(list(processes_of(number)), signal.SIGSTOP)


def resume(number: int) -> None:
    """Let it continue."""
    _send(list(processes_of(number)), signal.SIGCONT)


def _send(processes: list[psutil.Process], what: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(what)
