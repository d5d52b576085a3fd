"""The supervisor's HTTP port for the commands of other hosts, if the topology has `supervisors`.

    GET  /host     what runs here: HostReport below
    POST /stop     body: {"deployment": NAME, "host": HOST}; stops all daemons, then the supervisor
    POST /check    body: the same with "file"; what `up` with that file would refuse here
    GET  /metrics  processes that run, and restarts
    GET  /livez, /healthz, /readyz

Everything but health needs the token; for metrics that of metrics will do. No request changes what
should run: only `up` on this host does, over the unix socket (control_server.py).

The port follows the deployment: an applied one may open, move or close it. A port that cannot be
opened stops no daemon; it is a problem in the report, and is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any, Final, Protocol

from aiohttp import web

from local_cluster.client.auth.security import SecurityError
from local_cluster.foreign_json import parse_json
from local_cluster.http_security.answers import answer_in_json
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.port import HttpPort
from local_cluster.prometheus_text import CONTENT_TYPE
from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.supervisor.host_check import CheckFailure, HostChecks
from topology.supervisor.metrics_text import metrics_text

REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of a check: the file in JSON. ZooKeeper holds a file of 1 MiB at most."""
ORDER_BYTES_MAX: Final = 16 * 1024
RETRY_S: Final = 5.0
"""Seconds after which a port that could not be opened is tried again."""
SHUTDOWN_TIMEOUT_S: Final = 1.0
SHOWN: Final = (
    *("key", "role", "label", "host", "version"),
    *("phase", "pid", "restarts", "exit_code", "log"),
)
"""What other hosts are told of a daemon."""

log = logging.getLogger(__name__)


class Supervising(Protocol):
    """What the port shows and orders; `Supervisor` implements it."""

    state: StateDir
    deployment: Deployment | None
    applied: asyncio.Event
    """Set when another deployment was applied."""
    port_problem: str | None
    """Why the port could not be opened."""

    def report(self) -> dict[str, Any]: ...

    def stop(self) -> None: ...


class HostServer:
    """The HTTP port of one supervisor."""

    def __init__(self, supervisor: Supervising) -> None:
        self._supervisor = supervisor
        self._checks = HostChecks(supervisor.state)
        self._served: object = None
        self._port: HttpPort | None = None

    def make_app(self, guard: HttpGuard) -> web.Application:
        """Return the application; it starts no tasks."""
        app = web.Application(
            middlewares=[answer_in_json, *guard.middlewares], client_max_size=REQUEST_BYTES_MAX
        )
        health = (web.get(path, self._health) for path in ("/livez", "/healthz", "/readyz"))
        app.add_routes(
            [
                web.get("/host", self._host),
                web.post("/stop", self._stop),
                web.post("/check", self._check),
                web.get("/metrics", self._metrics),
                *health,
            ]
        )
        return app

    async def follow(self) -> None:
        """Open and close the port as each applied deployment says, until cancelled."""
        supervisor = self._supervisor
        while True:
            supervisor.applied.clear()
            deployment = supervisor.deployment
            ports = None if deployment is None else deployment.supervisors
            wanted = None
            if ports is not None and deployment is not None and deployment.supervisor_addresses:
                wanted = (ports.security, deployment.supervisor_addresses)
            if wanted != self._served or supervisor.port_problem is not None:
                await self.close()
                supervisor.port_problem = None if wanted is None else await self._open(deployment)
                self._served = wanted
            retry_s = RETRY_S if supervisor.port_problem is not None else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(supervisor.applied.wait(), retry_s)

    async def _open(self, deployment: Deployment | None) -> str | None:
        """Open the port; return why that is not possible."""
        assert deployment is not None and deployment.supervisors is not None
        ports, addresses = deployment.supervisors, deployment.supervisor_addresses
        shown = ", ".join(f"{host}:{port}" for host, port in addresses)
        try:
            ports.check([each.host for each in deployment.daemons])
            guard = HttpGuard(ports.security)
            self._port = HttpPort(self.make_app(guard), guard, shutdown_s_max=SHUTDOWN_TIMEOUT_S)
            for host, port in addresses:
                await self._port.bind(host, port)
        except (OSError, ValueError, SecurityError) as error:
            await self.close()
            problem = f"its HTTP on {shown} cannot be opened: {error}"
            if problem != self._supervisor.port_problem:
                log.error("%s", problem)
            return problem
        log.info("other hosts reach this supervisor on %s", shown)
        return None

    async def close(self) -> None:
        if self._port is not None:
            await self._port.stop()
            self._port = None

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"state": "alive"})

    async def _metrics(self, _: web.Request) -> web.Response:
        text = metrics_text(self._supervisor.report())
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _host(self, _: web.Request) -> web.Response:
        deployment, report = self._supervisor.deployment, self._supervisor.report()
        assert deployment is not None, "the port follows a deployment"
        return web.json_response(
            {
                **{key: report[key] for key in ("pid", "version", "started_at_ms", "stopping")},
                "deployment": deployment.name,
                "hosts": _hosts(deployment),
                "installed": version("heliograph"),
                "now_ms": time.time_ns() // 1_000_000,
                "file": deployment.file_text,
                "daemons": [{key: row[key] for key in SHOWN} for row in report["daemons"]],
            }
        )

    async def _stop(self, request: web.Request) -> web.Response:
        await self._order(request, ORDER_BYTES_MAX)
        log.warning("%s orders over HTTP to stop every daemon", request.remote)
        self._supervisor.stop()
        return web.json_response({"stopping": True})

    async def _check(self, request: web.Request) -> web.Response:
        file_text = (await self._order(request, REQUEST_BYTES_MAX)).get("file")
        if not isinstance(file_text, str):
            raise web.HTTPBadRequest(text="the body has no file")
        try:
            report = await self._checks.check(file_text)
        except CheckFailure as failure:
            raise web.HTTPServiceUnavailable(text=str(failure)) from failure
        return web.Response(body=report, content_type="application/json")

    async def _order(self, request: web.Request, bytes_max: int) -> dict[str, Any]:
        """Return the body of a request that names this host and deployment."""
        if request.content_type != "application/json":
            # Pages in a browser cannot send this type to other sites.
            raise web.HTTPUnsupportedMediaType(text="the body has to be application/json")
        body = await request.read()
        if len(body) > bytes_max:
            raise web.HTTPRequestEntityTooLarge(max_size=bytes_max, actual_size=len(body))
        try:
            order = parse_json(body)
        except ValueError as error:
            raise web.HTTPBadRequest(text="the body is no JSON") from error
        deployment = self._supervisor.deployment
        assert deployment is not None
        here = {"deployment": deployment.name, "host": _hosts(deployment)}
        if (
            not isinstance(order, dict)
            or order.get("deployment") != deployment.name
            or order.get("host") not in _hosts(deployment)
        ):
            raise web.HTTPConflict(text=f"this is another host or deployment: {here}")
        return order


def _hosts(deployment: Deployment) -> list[str]:
    """Return the hosts of the file that this machine is."""
    return list(dict.fromkeys(each.host for each in deployment.daemons))


@contextlib.asynccontextmanager
async def serve_other_hosts(supervisor: Supervising) -> AsyncIterator[None]:
    """Serve while the context is open, where the deployment says so."""
    server = HostServer(supervisor)
    following = asyncio.create_task(server.follow())
    following.add_done_callback(_log_end)
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait([following])
        await server.close()


def _log_end(task: asyncio.Task[None]) -> None:
    """Log an unexpected end: the supervisor continues without the port."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the HTTP for other hosts ended", exc_info=error)
