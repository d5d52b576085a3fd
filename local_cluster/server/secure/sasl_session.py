"""SASL on one connection: who it is, and which requests it may send meanwhile (KIP-43, KIP-152).

A client sends ApiVersions, SaslHandshake, and SaslAuthenticate until it has proved who it is;
anything else closes the connection, and so does AUTHENTICATION_MS_MAX without a proof. A failure is
answered after a delay, and the connection closes.

With a session lifetime (`connections.max.reauth.ms`, KIP-368) the client authenticates again on the
same connection, as the same user by the same mechanism. A client that sends anything else after its
end is disconnected, also one whose SaslAuthenticate v0 knows of no lifetimes. A session by a token
ends with the token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Final, NamedTuple

from local_cluster.counters.listener import ListenerCounters
from local_cluster.handlers.registry import Handler, Reply, find_handler
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authentication.exchanges import AuthenticationError, Exchange
from local_cluster.security.authentication.listener_security import GSSAPI
from local_cluster.server.request_dispatch import ANONYMOUS, RequestDispatcher
from local_cluster.server.secure.credentials import Credentials
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, PeerError

AUTHENTICATION_MS_MAX: Final = 30_000
FRAME_BYTES_MAX: Final = 512 * 1024
"""Of a frame before authentication: Kafka's default of sasl.server.max.receive.size."""
REAUTHENTICATION_INTERVAL_MS_MIN: Final = 1_000
"""As in Kafka: a client that begins again earlier is answered ILLEGAL_SASL_STATE."""
CLOSING_DELAY_MS: Final = 100
"""The response to a failed authentication gets so long to leave before the connection closes."""
LOGGED_CHARS_MAX: Final = 100

log = logging.getLogger(__name__)


class SharedSasl(NamedTuple):
    """What the sessions of one listener share."""

    listener: str
    mechanisms: Sequence[str]
    credentials: Credentials
    failure_delay_ms: int
    session_ms_max: int
    """0: a session has no end."""
    counters: ListenerCounters
    threads: Executor | None = None
    """For the steps of GSSAPI, which may block."""


class SaslSession:
    """The dispatcher of one connection of a listener with SASL."""

    def __init__(self, services: BrokerServices, settings: SharedSasl) -> None:
        self._clock = services.clock
        self._settings = settings
        self.counters = settings.counters
        self._dispatcher = RequestDispatcher(services, settings.listener, self._find)
        self.request_time = self._dispatcher.request_time
        self._mechanism = ""
        self._exchange: Exchange | None = None
        """The authentication that is under way."""
        self._principal: str | None = None
        self._authenticated_ms = 0
        self._ends_ms: int | None = None
        self._has_failed = False
        self._is_busy = False
        """Whether a step is under way beside the loop."""
        self._on_authenticated: Callable[[str], None] | None = None
        self._close: Callable[[str], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def begin(self, on_authenticated: Callable[[str], None], close: Callable[[str], None]) -> None:
        """Start the deadline. `on_authenticated` gets the principal, once. `close` ends the
        connection for a reason."""
        self._on_authenticated = on_authenticated
        self._close = close
        self._deadline = asyncio.get_running_loop().call_later(
            AUTHENTICATION_MS_MAX / 1000,
            close,
            f"not authenticated within {AUTHENTICATION_MS_MAX} ms",
        )

    def dispatch(
        self, frame: memoryview, client_host: str, connection_id: int, principal: str = ANONYMOUS
    ) -> tuple[RequestContext, Reply]:
        """Hand on a request as the user of this session. Raises PeerError for a refused one."""
        return self._dispatcher.dispatch(
            frame, client_host, connection_id, self._principal or ANONYMOUS
        )

    def end(self) -> None:
        """Forget the deadline of a connection that is closed."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- which request is served --------------------------------------------------------------

    def _find(self, api_key: int) -> Handler | None:
        handler = find_handler(api_key)
        if self._has_failed:
            raise PeerError("a request after a failed authentication")
        if self._is_busy:
            raise PeerError("a request before the response to the last message of SASL")
        if api_key == ApiKey.SASL_HANDSHAKE and self._may_begin():
            assert handler is not None
            return replace(handler, function=self._handshake)
        if self._exchange is not None:
            if api_key != ApiKey.SASL_AUTHENTICATE:
                raise PeerError(f"api key {api_key} during an authentication")
            assert handler is not None
            return replace(handler, function=self._authenticate)
        if self._principal is None:
            if api_key != ApiKey.API_VERSIONS:
                raise PeerError(f"api key {api_key} before an authentication")
        elif self._ends_ms is not None and self._clock.monotonic_ms() > self._ends_ms:
            raise PeerError(f"the session of {self._principal} has ended")
        return handler

    def _may_begin(self) -> bool:
        if self._exchange is not None:
            return False
        since_ms = self._clock.monotonic_ms() - self._authenticated_ms
        return self._principal is None or since_ms >= REAUTHENTICATION_INTERVAL_MS_MIN

    # -- SASL's two requests --------------------------------------------------------------------

    def _handshake(self, broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
        if context.api_version == 0:
            raise PeerError("SaslHandshake v0: messages without a header would follow")
        mechanism = request.mechanism
        mechanisms = self._settings.mechanisms
        reply = {"error_code": ErrorCode.none, "mechanisms": mechanisms}
        if mechanism not in mechanisms:
            reply["error_code"] = ErrorCode.unsupported_sasl_mechanism
            return self._fail(context, f"{mechanism[:LOGGED_CHARS_MAX]!r} is not enabled", reply)
        if self._principal is not None and mechanism != self._mechanism:
            reply["error_code"] = ErrorCode.unsupported_sasl_mechanism
            return self._fail(context, "another mechanism than before", reply)
        self._mechanism = mechanism
        self._exchange = self._settings.credentials.exchange(mechanism)
        return reply

    def _authenticate(self, broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
        exchange, message = self._exchange, bytes(request.auth_bytes)
        assert exchange is not None
        if self._mechanism == GSSAPI:
            self._is_busy = True
            return self._authenticate_beside(context, exchange, message)
        try:
            return self._answer(exchange, exchange.respond(message))
        except AuthenticationError as error:
            return self._refuse(context, error)

    async def _authenticate_beside(
        self, context: RequestContext, exchange: Exchange, message: bytes
    ) -> dict[str, Any]:
        """Take a step that may block, such as a look into a keytab."""
        loop = asyncio.get_running_loop()
        try:
            answer = await loop.run_in_executor(self._settings.threads, exchange.respond, message)
            return self._answer(exchange, answer)
        except AuthenticationError as error:
            response: dict[str, Any] = await self._refuse(context, error)
            return response
        finally:
            self._is_busy = False

    def _answer(self, exchange: Exchange, message: bytes) -> dict[str, Any]:
        lifetime_ms = 0
        if exchange.username is not None:
            lifetime_ms = self._succeed(f"User:{exchange.username}", exchange.ends_ms)
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "auth_bytes": message,
            "session_lifetime": lifetime_ms,  # from v1 on
        }

    def _refuse(self, context: RequestContext, error: AuthenticationError) -> Awaitable[Any]:
        return self._fail(
            context,
            f"{error}: {error.detail}" if error.detail else str(error),
            {
                "error_code": ErrorCode.sasl_authentication_failed,
                "error_message": str(error),
                "auth_bytes": b"",
            },
        )

    def _succeed(self, principal: str, ends_ms: int | None) -> int:
        """Begin a session; return its lifetime in ms, 0 for none. At `ends_ms` the proof ends."""
        if self._principal not in (None, principal):
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from {self._principal}"
            )
        self.counters.authenticated += 1
        is_first = self._principal is None
        self._principal = principal
        self._exchange = None
        self._authenticated_ms = self._clock.monotonic_ms()
        lifetime_ms = self._lifetime_ms(ends_ms)
        self._ends_ms = self._authenticated_ms + lifetime_ms if lifetime_ms else None
        if is_first:
            self.end()
            assert self._on_authenticated is not None
            self._on_authenticated(principal)
        return lifetime_ms

    def _lifetime_ms(self, ends_ms: int | None) -> int:
        """Return the ms of a session, 0 for no end: the shorter of the broker's and the proof's."""
        longest_ms = self._settings.session_ms_max
        if ends_ms is None:
            return longest_ms
        left_ms = max(ends_ms - self._clock.now_ms(), 1)
        return min(left_ms, longest_ms) if longest_ms else left_ms

    def _fail(
        self, context: RequestContext, reason: str, response: dict[str, Any]
    ) -> Awaitable[Any]:
        self._has_failed = True
        self.counters.refused += 1
        self._exchange = None
        log.info(
            "connection %d from %s on listener %s: authentication by %s failed: %s",
            context.connection_id,
            context.client_host,
            context.listener,
            self._mechanism or "no mechanism",
            reason,
        )
        return self._respond_late(response)

    async def _respond_late(self, response: dict[str, Any]) -> dict[str, Any]:
        """Make each wrong guess wait, then close."""
        await asyncio.sleep(self._settings.failure_delay_ms / 1000)
        assert self._close is not None
        asyncio.get_running_loop().call_later(
            CLOSING_DELAY_MS / 1000, self._close, "not authenticated"
        )
        return response
