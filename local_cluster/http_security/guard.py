"""SHELL: the server side of HTTP security: aiohttp's middleware, and the TLS context of a port.

Every HTTP port of a daemon uses it. A refusal has the JSON of the aggregator's problems:
`{"error": "...", "message": "...", "parameter": null, "did_you_mean": null}`.
"""

from __future__ import annotations

import logging
import ssl
import time
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from local_cluster.http_security.decision import CHALLENGE, Refusal, Request, decide
from local_cluster.http_security.settings import HttpSecurity
from local_cluster.http_security.tokens import ValidTokens

if TYPE_CHECKING:
    from local_cluster.security.authentication.tls_contexts import TlsContexts

REFUSAL_LOG_S: Final = 1.0
"""Seconds between two lines about refusals; those between are counted."""
PATH_CHARACTERS_MAX: Final = 200

log = logging.getLogger(__name__)


class HttpGuard:
    """Guards one HTTP port."""

    def __init__(self, security: HttpSecurity) -> None:
        """Read tokens and certificates. Raises SecurityError."""
        self._is_guarded = security.is_guarded
        self._takes_certificates = security.takes_certificates
        self._tokens = ValidTokens(security)
        self._refusals = _RefusalLog()
        self.tls_context: ssl.SSLContext | None = None
        """The context of the port, which follows its files; None without TLS."""
        if security.tls is not None:
            # It imports much that an open port does not need.
            from local_cluster.security.authentication.tls_contexts import TlsContexts

            self.tls_context = _following(TlsContexts("HTTP", security.tls))

    @property
    def middlewares(self) -> list[Middleware]:
        """The middleware that refuses; none for an open port."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._check(request, handler)

        return [guard] if self._is_guarded else []

    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = Request(
            method=request.method,
            path=request.path,
            query=request.query,
            authorization=request.headers.get("Authorization"),
            has_certificate=self._takes_certificates and _has_certificate(request),
        )
        refusal = decide(asked, self._tokens.newest())
        if refusal is None:
            return await handler(request)
        self._refusals.note(request, refusal)
        return web.json_response(
            {
                "error": refusal.kind,
                "message": refusal.message,
                "parameter": None,
                "did_you_mean": None,
            },
            status=refusal.status,
            headers={"WWW-Authenticate": CHALLENGE} if refusal.status == 401 else None,
        )


class _RefusalLog:
    """Logs refusals, a line in `REFUSAL_LOG_S` at most."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._left_out = 0

    def note(self, request: web.Request, refusal: Refusal) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            self._left_out += 1
            return
        log.warning(
            "refused %s %r from %s: %s (%d more since the last line)",
            request.method,
            request.path[:PATH_CHARACTERS_MAX],
            request.remote,
            refusal.message,
            self._left_out,
        )
        self._next_s, self._left_out = now_s + REFUSAL_LOG_S, 0


def _has_certificate(request: web.Request) -> bool:
    """Return whether the client has sent a certificate; the handshake has checked it."""
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))


def _following(contexts: TlsContexts) -> ssl.SSLContext:
    """Return a context that hands each connection over to the newest one.

    A server of asyncio keeps the context that it started with.
    """
    context = contexts.newest()

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        connection.context = contexts.newest()

    context.set_servername_callback(choose)
    return context
