"""Ports for servers of tests that stay theirs over kill -9 and restart.

A port that the system gave for "any" lies where outgoing connections get theirs from, so it may be
taken while its server is down. These lie below that range. A lock file per port keeps
concurrent test processes apart for as long as they live.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

PORTS = range(20_000, 32_000)
"""Below what Linux and macOS give to outgoing connections."""

_LOCKS = Path(tempfile.gettempdir()) / f"heliograph-test-ports-{os.getuid()}"

_held: list[int] = []
"""Descriptors of this process's lock files; the system lets go of them when it ends."""


def quiet_ports(count: int) -> list[int]:
    """`count` ports that nobody listens on, and that no test gets as long as this process lives."""
    _LOCKS.mkdir(exist_ok=True)
    found: list[int] = []
    start = os.getpid() * 37
    for step in range(len(PORTS)):
        if len(found) == count:
            return found
        port = PORTS[(start + step) % len(PORTS)]
        if _reserve(port):
            found.append(port)
    raise RuntimeError(f"no {count} free ports in {PORTS}")


def quiet_range(count: int) -> range:
    """`count` such ports one after another."""
    found = quiet_ports(count)
    while found[-1] - found[-count] != count - 1:
        found += quiet_ports(1)  # one between them is taken: the run begins behind it
    return range(found[-count], found[-1] + 1)


def quiet_port() -> int:
    """One of them."""
    return quiet_ports(1)[0]


def _reserve(port: int) -> bool:
    lock = os.open(_LOCKS / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    _held.append(lock)
    return True
