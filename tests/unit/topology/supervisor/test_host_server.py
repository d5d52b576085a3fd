"""The supervisor's HTTP port: who may ask, what may be ordered, and how it follows the file."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientSession

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.http_security.settings import OPEN, HttpClientSecurity, HttpSecurity
from local_cluster.security.authentication.listener_security import TlsSettings
from tests.support.authority import Authority
from tests.support.quiet_ports import quiet_port
from tests.support.replicas import eventually
from tests.support.supervised import Supervised
from topology.deployment.deployment import Daemon, Deployment, encode_deployment
from topology.deployment.state_dir import StateDir
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.hosts.asking import ask_host
from topology.supervisor import host_check, host_server
from topology.supervisor.host_check import CHECKS_MAX, CheckFailure, HostChecks
from topology.supervisor.host_server import HostServer, serve_other_hosts

TOKEN = "the-token-0123456789"
METRICS_TOKEN = "metrics-token-0123456789"
HOST = "127.0.1.1"
ORDER = {"deployment": "flights", "host": HOST}


@pytest.fixture
def security(tmp_path: Path) -> HttpSecurity:
    places = []
    for name, text in (("token", TOKEN), ("metrics", METRICS_TOKEN)):
        (tmp_path / name).write_text(text)
        places.append(Secret(file=str(tmp_path / name)))
    return HttpSecurity(token=places[0], metrics_token=places[1])


def deployment(security: HttpSecurity, port: int) -> Deployment:
    daemon = Daemon(key="b", role="broker", label="broker", argv=("b",), host=HOST)
    return Deployment(
        name="flights",
        topology_file="/t.yaml",
        daemons=(daemon,),
        file_text="name: flights\n",
        supervisors=SupervisorPorts(port=port, security=security),
        http=HttpClientSecurity(token=security.token),
    )


@asynccontextmanager
async def serving(supervisor: Supervised) -> AsyncIterator[ClientSession]:
    """A client with the token, once the port is open."""
    assert supervisor.deployment is not None
    ports = supervisor.deployment.supervisors
    assert ports is not None
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        serve_other_hosts(supervisor),
        ClientSession(ports.url(HOST), headers=headers) as session,
    ):
        await eventually(lambda: accepts(ports.port))
        yield session


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


@contextmanager
def taken(port: int) -> Iterator[None]:
    with socket.create_server((HOST, port)):
        yield


async def test_it_says_what_runs_here(security: HttpSecurity) -> None:
    asked = deployment(security, quiet_port())
    async with serving(Supervised(asked)) as session:
        answer = await asyncio.to_thread(ask_host, asked, HOST)
        text = await (await session.get("/host")).text()
    assert (answer.state, answer.reason) == ("answers", None)
    assert answer.report is not None
    assert (answer.report["hosts"], answer.report["file"]) == ([HOST], "name: flights\n")
    assert answer.daemons[0]["pid"] == 7
    assert "hidden" not in text
    assert TOKEN not in text and METRICS_TOKEN not in text


async def test_tls_and_who_is_trusted(security: HttpSecurity, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    tls = TlsSettings(keystore_file=str(authority.issue("server").pem))
    asked = deployment(replace(security, tls=tls), quiet_port())
    ports = asked.supervisors
    assert ports is not None
    trusting = ClientSecurity(protocol="SSL", ca_file=str(authority.ca_file), check_hostname=False)
    strangers = ClientSecurity(
        protocol="SSL", ca_file=str(Authority(tmp_path / "another").ca_file), check_hostname=False
    )
    async with serve_other_hosts(Supervised(asked)):
        await eventually(lambda: accepts(ports.port))
        found = {}
        for name, client in (
            ("trusting", trusting),
            ("another name", replace(trusting, check_hostname=True)),
            ("strangers", strangers),
        ):
            http = HttpClientSecurity(token=security.token, tls=client)
            found[name] = await asyncio.to_thread(ask_host, replace(asked, http=http), HOST)
    states = {name: answer.state for name, answer in found.items()}
    assert states == {"trusting": "answers", "another name": "unusable", "strangers": "unusable"}
    assert "certificate" in str(found["strangers"].reason)


async def test_only_the_token_reads_and_orders(
    security: HttpSecurity, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervised(deployment(security, quiet_port()))
    async with serving(supervisor) as session:
        for path in ("/livez", "/healthz", "/readyz"):
            assert (await session.get(path, headers={"Authorization": ""})).status == 200
        wrong = [{"Authorization": ""}, {"Authorization": "Bearer another-token-0123456"}]
        only_metrics = {"Authorization": f"Bearer {METRICS_TOKEN}"}
        for headers, status in [*((each, 401) for each in wrong), (only_metrics, 403)]:
            assert (await session.get("/host", headers=headers)).status == status
            assert (await session.post("/stop", json=ORDER, headers=headers)).status == status
        login = base64.b64encode(f"any:{TOKEN}".encode()).decode()
        browser = {"Authorization": f"Basic {login}"}
        assert (await session.get("/host", headers=browser)).status == 200
        assert (await session.post("/stop", json=ORDER, headers=browser)).status == 401
        assert supervisor.stops == 0
        assert (await session.post("/stop", json=ORDER)).status == 200
        assert supervisor.stops == 1
    assert TOKEN not in caplog.text and METRICS_TOKEN not in caplog.text


async def test_metrics_need_a_token_and_that_of_metrics_will_do(security: HttpSecurity) -> None:
    supervisor = Supervised(deployment(security, quiet_port()))
    async with serving(supervisor) as session:
        assert (await session.get("/metrics", headers={"Authorization": ""})).status == 401
        scraper = {"Authorization": f"Bearer {METRICS_TOKEN}"}
        async with session.get("/metrics", headers=scraper) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/plain"
            text = await answer.text()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert samples == [
        'heliograph_supervisor_daemon_running{daemon="b",role="broker"} 1.0',
        'heliograph_supervisor_daemon_restarts_total{daemon="b",role="broker"} 3.0',
        "heliograph_supervisor_start_time_seconds 0.002",
    ]


async def test_an_order_names_this_host_and_deployment(
    security: HttpSecurity, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervised(deployment(security, quiet_port()))
    async with serving(supervisor) as session:
        others: tuple[object, ...] = ({**ORDER, "host": "127.0.1.2"}, {**ORDER, "deployment": "x"})
        for order in (*others, {}, [], 1):
            answer = await session.post("/stop", json=order)
            assert answer.status == 409
            assert "this is another host or deployment" in (await answer.json())["message"]
        as_json = "application/json"
        valid, long = json.dumps(ORDER), json.dumps({**ORDER, "more": "x" * 20_000})
        for content_type, body, status in (
            ("text/plain", valid, 415),  # what a page of another site can send
            (as_json, "{", 400),
            (as_json, "[" * 10_000, 400),
            (as_json, long, 413),
        ):
            headers = {"Content-Type": content_type}
            answer = await session.post("/stop", data=body, headers=headers)
            assert answer.status == status
        for method, path in (("POST", "/apply"), ("GET", "/status"), ("GET", "/stop")):
            assert (await session.request(method, path)).status in (404, 405)
        assert supervisor.stops == 0
        await session.post("/stop", json=ORDER)
    assert "127.0.0.1 orders over HTTP to stop every daemon" in caplog.text


async def test_the_port_follows_the_deployment(security: HttpSecurity) -> None:
    first, second = deployment(security, quiet_port()), deployment(security, quiet_port())
    supervisor = Supervised(replace(first, supervisors=None))
    ports = [each.supervisors.port for each in (first, second) if each.supervisors]
    async with serve_other_hosts(supervisor):
        for applied, is_open in (
            (first, [True, False]),
            (second, [False, True]),
            (replace(second, supervisors=None), [False, False]),
            (first, [True, False]),
        ):
            supervisor.apply(applied)

            async def is_as_applied(wanted: list[bool] = is_open) -> bool:
                return [await accepts(port) for port in ports] == wanted

            await eventually(is_as_applied)
    assert not await accepts(ports[0])


async def test_a_port_that_is_taken_is_a_problem_and_is_tried_again(
    security: HttpSecurity, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_server, "RETRY_S", 0.01)
    port = quiet_port()
    supervisor = Supervised(deployment(security, port))

    async def has_problem() -> bool:
        return supervisor.port_problem is not None

    with taken(port):
        async with serve_other_hosts(supervisor):
            await eventually(has_problem)
            assert f"{HOST}:{port}" in str(supervisor.port_problem)
    async with serve_other_hosts(supervisor):
        await eventually(lambda: accepts(port))
        assert supervisor.port_problem is None
    problems = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(problems) == 1, "a retry logs nothing new"


async def test_without_a_token_there_is_no_port(tmp_path: Path) -> None:
    absent = HttpSecurity(token=Secret(file=str(tmp_path / "absent")))
    for security, reason in ((OPEN, "needs a `token`"), (absent, "absent")):
        port = quiet_port()
        supervisor = Supervised(deployment(security, port))
        server = HostServer(supervisor)
        following = asyncio.create_task(server.follow())

        async def has_problem(asked: Supervised = supervisor) -> bool:
            return asked.port_problem is not None

        await eventually(has_problem)
        following.cancel()
        assert reason in str(supervisor.port_problem)
        assert not await accepts(port)


async def test_a_file_is_checked_and_nothing_changes(
    security: HttpSecurity, tmp_path: Path
) -> None:
    state = StateDir(tmp_path / "state")
    state.create()
    runs = deployment(security, quiet_port())
    state.deployment_file.write_text(encode_deployment(runs))
    supervisor = Supervised(runs, state)
    order = {**ORDER, "file": "name: trains\n" + "#" * 100_000}
    async with serving(supervisor) as session:
        async with session.post("/check", json=order) as answer:
            document = await answer.json()
            assert answer.status == 200, document
        (refusal,) = document["refusals"]
        assert refusal["reason"] == "the version that is installed here cannot read the file"
        for wrong, status in (({**order, "host": "h"}, 409), (ORDER, 400), ([], 409)):
            assert (await session.post("/check", json=wrong)).status == status
        assert (
            await session.post("/check", json=order, headers={"Authorization": ""})
        ).status == 401
    assert supervisor.stops == 0


async def test_checks_are_few_and_short(
    security: HttpSecurity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checks = HostChecks(StateDir(tmp_path))
    command = (sys.executable, "-c", "import sys; sys.exit('no memory')")
    with (
        monkeypatch.context() as patch,
        pytest.raises(CheckFailure, match="the check failed: no memory"),
    ):
        patch.setattr(checks, "_command", command)
        await checks.check("name: flights\n")
    monkeypatch.setattr(host_check, "CHECK_S_MAX", 0.01)
    found = await asyncio.gather(
        *(checks.check("name: flights\n") for _ in range(CHECKS_MAX + 1)), return_exceptions=True
    )
    assert [str(each) for each in found] == [
        *["the check takes more than 0.01 s"] * CHECKS_MAX,
        f"{CHECKS_MAX} checks wait already",
    ]
