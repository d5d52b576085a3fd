"""Many hosts at once, within limits; and why a host does not answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.http_security.settings import HttpClientSecurity, HttpSecurity
from local_cluster.security.authentication.listener_security import TlsSettings
from tests.support.quiet_ports import quiet_port
from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.hosts import asking
from topology.hosts.answers import Answer
from topology.hosts.asking import ask_all, ask_host, ask_hosts, order, other_hosts
from topology.hosts.document import ask_other_hosts

ANSWERS = Answer(state="answers")


def test_a_host_that_never_answers_holds_up_no_other() -> None:
    end = threading.Event()

    def ask(host: str) -> Answer:
        if host.startswith("hangs"):
            end.wait()
        return ANSWERS

    try:
        hosts = ["a", "hangs-1", "b", "hangs-2", "c"]
        found = ask_all(ask, hosts, at_once=3, limit_s=0.2)
    finally:
        end.set()
    assert list(found) == hosts
    assert [found[host].state for host in hosts if not host.startswith("h")] == ["answers"] * 3
    assert found["hangs-1"].state == found["hangs-2"].state == "unreachable"


def test_no_more_are_asked_at_the_same_time() -> None:
    lock, both = threading.Lock(), threading.Barrier(2)
    asked: list[int] = []
    now = 0

    def ask(host: str) -> Answer:
        nonlocal now
        with lock:
            now += 1
            asked.append(now)
        both.wait()  # it passes only if two are asked at the same time
        with lock:
            now -= 1
        return ANSWERS

    found = ask_all(ask, [f"h{number}" for number in range(10)], at_once=2, limit_s=60)
    assert set(found.values()) == {ANSWERS}
    assert max(asked) == 2


def deployment(port: int, token: Path | None = None) -> Deployment:
    def daemon(host: str) -> Daemon:
        return Daemon(key=f"d-{host}", role="broker", label="d", argv=("d",), host=host)

    return Deployment(
        name="flights",
        topology_file="/t.yaml",
        elsewhere=tuple(daemon(host) for host in ("127.0.1.1", "127.0.1.2", "127.0.0.1")),
        supervisors=SupervisorPorts(port=port, hosts=("127.0.1.1",)),
        http=HttpClientSecurity(token=None if token is None else Secret(file=str(token))),
    )


def test_hosts_that_cannot_be_asked(tmp_path: Path) -> None:
    port = quiet_port()
    asked = deployment(port)
    assert other_hosts(asked) == ["127.0.1.1", "127.0.1.2"]
    found = ask_hosts(asked, other_hosts(asked))
    assert [each.state for each in found.values()] == ["not_started", "not_configured"]
    assert found["127.0.1.1"].reason == f"nothing listens on http://127.0.1.1:{port}"
    no_token = ask_host(deployment(port, tmp_path / "absent"), "127.0.1.1")
    assert no_token.state == "not_asked"
    assert ask_other_hosts(replace(asked, supervisors=None)) == {}


@asynccontextmanager
async def sending(data: bytes) -> AsyncIterator[int]:
    """A server that sends these bytes, and then nothing more unless they end the response."""

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        if data:
            writer.close()
        else:
            await reader.read()

    server = await asyncio.start_server(send, "127.0.1.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("data", "state", "reason"),
    [
        (b"SSH-2.0\r\n", "unusable", "does not answer with HTTP"),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", "unusable", "not that of a supervisor"),
        (b"HTTP/1.0 302 Found\r\nLocation: /host\r\n\r\n", "unusable", "HTTP status 302"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b" " * 2_000, "unusable", "sends more than 1000 bytes"),
        (b"", "unreachable", "does not answer within 0.2 s"),
    ],
)
async def test_answers_that_are_none(
    data: bytes, state: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_TIMEOUT_S", 0.2 if not data else 60.0)
    monkeypatch.setattr(asking, "ANSWER_BYTES_MAX", 1_000)
    async with sending(data) as port:
        answer = await asyncio.to_thread(ask_host, deployment(port), "127.0.1.1")
    assert answer.state == state
    assert answer.reason is not None and reason in answer.reason


async def test_a_port_without_tls_is_no_host_with_it() -> None:
    async with sending(b"HTTP/1.0 200 OK\r\n\r\n{}") as port:
        plain = deployment(port)
        ports = SupervisorPorts(
            port=port, security=HttpSecurity(tls=TlsSettings(keystore_file="/none"))
        )
        over_tls = replace(
            plain,
            supervisors=ports,
            http=HttpClientSecurity(tls=ClientSecurity(protocol="SSL")),
        )
        found = await asyncio.to_thread(order, over_tls, "127.0.1.1", "GET", "/host")
    assert isinstance(found, Answer)
    assert found.state == "unusable", "it may be another program"
