"""The worker's HTTP port: health, readiness, status, metrics and an operator's orders.

- `GET /livez`, `/healthz`: the process answers. `GET /readyz`: it is a member of its group. None
  depends on a remote cluster, because an outage there must not restart workers.
- `GET /status`, `GET /metrics`: JSON and Prometheus text.
- `POST /retry?link=NAME[&topic=][&partition=]`: retry stalled partitions at once.
- `POST /pause` and `/resume` take the same parameters. `POST /throttle?link=NAME` takes
  `&source_bytes_per_second=` and `&target_bytes_per_second=`; 0 is unlimited. These orders are
  stored on the target, and every worker of the link follows them.
- `GET /repair?link=&topic=&partition=`: what is wrong with the copy of a partition, whichever
  worker copies it, and the possible repairs. `POST` with `&how=recopy|fresh|skip` orders one of
  them: the order is in the link's journal, and the worker that copies the partition follows. 409
  says why a repair is impossible.
- `GET /loggers`: the loggers of the process with their levels. `GET /loggers/NAME`: one of them.
  `PUT` with the body `{"level": "DEBUG"}` sets its level until the process ends.

A refusal is a JSON document whose `message` says why. A port with a guard lets health pass, and
nothing else without a token or a certificate.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from local_cluster.foreign_json import INT32_MAX, INT64_MAX, decimal
from local_cluster.http_security.answers import answer_in_json
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.port import HttpPort
from local_cluster.log_levels import (
    UnknownLogger,
    WrongLevel,
    logger_level,
    logger_levels,
    read_level,
    set_level,
)
from local_cluster.monitoring.push.text import open_text_push
from local_cluster.prometheus_text import CONTENT_TYPE
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.controls import Controls, PausedPart, StillPausedError
from mirror_maker.metrics.exposition import render_metrics
from mirror_maker.repair.examiner import NoRepairError
from mirror_maker.repair.plan import How
from mirror_maker.worker.status import JsonObject, controls_status

if TYPE_CHECKING:
    from local_cluster.monitoring.push.otlp import MetricsPush

SERVICE_NAME: Final = "heliograph-mirror"
"""The default of OTEL_SERVICE_NAME."""
NOT_PUSHED: Final = ("topic", "partition", "group")
"""Labels of the samples that are for a scrape."""
_RATES: Final = ("source_bytes_per_second", "target_bytes_per_second")

_REPAIR_EXPECTED: Final = (
    f"expected: ?link=NAME&topic=NAME&partition=NUMBER, with POST also &how={'|'.join(How)}"
)

ControlsChange = Callable[[Controls], Controls]


class StatusServer:
    """The HTTP server of one worker, on a listening socket."""

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        is_ready: Callable[[], bool],
        retry: Callable[[str, str | None, int | None], list[JsonObject]],
        control: Callable[[str, ControlsChange], Awaitable[Controls]],
        repair: Callable[[str, str, int, How | None], Awaitable[JsonObject]],
        guard: HttpGuard,
    ) -> None:
        """`retry` takes link, topic and partition, and returns what it retried; `repair` takes
        link, topic, partition and how. Both raise LookupError for an unknown link.
        """
        self._guard = guard
        self._push: MetricsPush | None = None
        self._retry = retry
        self._repair = repair
        self._control = control
        self._status = status
        self._is_ready = is_ready
        self._port: HttpPort | None = None

    def make_app(self) -> web.Application:
        """Return the application; it starts no tasks."""
        app = web.Application(middlewares=[answer_in_json, *self._guard.middlewares])
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/livez", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/status", self._get_status),
                web.get("/metrics", self._metrics),
                web.post("/retry", self._post_retry),
                web.post("/pause", self._post_pause),
                web.post("/resume", self._post_resume),
                web.post("/throttle", self._post_throttle),
                web.get("/repair", self._get_repair),
                web.post("/repair", self._post_repair),
                web.get("/loggers", _get_loggers),
                web.get("/loggers/{logger}", _get_logger),
                web.put("/loggers/{logger}", _put_logger),
            ]
        )
        return app

    async def start(self, listener: socket.socket) -> None:
        """Serve until `stop`, which closes the socket; push metrics if the environment says so."""
        self._port = HttpPort(self.make_app(), self._guard)
        await self._port.serve(listener)
        self._push = open_text_push(
            lambda: render_metrics(self._status()), self._resource, without=NOT_PUSHED
        )
        if self._push is not None:
            self._push.start()

    def _resource(self) -> dict[str, str]:
        status = self._status()
        return {
            "service.name": SERVICE_NAME,
            "service.instance.id": status["worker_id"],
            "heliograph.cluster": status["target"],
        }

    async def stop(self) -> None:
        if self._push is not None:
            await self._push.stop()
        if self._port is not None:
            await self._port.stop()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._is_ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _get_status(self, request: web.Request) -> web.Response:
        return web.json_response(self._status())

    async def _post_retry(self, request: web.Request) -> web.Response:
        query = request.query
        if not query.get("link") or query.get("topic") == "":
            raise web.HTTPBadRequest(text="expected: ?link=NAME[&topic=NAME][&partition=NUMBER]")
        partition = _partition(query["partition"]) if "partition" in query else None
        try:
            retried = self._retry(query["link"], query.get("topic"), partition)
        except LookupError as error:
            raise web.HTTPNotFound(text=f"this worker has no link {error}") from error
        return web.json_response({"retried": retried})

    async def _post_pause(self, request: web.Request) -> web.Response:
        part = _part(request)
        return await self._change(request, lambda controls: controls.pause(part))

    async def _post_resume(self, request: web.Request) -> web.Response:
        part = _part(request)
        return await self._change(request, lambda controls: controls.resume(part))

    async def _post_throttle(self, request: web.Request) -> web.Response:
        query = request.query
        if not query.get("link") or query.keys().isdisjoint(_RATES):
            raise web.HTTPBadRequest(text=f"expected: ?link=NAME and one of {', '.join(_RATES)}")
        source, target = (
            _number(name, query[name], INT64_MAX) if name in query else None for name in _RATES
        )

        def change(controls: Controls) -> Controls:
            return replace(
                controls,
                source_bytes_per_second=controls.source_bytes_per_second
                if source is None
                else source,
                target_bytes_per_second=controls.target_bytes_per_second
                if target is None
                else target,
            )

        return await self._change(request, change)

    async def _get_repair(self, request: web.Request) -> web.Response:
        return await self._on_repair(request, None)

    async def _post_repair(self, request: web.Request) -> web.Response:
        try:
            how = How(request.query.get("how", ""))
        except ValueError as error:
            raise web.HTTPBadRequest(text=_REPAIR_EXPECTED) from error
        return await self._on_repair(request, how)

    async def _on_repair(self, request: web.Request, how: How | None) -> web.Response:
        query = request.query
        if not query.get("link") or not query.get("topic") or "partition" not in query:
            raise web.HTTPBadRequest(text=_REPAIR_EXPECTED)
        partition = _partition(query["partition"])
        try:
            document = await self._repair(query["link"], query["topic"], partition, how)
        except LookupError as error:
            raise web.HTTPNotFound(text=f"this worker has no link {error}") from error
        except NoRepairError as error:
            raise web.HTTPConflict(text=str(error)) from error
        except KafkaError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        return web.json_response(document)

    async def _change(self, request: web.Request, change: ControlsChange) -> web.Response:
        try:
            controls = await self._control(request.query["link"], change)
        except LookupError as error:
            raise web.HTTPNotFound(text=f"this worker has no link {error}") from error
        except StillPausedError as error:
            raise web.HTTPConflict(text=str(error)) from error
        except KafkaError as error:
            raise web.HTTPServiceUnavailable(text=f"it may not be written: {error}") from error
        return web.json_response(controls_status(controls))

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=render_metrics(self._status()).encode(),
            headers={"Content-Type": CONTENT_TYPE},
        )


def _part(request: web.Request) -> PausedPart:
    query = request.query
    topic, partition = query.get("topic"), query.get("partition")
    if not query.get("link") or topic == "" or (partition is not None and topic is None):
        raise web.HTTPBadRequest(text="expected: ?link=NAME[&topic=NAME[&partition=NUMBER]]")
    return PausedPart(topic, None if partition is None else _partition(partition))


def _partition(text: str) -> int:
    return _number("partition", text, INT32_MAX)


def _number(name: str, text: str, maximum: int) -> int:
    """Return a parameter that is a number from 0 to `maximum`. Raises HTTPBadRequest."""
    try:
        return decimal(text, maximum)
    except ValueError as error:
        problem = f"{name} must be a number from 0 to {maximum}"
        raise web.HTTPBadRequest(text=problem) from error


async def _get_loggers(request: web.Request) -> web.Response:
    return web.json_response({"loggers": [each._asdict() for each in logger_levels()]})


async def _get_logger(request: web.Request) -> web.Response:
    try:
        found = logger_level(request.match_info["logger"])
    except UnknownLogger as error:
        raise web.HTTPNotFound(text=str(error)) from error
    return web.json_response(found._asdict())


async def _put_logger(request: web.Request) -> web.Response:
    """Set the level of a logger of this process."""
    try:
        level = read_level(await request.read())
        changed = set_level(request.match_info["logger"], level, by=f"{request.remote}, over HTTP")
    except UnknownLogger as error:
        raise web.HTTPNotFound(text=str(error)) from error
    except WrongLevel as error:
        raise web.HTTPBadRequest(text=str(error)) from error
    return web.json_response(changed._asdict())
