"""SHELL: one HTTP port of a daemon, with limits for clients that connect and say nothing.

aiohttp accepts as many connections as the process has descriptors, and waits for a request for
ever. A broker would lack those descriptors for its clients and logs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Set
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from local_cluster.http_security.addresses import counted_address
from local_cluster.http_security.answers import refusal, server_log
from local_cluster.http_security.arrivals import Arrivals, bound_sockets

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware
    from aiohttp.web_protocol import RequestHandler

    from local_cluster.http_security.guard import HttpGuard

CONNECTIONS_MAX: Final = 256
"""Open connections of one port. The next one gets 503 and is closed."""
ADDRESS_CONNECTIONS_MAX: Final = 64
"""Those of one address, so that one client leaves room for others. The next one gets 503 too."""
FIRST_REQUEST_S_MAX: Final = 10.0
"""Seconds that a connection has for its TLS handshake and the headers of its first request."""
KEEP_ALIVE_S: Final = 75.0
"""Seconds that a connection stays open between two requests."""
SHUTDOWN_S_MAX: Final = 5.0
"""Seconds that running requests have when the port closes."""
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)

log = logging.getLogger(__name__)


class HttpPort:
    """The HTTP server of one application, on one address or several."""

    def __init__(
        self,
        app: web.Application,
        guard: HttpGuard,
        *,
        connections_max: int = CONNECTIONS_MAX,
        address_connections_max: int = ADDRESS_CONNECTIONS_MAX,
        first_request_s_max: float = FIRST_REQUEST_S_MAX,
        shutdown_s_max: float = SHUTDOWN_S_MAX,
    ) -> None:
        """`guard` gives the TLS of the port; its middlewares are in the application."""
        self._tls = guard.tls_context
        self._connections_max = connections_max
        self._address_connections_max = address_connections_max
        self._first_request_s_max = first_request_s_max
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections without a request so far, each with the timer that closes it."""
        self._beginning: set[asyncio.Protocol] = set()
        """Connections whose TLS handshake is under way."""
        self._addresses: dict[RequestHandler, str | None] = {}
        """What each of the connections is counted by; those that have ended until the next one."""
        self._is_full = False
        app.middlewares.insert(0, self._noting_requests())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=server_log,
            keepalive_timeout=KEEP_ALIVE_S,
            shutdown_timeout=shutdown_s_max,
            auto_decompress=False,
        )
        self._listeners: list[Arrivals] = []

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bound addresses, as host and port."""
        return [each.address for each in self._listeners]

    async def serve(self, listener: socket.socket) -> None:
        """Serve on a bound socket until `stop`, which closes it."""
        if self._runner.server is None:
            await self._runner.setup()
        self._listeners.append(
            Arrivals(
                listener,
                self._tls,
                self._first_request_s_max,
                self._accept,
                self._beginning.discard,
            )
        )

    async def bind(self, host: str, port: int) -> None:
        """Serve on an address until `stop`. Raises OSError."""
        for each in await bound_sockets(host, port):
            await self.serve(each)

    async def stop(self) -> None:
        """Close the addresses, let running requests end, and close the connections."""
        for listener in self._listeners:
            listener.close()
        for timer in self._silent.values():
            timer.cancel()
        await self._runner.cleanup()

    def _accept(self, host: str) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        server = self._runner.server
        assert server is not None, "addresses are served after the set-up"
        self._prune(self._beginning | set(server.connections))
        address = counted_address(host)
        count = len(self._addresses)
        of_address = 0 if address is None else list(self._addresses.values()).count(address)
        is_full = count >= self._connections_max
        if is_full or of_address >= self._address_connections_max:
            if not self._is_full:
                whose = f"{count} HTTP connections" if is_full else f"{of_address} of {address}"
                log.warning("%s are open; more are refused", whose)
            self._is_full = True
            return _Refusal()
        self._is_full = False
        connection = server()
        self._beginning.add(connection)
        self._addresses[connection] = address
        self._silent[connection] = asyncio.get_running_loop().call_later(
            self._first_request_s_max, self._close_silent, connection
        )
        return connection

    def _prune(self, is_open: Set[asyncio.Protocol]) -> None:
        """Forget connections that have ended."""
        self._addresses = {each: at for each, at in self._addresses.items() if each in is_open}
        for each in self._silent.keys() - self._addresses.keys():
            self._silent.pop(each).cancel()

    def _close_silent(self, connection: RequestHandler) -> None:
        del self._silent[connection]
        connection.force_close()

    def _noting_requests(self) -> Middleware:
        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            timer = self._silent.pop(request.protocol, None)
            if timer is not None:
                timer.cancel()
            encoding = request.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                # It could be larger in memory than its limit of bytes.
                return refusal(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body without Content-Encoding"
                )
            return await handler(request)

        return note


class _Refusal(asyncio.Protocol):
    """A connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_REFUSAL)
        transport.close()
