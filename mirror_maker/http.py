"""The worker's own HTTP port: health, readiness, status, metrics, and an operator's retry.

`/healthz` says that the process answers, `/readyz` that it takes part in its group. Neither asks
whether a far cluster is up: a remote outage must not have workers restarted. `POST /retry` has
partitions that stand still tried again at once: `?link=NAME`, narrowed by `&topic=` and
`&partition=`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from .status import JsonObject, render_metrics

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class StatusServer:
    """Serves one worker's status; `start` gives the port that was bound."""

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        is_ready: Callable[[], bool],
        retry: Callable[[str, str | None, int | None], list[JsonObject]],
    ) -> None:
        """`retry` takes link, topic and partition, and says what it had tried again; LookupError
        for a link that is not there."""
        self._retry = retry
        self._status = status
        self._is_ready = is_ready
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; port 0 picks a free one. Raises OSError."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/status", self._get_status),
                web.get("/metrics", self._metrics),
                web.post("/retry", self._post_retry),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._is_ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _get_status(self, request: web.Request) -> web.Response:
        return web.json_response(self._status())

    async def _post_retry(self, request: web.Request) -> web.Response:
        query = request.query
        partition = query.get("partition")
        if "link" not in query or not (partition is None or partition.isdecimal()):
            raise web.HTTPBadRequest(text="wanted: ?link=NAME[&topic=NAME][&partition=NUMBER]")
        try:
            retried = self._retry(
                query["link"], query.get("topic"), None if partition is None else int(partition)
            )
        except LookupError as error:
            raise web.HTTPNotFound(text=f"no link {error}") from error
        return web.json_response({"retried": retried})

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=render_metrics(self._status()).encode(),
            headers={"Content-Type": METRICS_CONTENT_TYPE},
        )
