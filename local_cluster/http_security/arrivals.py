"""SHELL: accepts the connections of one HTTP port.

asyncio's own server makes a protocol before the address of its peer can be read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

BACKLOG: Final = 128
BEGINNING_MAX: Final = 512
"""Connections whose handshake is under way, also of those that will be refused. The next one is
closed without a word."""
ERROR_PAUSE_S: Final = 1.0
"""Without a free file descriptor, for instance, accepting is tried again after this long."""

log = logging.getLogger(__name__)

Accepted = Callable[[str], asyncio.Protocol]
"""Make the protocol of a new connection from this address."""
Begun = Callable[[asyncio.Protocol], None]
"""The handshake of this protocol's connection is done, or has failed."""


class Arrivals:
    """Accepts on one listening socket, and closes it at the end."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        handshake_s: float,
        accepted: Accepted,
        begun: Begun,
    ) -> None:
        """`handshake_s` limits a TLS handshake."""
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._listener = listener
        self._tls = tls
        self._handshake_s = None if tls is None else handshake_s
        self._accepted = accepted
        self._begun = begun
        self._beginning: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def address(self) -> tuple[str, int]:
        """The bound host and port."""
        name = self._listener.getsockname()
        return name[0], name[1]

    def close(self) -> None:
        """Accept no more, and close what has not begun."""
        self._accepting.cancel()
        for task in self._beginning:
            task.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, name = await loop.sock_accept(self._listener)
            except OSError as error:
                log.error("the HTTP port %d cannot accept: %s", self.address[1], error)
                await asyncio.sleep(ERROR_PAUSE_S)
                continue
            if len(self._beginning) >= BEGINNING_MAX:
                connection.close()
                continue
            task = loop.create_task(self._begin(connection, self._accepted(name[0])))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_s,
            )
        except (OSError, TimeoutError) as error:
            log.debug("an HTTP connection did not begin: %s", error)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        self._begun(protocol)


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Return bound sockets for all addresses of a host. Raises OSError."""
    server = await asyncio.get_running_loop().create_server(
        asyncio.Protocol, host, port, start_serving=False
    )
    bound = [each.dup() for each in server.sockets]
    server.close()
    return bound
