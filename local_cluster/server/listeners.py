"""The listening sockets of a broker, and the client connections that they accept."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Final

from local_cluster.handlers.services import BrokerServices
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.server.connection import ClientConnection, ConnectionSettings
from local_cluster.server.request_dispatch import RequestDispatcher
from local_cluster.settings import BrokerSettings

LISTEN_BACKLOG: Final = 512


class Listeners:
    """The listeners of one broker by name: bound at once, opened later."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Bind the sockets, so that port 0 is known. Raises OSError that names the address."""
        self._settings = ConnectionSettings.of(settings)
        self._sockets = {item.name: _bind(item.host, item.port) for item in settings.listeners}
        self._servers: list[asyncio.Server] = []
        self._connections: set[ClientConnection] = set()

    @property
    def ports(self) -> Mapping[str, int]:
        """The bound port of each listener."""
        return {name: bound.getsockname()[1] for name, bound in self._sockets.items()}

    @property
    def are_open(self) -> bool:
        """Whether connections are accepted, or were."""
        return bool(self._servers)

    async def open(self, services: BrokerServices, cold_reads: ColdReads) -> None:
        """Accept connections, and hand their requests to the handlers."""
        loop = asyncio.get_running_loop()
        for name, bound in self._sockets.items():
            dispatcher = RequestDispatcher(services, name)

            def accept(dispatcher: RequestDispatcher = dispatcher) -> ClientConnection:
                return ClientConnection(
                    dispatcher,
                    cold_reads,
                    self._settings,
                    on_open=self._connections.add,
                    on_close=self._connections.discard,
                )

            server = await loop.create_server(accept, sock=bound, backlog=LISTEN_BACKLOG)
            self._servers.append(server)

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.shut_down()


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only if the protocol is named does asyncio set TCP_NODELAY on accepted connections.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
