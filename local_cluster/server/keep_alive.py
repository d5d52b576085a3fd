"""The system's own probes of a silent connection."""

from __future__ import annotations

import socket
from asyncio.trsock import TransportSocket
from typing import Final

KEEPALIVE_IDLE_S: Final = 600
"""After such a silence the system asks whether the peer still lives. A machine that lost its power,
or a firewall that forgot the flow, would otherwise stay connected for ever."""
KEEPALIVE_INTERVAL_S: Final = 60
KEEPALIVE_PROBES_MAX: Final = 5


def keep_alive(sock: TransportSocket) -> None:
    """Have the system end a connection whose peer is silent and answers no probes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES_MAX),
    ):
        # A system that lacks an option uses its own time.
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
