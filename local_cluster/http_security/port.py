"""SHELL: one HTTP port of a daemon, with limits for clients that connect and say nothing.

aiohttp accepts as many connections as the process has descriptors, and waits for a request for
ever. A broker would lack those descriptors for its clients and logs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from local_cluster.http_security.answers import server_log

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware
    from aiohttp.web_protocol import RequestHandler

    from local_cluster.http_security.guard import HttpGuard

CONNECTIONS_MAX: Final = 256
"""Open connections of one port. The next one gets 503 and is closed."""
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
        first_request_s_max: float = FIRST_REQUEST_S_MAX,
        shutdown_s_max: float = SHUTDOWN_S_MAX,
    ) -> None:
        """`guard` gives the TLS of the port; its middlewares are in the application."""
        self._tls = guard.tls_context
        self._connections_max = connections_max
        self._first_request_s_max = first_request_s_max
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections without a request so far, each with the timer that closes it."""
        self._is_full = False
        app.middlewares.insert(0, self._noting_requests())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=server_log,
            keepalive_timeout=KEEP_ALIVE_S,
            shutdown_timeout=shutdown_s_max,
        )
        self._listeners: list[asyncio.Server] = []

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bound addresses, as host and port."""
        names = (each.getsockname() for server in self._listeners for each in server.sockets)
        return [(name[0], name[1]) for name in names]

    async def serve(self, listener: socket.socket) -> None:
        """Serve on a bound socket until `stop`, which closes it."""
        await self._start(partial(asyncio.get_running_loop().create_server, sock=listener))

    async def bind(self, host: str, port: int) -> None:
        """Serve on an address until `stop`. Raises OSError."""
        await self._start(partial(asyncio.get_running_loop().create_server, host=host, port=port))

    async def stop(self) -> None:
        """Close the addresses, let running requests end, and close the connections."""
        for server in self._listeners:
            server.close()
        for timer in self._silent.values():
            timer.cancel()
        await self._runner.cleanup()

    async def _start(
        self, create_server: Callable[..., Coroutine[Any, Any, asyncio.Server]]
    ) -> None:
        if self._runner.server is None:
            await self._runner.setup()
        handshake_s = None if self._tls is None else self._first_request_s_max
        server = await create_server(self._accept, ssl=self._tls, ssl_handshake_timeout=handshake_s)
        self._listeners.append(server)

    def _accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        server = self._runner.server
        assert server is not None, "addresses are served after the set-up"
        is_full = len(self._silent.keys() | set(server.connections)) >= self._connections_max
        if is_full and not self._is_full:
            log.warning("%d HTTP connections are open; more are refused", self._connections_max)
        self._is_full = is_full
        if is_full:
            return _Refusal()
        connection = server()
        self._silent[connection] = asyncio.get_running_loop().call_later(
            self._first_request_s_max, self._close_silent, connection
        )
        return connection

    def _close_silent(self, connection: RequestHandler) -> None:
        del self._silent[connection]
        connection.force_close()

    def _noting_requests(self) -> Middleware:
        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            timer = self._silent.pop(request.protocol, None)
            if timer is not None:
                timer.cancel()
            return await handler(request)

        return note


class _Refusal(asyncio.Protocol):
    """A connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_REFUSAL)
        transport.close()
