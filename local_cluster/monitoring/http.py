"""The broker's HTTP port: metrics and health, apart from the Kafka protocol.

- `GET /livez`, `/healthz`: 200 while the event loop runs. A supervisor restarts a broker by it.
- `GET /readyz`: 200 while the broker serves, else 503. `?verbose=1` adds every check. Neither
  ZooKeeper nor other clusters are a check: a broker serves without them, and a restart would help
  nobody. `?in_sync=1` adds the check that all its replicas are in sync, for whatever restarts
  brokers one by one.
- `GET /metrics`: Prometheus text (scrape.py). `?names=confluent` has Confluent's names of metrics.

A port with a guard lets health pass, and nothing else without a token or a certificate.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from aiohttp import web

from local_cluster.http_security.answers import answer_in_json
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.port import HttpPort
from local_cluster.monitoring.confluent_names import Names
from local_cluster.prometheus_text import CONTENT_TYPE

SHUTDOWN_WAIT_S_MAX: Final = 2.0
"""Seconds that a running scrape may take once the broker stops."""

Checks = Callable[[bool], Mapping[str, bool]]
"""Return whether each condition of readiness holds, by its name; with True also of being in sync.
"""


class MonitoringServer:
    """The HTTP server of one broker, on a bound socket."""

    def __init__(
        self, checks: Checks, metrics: Callable[[Names], AsyncIterator[bytes]], guard: HttpGuard
    ) -> None:
        """`metrics` returns the chunks of the exposition, under the names that are asked for."""
        self._guard = guard
        self._checks = checks
        self._metrics = metrics
        self._port: HttpPort | None = None

    def make_app(self) -> web.Application:
        """Return the application; it starts no tasks."""
        app = web.Application(middlewares=[answer_in_json, *self._guard.middlewares])
        app.add_routes(
            [
                web.get("/livez", self._get_livez),
                web.get("/healthz", self._get_livez),
                web.get("/readyz", self._get_readyz),
                web.get("/metrics", self._get_metrics),
            ]
        )
        return app

    async def start(self, listener: socket.socket) -> None:
        """Serve until `stop`, which closes the socket."""
        self._port = HttpPort(self.make_app(), self._guard, shutdown_s_max=SHUTDOWN_WAIT_S_MAX)
        await self._port.serve(listener)

    async def stop(self) -> None:
        if self._port is not None:
            await self._port.stop()

    async def _get_livez(self, _: web.Request) -> web.Response:
        return web.json_response({"state": "alive"})

    async def _get_readyz(self, request: web.Request) -> web.Response:
        checks = dict(self._checks(_is_set(request, "in_sync")))
        document: dict[str, object] = {"ready": all(checks.values())}
        if _is_set(request, "verbose"):
            document["checks"] = [
                {"check": name, "passed": passed} for name, passed in checks.items()
            ]
        return web.json_response(document, status=200 if document["ready"] else 503)

    async def _get_metrics(self, request: web.Request) -> web.StreamResponse:
        chunks = self._metrics(_names(request))
        # An error while the metrics are collected becomes a status, not half a response.
        first = await anext(chunks, b"")
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        await response.prepare(request)
        await response.write(first)
        async for chunk in chunks:
            if chunk:
                await response.write(chunk)
        await response.write_eof()
        return response


def _names(request: web.Request) -> Names:
    wanted = request.query.get("names", Names.usual)
    try:
        return Names(wanted)
    except ValueError:
        known = ", ".join(Names)
        raise web.HTTPBadRequest(
            text=f"names={wanted!r}: there are no such names of metrics, only {known}"
        ) from None


def _is_set(request: web.Request, parameter: str) -> bool:
    return request.query.get(parameter, "0") not in ("0", "false")
