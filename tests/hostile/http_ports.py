"""Requests to the HTTP ports of aggregator, mirror worker, broker and supervisor, as bytes.

aiohttp reads them as from a socket, and the real applications answer, with a guard. What they
refuse, they refuse with a JSON document that has a message. Nothing is a 500, nobody is served
without the token, and no token comes back or is logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote_from_bytes

from aiohttp import web

from aggregator.metrics import AggregatorMetrics
from aggregator.web.app import make_app
from local_cluster.client.auth.security import Secret
from local_cluster.http_security.answers import server_log
from local_cluster.http_security.decision import OPEN_PATHS
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import HttpSecurity
from local_cluster.monitoring.confluent_names import Names
from local_cluster.monitoring.http import MonitoringServer
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import FlowKey
from mirror_maker.formats.controls import Controls
from mirror_maker.formats.record_values import decode_record, encode_record
from mirror_maker.repair.examiner import NoRepairError
from mirror_maker.repair.plan import How
from mirror_maker.worker.http import ControlsChange, StatusServer
from mirror_maker.worker.status import JsonObject
from tests.hostile.target import Target
from tests.support.supervised import Supervised
from tests.unit.aggregator.http_world import World
from tests.unit.mirror_maker.metrics.test_exposition import flow, status
from topology.deployment.deployment import Daemon, Deployment
from topology.supervisor.host_server import HostServer

TOKEN: Final = "token-of-the-operator-0001"
OTHER_TOKEN: Final = "token-of-another-one-0002"
"""No request of the corpus has it."""
LOGGER: Final = logging.getLogger("hostile").name
"""A logger whose level requests may change."""
STEPS_MAX: Final = 60
"""Steps of the event loop for one input; a request that is not answered then waits for more."""
FLOW: Final = FlowKey("flights", 0, uuid.UUID(int=1), uuid.UUID(int=2))
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class RefusedError(Exception):
    """The request was refused, or the connection waits for more bytes."""


class _Connection(asyncio.Transport):
    """A connection in memory: what is written to it is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _Log(logging.Handler):
    """Keeps the lines that processes would write."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Port:
    """One HTTP port, without a socket."""

    def __init__(self, make: Callable[[HttpGuard], web.Application]) -> None:
        self._loop = asyncio.new_event_loop()
        self._answers: list[tuple[web.Request, web.StreamResponse]] = []
        self._log = _Log()
        for name in (server_log.name, "aggregator", "mirror_maker", "local_cluster", "topology"):
            logging.getLogger(name).addHandler(self._log)
        self._server = self._loop.run_until_complete(self._start(make))

    async def _start(self, make: Callable[[HttpGuard], web.Application]) -> web.Server:
        with TemporaryDirectory() as directory:
            secrets = []
            for name, content in (("token", TOKEN), ("accepted", OTHER_TOKEN)):
                place = Path(directory, name)
                place.write_text(content)
                secrets.append(Secret(file=str(place)))
            security = HttpSecurity(token=secrets[0], accepted_tokens=secrets[1])
            app = make(HttpGuard(security))

        async def note(request: web.Request, response: web.StreamResponse) -> None:
            self._answers.append((request, response))

        app.on_response_prepare.append(note)
        runner = web.AppRunner(app, access_log=None, logger=server_log)
        await runner.setup()
        assert runner.server is not None
        return runner.server

    def read(self, content: bytes) -> object:
        """Send one input. Raises RefusedError unless every request in it was served."""
        self._answers.clear()
        self._log.lines.clear()
        written = self._loop.run_until_complete(self._converse(content))
        codes = [int(code) for code in _STATUS.findall(written)]
        assert 500 not in codes, self._log.lines[-1:]
        assert OTHER_TOKEN.encode() not in written, "an answer with a token"
        sent = content.count(TOKEN.encode())
        in_headers = content.count(b"\r\nAuthorization: Bearer " + TOKEN.encode())
        for request, response in self._answers:
            _check(request, response, may_repeat_it=sent > in_headers)
        if sent == in_headers:  # else it may be a part of a path
            assert not any(TOKEN in line for line in self._log.lines), self._log.lines
        if not codes or max(codes) >= 400:
            raise RefusedError(codes)
        return codes

    async def _converse(self, content: bytes) -> bytes:
        connection, handler = _Connection(), self._server()
        handler.connection_made(connection)
        handler.data_received(content)
        for _ in range(STEPS_MAX):
            if connection.is_closed:
                break
            await asyncio.sleep(0)
        handler.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        return bytes(connection.written)


def _check(request: web.Request, response: web.StreamResponse, *, may_repeat_it: bool) -> None:
    authorization = request.headers.get("Authorization", "")
    is_open = request.path in OPEN_PATHS and "verbose" not in request.query
    if response.status < 400:
        assert is_open or TOKEN in authorization, f"{request.path} without a token"
        return
    if response.status in (413, 417) and response.content_type == "text/plain":
        return  # of aiohttp itself, before any handler
    assert isinstance(response, web.Response) and isinstance(response.body, bytes)
    document = json.loads(response.body)
    if request.path != "/readyz":
        assert isinstance(document["message"], str), document
    assert may_repeat_it or TOKEN.encode() not in response.body, "an answer with a token"


def _request(line: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [
        f"{line} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {TOKEN}",
        *headers,
        *([f"Content-Length: {len(body)}"] if body else []),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@lru_cache
def _aggregator() -> Port:
    world = World()

    def make(guard: HttpGuard) -> web.Application:
        return make_app(world.aggregate, AggregatorMetrics(world.aggregate), guard)

    port = Port(make)
    port._loop.run_until_complete(world.load())
    return port


def _to_aggregator() -> Sequence[bytes]:
    offsets = {"link": "jfk-nyc", "offsets": [["flights", 0, 123], ["flights", 1, 9]]}
    body = json.dumps(offsets).encode()
    place = "link=jfk-nyc&topic=flights&partition=0&offset=23"
    return (
        _request(f"GET /api/v1/translate?{place}"),
        _request("GET /api/v1/translate/reverse?topic=jfk.flights&partition=0&offset=123"),
        _request("POST /api/v1/translate", body, "Content-Type: application/json"),
        _request("GET /api/v1/groups/translate?link=jfk-nyc&group=g&topic=flights"),
        _request("GET /api/v1/groups/translate?link=jfk-nyc&group=g&direction=to_source"),
        _request("GET /api/v1/audit?link=jfk-nyc&topic=flights&partition=0&since_ms=1"),
        _request("GET /api/v1/completeness?topic=flights&late_ms=60000"),
        _request("GET /api/v1/lag?link=jfk-nyc"),
        _request("GET /api/v1/workers?link=jfk-nyc"),
        _request("GET /api/v1/probe?link=jfk-nyc"),
        _request("GET /api/v1/links"),
        _request("GET /api/v1/topics"),
        _request(f"GET /api/v1/loggers/{LOGGER}"),
        _request(f"PUT /api/v1/loggers/{LOGGER}", b'{"level":"DEBUG"}'),
        _request("GET /readyz?verbose=1"),
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )


def _orders() -> StatusServer:
    """Return a worker's port. What it is ordered must be a record that links can write."""
    state = Controls()

    def retry(link: str, topic: str | None, partition: int | None) -> list[JsonObject]:
        if link != "l":
            raise LookupError(link)
        return [{"topic": topic, "partition": partition}]

    async def control(link: str, change: ControlsChange) -> Controls:
        nonlocal state
        if link != "l":
            raise LookupError(link)
        changed = change(state)
        assert decode_record(*encode_record(changed)) == changed, changed
        state = Controls()
        return changed

    async def repair(link: str, topic: str, partition: int, how: How | None) -> dict[str, Any]:
        if link != "l":
            raise LookupError(link)
        assert topic and 0 <= partition < 2**31
        if how is How.FRESH:
            raise NoRepairError("others may write into it")
        if how is How.SKIP:
            raise KafkaError(ErrorCode.request_timed_out, "no answer")
        return {"is_well": True}

    return StatusServer(lambda: status(flow()), lambda: True, retry, control, repair, None)  # type: ignore[arg-type]


@lru_cache
def _worker() -> Port:
    def make(guard: HttpGuard) -> web.Application:
        server = _orders()
        server._guard = guard
        return server.make_app()

    return Port(make)


def _to_worker() -> Sequence[bytes]:
    part = "link=l&topic=t&partition=1"
    rates = "source_bytes_per_second=7&target_bytes_per_second=0"
    return (
        _request(f"POST /retry?{part}"),
        _request(f"POST /pause?{part}"),
        _request("POST /resume?link=l&topic=t"),
        _request(f"POST /throttle?link=l&{rates}"),
        _request(f"GET /repair?{part}"),
        _request(f"POST /repair?{part}&how=recopy"),
        _request("GET /status"),
        _request(f"GET /loggers/{LOGGER}"),
        _request(f"PUT /loggers/{LOGGER}", b'{"level":null}'),
        _request("GET /readyz"),
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )


async def _metrics(_: Names) -> AsyncIterator[bytes]:
    yield b"one 1\n"
    yield b"two 2\n"


@lru_cache
def _broker() -> Port:
    checks = {"one": True, "two": True}
    return Port(lambda guard: MonitoringServer(lambda _: checks, _metrics, guard).make_app())


def _to_broker() -> Sequence[bytes]:
    return (
        _request("GET /metrics?names=confluent"),
        _request("GET /readyz?verbose=1&in_sync=1"),
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /readyz?in_sync=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )


@lru_cache
def _supervisor() -> Port:
    deployment = Deployment(
        name="flights",
        topology_file="/t.yaml",
        daemons=(Daemon(key="b", role="broker", label="b", argv=("b",), host="10.0.0.1"),),
    )
    return Port(HostServer(Supervised(deployment)).make_app)


def _to_supervisor() -> Sequence[bytes]:
    order = b'{"deployment":"flights","host":"10.0.0.1"}'
    return (
        _request("GET /host"),
        _request("POST /stop", order, "Content-Type: application/json"),
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )


def _parameters(requests: Sequence[bytes]) -> Sequence[bytes]:
    """Return requests with a query or a body, as `parameter_request` reads them."""
    found = []
    for each in requests:
        head, _, body = each.partition(b"\r\n\r\n")
        target, _, query = head.partition(b" HTTP/1.1")[0].partition(b"?")
        if query or body:
            found.append(b"\n".join([target, *query.split(b"&"), b"", body]))
    return found


def parameter_request(content: bytes) -> bytes:
    """Return a request whose parameters and body are any bytes, but which is HTTP.

    The first line has method and path. A line `name=value` follows for each parameter, then an
    empty line and the body.
    """
    head, _, body = content.partition(b"\n\n")
    target, *pairs = head.split(b"\n")
    method, _, path = target.partition(b" ")
    query = b"&".join(
        b"=".join(quote_from_bytes(each, safe="").encode() for each in pair.split(b"=", 1))
        for pair in pairs
    )
    name = method.decode() if method in (b"POST", b"PUT") else "GET"
    line = f"{name} {quote_from_bytes(b'/' + path.lstrip(b'/'))}?{query.decode()}"
    return _request(line, body, "Content-Type: application/json")


def _target(name: str, port: Callable[[], Port], corpus: Sequence[bytes], share: int) -> Target:
    return Target(name, lambda: corpus, lambda content: port().read(content), REFUSALS, share)


def _parameter_target(name: str, port: Callable[[], Port], requests: Sequence[bytes]) -> Target:
    def read(content: bytes) -> object:
        return port().read(parameter_request(content))

    return Target(name, lambda: _parameters(requests), read, REFUSALS, 10)


REFUSALS: Final = (RefusedError,)
HTTP_TARGETS: Final = (
    _target("http-aggregator", _aggregator, _to_aggregator(), 5),
    _target("http-worker", _worker, _to_worker(), 5),
    _target("http-broker", _broker, _to_broker(), 5),
    _target("http-supervisor", _supervisor, _to_supervisor(), 5),
    _parameter_target("aggregator-parameters", _aggregator, _to_aggregator()),
    _parameter_target("worker-parameters", _worker, _to_worker()),
    _parameter_target("supervisor-parameters", _supervisor, _to_supervisor()),
)
