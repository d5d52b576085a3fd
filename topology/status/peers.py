"""Whether the daemons of other hosts can be reached, by a connection to the address of each.

answers      something accepts connections there
not_started  the host refuses the connection: nothing listens there yet
unreachable  no answer in time, no route, or a name that cannot be resolved
unknown      it has no address that other hosts can reach
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from topology.deployment.deployment import Daemon
from topology.status.blocked import ANSWERS, NOT_STARTED, UNKNOWN, UNREACHABLE, Peer

PEER_TIMEOUT_S: Final = 2.0
PEERS_MAX: Final = 256
"""Peers that are checked at the same time."""


def check_peers(daemons: tuple[Daemon, ...]) -> Mapping[str, Peer]:
    """Return what is known about each daemon of another host, by key."""
    return asyncio.run(_check_all(daemons)) if daemons else {}


async def _check_all(daemons: tuple[Daemon, ...]) -> dict[str, Peer]:
    slots = asyncio.Semaphore(PEERS_MAX)

    async def check(daemon: Daemon) -> Peer:
        if daemon.address is None:
            return Peer(UNKNOWN)
        async with slots:
            return await _check(*daemon.address)

    found = await asyncio.gather(*map(check, daemons))
    return {daemon.key: peer for daemon, peer in zip(daemons, found, strict=True)}


async def _check(host: str, port: int) -> Peer:
    try:
        async with asyncio.timeout(PEER_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return Peer(NOT_STARTED, f"nothing listens on {host}:{port} yet")
    except TimeoutError:
        return Peer(UNREACHABLE, f"{host}:{port} does not answer within {PEER_TIMEOUT_S:g} s")
    except OSError as error:
        return Peer(UNREACHABLE, f"{host}:{port}: {error.strerror or error}")
    writer.close()
    return Peer(ANSWERS)
