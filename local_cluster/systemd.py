"""Tell systemd that a process is ready and that its event loop turns (sd_notify, Type=notify).

Nothing happens without NOTIFY_SOCKET in the environment. A notification is one datagram to the Unix
socket named there; a name that starts with @ is in the abstract namespace.

Source: the man pages sd_notify(3) and sd_watchdog_enabled(3).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

READY_POLL_S: Final = 0.2
"""Seconds between looks at the ready file."""


@contextlib.asynccontextmanager
async def notifying(ready_file: str | os.PathLike[str]) -> AsyncIterator[None]:
    """Notify while the body runs: READY=1 once the ready file names this process, then WATCHDOG=1.

    The watchdog is fed by the event loop, so systemd restarts a process whose loop hangs. It is fed
    before the process is ready, too: a broker may wait long for ZooKeeper.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        yield
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.setblocking(False)
        notify.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        task = asyncio.create_task(_notify(notify, Path(ready_file)), name="systemd")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            _send(notify, b"STOPPING=1")


async def _notify(notify: socket.socket, ready_file: Path) -> None:
    loop = asyncio.get_running_loop()
    period_s = watchdog_s(os.environ, os.getpid())
    is_ready = False
    next_s = loop.time()
    while True:
        if not is_ready and _names_this_process(ready_file):
            is_ready = True
            _send(notify, b"READY=1")
        if period_s is not None and loop.time() >= next_s:
            _send(notify, b"WATCHDOG=1")
            next_s = loop.time() + period_s / 2
        if is_ready and period_s is None:
            return
        await asyncio.sleep(READY_POLL_S if not is_ready else max(0.0, next_s - loop.time()))


def watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the watchdog's period in seconds; None if it is off, or meant for another process."""
    given = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid) or not given.isdigit():
        return None
    return int(given) / 1_000_000 or None


def _names_this_process(ready_file: Path) -> bool:
    try:
        report = json.loads(ready_file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(report, dict) and report.get("pid") == os.getpid()


def _send(notify: socket.socket, message: bytes) -> None:
    # systemd is gone or does not read; it decides what follows from the silence.
    with contextlib.suppress(OSError):
        notify.send(message)
