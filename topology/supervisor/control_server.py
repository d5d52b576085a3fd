"""The supervisor's control API: HTTP on a unix socket in the state directory.

    GET  /status   the table of daemons
    POST /apply    body: a deployment; the response lists the steps that follow
    POST /stop     stop all daemons, then the supervisor

The API has no authorization of its own: only the owner of the state directory can open the socket.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from topology.deployment.deployment import Deployment, decode_deployment
from topology.deployment.plan import Step

REQUEST_BYTES_MAX = 64 * 1024 * 1024
SHUTDOWN_TIMEOUT_S = 1.0


class Controlled(Protocol):
    """The calls that the API makes; `Supervisor` implements them."""

    def report(self) -> dict[str, Any]: ...

    def apply(self, deployment: Deployment) -> list[Step]:
        """Raises OSError."""
        ...

    def stop(self) -> None: ...


@contextlib.asynccontextmanager
async def serve_control(supervisor: Controlled, socket_path: Path) -> AsyncIterator[None]:
    """Serve the API while the context is open. Raises OSError."""

    async def status(_: web.Request) -> web.Response:
        return web.json_response(supervisor.report())

    async def apply(request: web.Request) -> web.Response:
        try:
            deployment = decode_deployment(await request.read())
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        try:
            steps = supervisor.apply(deployment)
        except OSError as error:
            return web.json_response({"error": str(error)}, status=500)
        return web.json_response({"steps": [step.as_json() for step in steps]})

    async def stop(_: web.Request) -> web.Response:
        supervisor.stop()
        return web.json_response({"stopping": True})

    app = web.Application(client_max_size=REQUEST_BYTES_MAX)
    app.add_routes([web.get("/status", status), web.post("/apply", apply), web.post("/stop", stop)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(socket_path)).start()
        yield
    finally:
        await runner.cleanup()
