"""An HTTP port: its limits, TLS, several addresses, and its end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.port import HttpPort
from local_cluster.http_security.settings import HttpSecurity
from local_cluster.security.authentication.listener_security import TlsSettings
from tests.support.authority import Authority

FULL = b"HTTP/1.1 503 Service Unavailable"


async def hello(_: web.Request) -> web.Response:
    return web.json_response({"hello": 1})


def make_app() -> web.Application:
    app = web.Application()
    app.add_routes([web.get("/", hello)])
    return app


def make_port(security: HttpSecurity | None = None, **limits: Any) -> HttpPort:
    return HttpPort(make_app(), HttpGuard(security or HttpSecurity()), **limits)


@pytest.fixture
async def opened() -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Connections of a test, closed after it."""
    writers: list[asyncio.StreamWriter] = []
    yield writers
    for writer in writers:
        writer.close()


async def connect(port: HttpPort, opened: list[asyncio.StreamWriter]) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(*port.addresses[0])
    opened.append(writer)
    return reader


async def get(port: HttpPort, **options: Any) -> int:
    scheme = "https" if options else "http"
    host, number = port.addresses[0]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{scheme}://{host}:{number}/", **options) as response,
    ):
        return response.status


async def test_a_connection_too_many_is_refused(opened: list[asyncio.StreamWriter]) -> None:
    port = make_port(connections_max=2)
    await port.bind("127.0.0.1", 0)
    try:
        await connect(port, opened)
        await connect(port, opened)
        refused = await connect(port, opened)
        assert (await refused.read()).startswith(FULL)
        opened[0].close()
        await opened[0].wait_closed()
        async with asyncio.timeout(30):
            while await get(port) != 200:
                await asyncio.sleep(0.01)
    finally:
        await port.stop()


async def test_who_says_nothing_is_closed(opened: list[asyncio.StreamWriter]) -> None:
    port = make_port(first_request_s_max=0.05)
    await port.bind("127.0.0.1", 0)
    try:
        silent = await connect(port, opened)
        partial = await connect(port, opened)
        opened[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n")
        async with asyncio.timeout(30):
            assert await silent.read() == b""
            assert await partial.read() == b""
    finally:
        await port.stop()


async def test_who_has_asked_stays_connected(opened: list[asyncio.StreamWriter]) -> None:
    port = make_port(first_request_s_max=0.2)
    await port.bind("127.0.0.1", 0)
    try:
        silent = await connect(port, opened)
        asked = await connect(port, opened)
        request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        opened[1].write(request)
        assert (await asked.readline()).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(30):
            await silent.read()
            while await asked.readline() != b"\r\n":
                pass
            assert await asked.readexactly(len(b'{"hello": 1}')) == b'{"hello": 1}'
            opened[1].write(request)
            assert (await asked.readline()).startswith(b"HTTP/1.1 200")
    finally:
        await port.stop()


async def test_several_addresses_and_a_bound_socket() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = make_port()
    await port.serve(listener)
    await port.bind("127.0.0.2", 0)
    try:
        assert [host for host, _ in port.addresses] == ["127.0.0.1", "127.0.0.2"]
        assert await get(port) == 200
    finally:
        await port.stop()
    assert listener.fileno() == -1


async def test_a_handshake_counts_and_ends(
    tmp_path: Path, opened: list[asyncio.StreamWriter]
) -> None:
    authority = Authority(tmp_path / "ca")
    security = HttpSecurity(
        tls=TlsSettings(keystore_file=str(authority.issue("server").pem)), allow_insecure=True
    )
    port = make_port(security, connections_max=1, first_request_s_max=0.5)
    await port.bind("127.0.0.1", 0)
    try:
        silent = await connect(port, opened)
        refused = await connect(port, opened)
        opened[1].write(b"x")
        async with asyncio.timeout(30):
            assert await silent.read() == b""
            await refused.read()
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await get(port, ssl=context) == 200
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
    finally:
        await port.stop()


async def test_the_end_closes_connections(opened: list[asyncio.StreamWriter]) -> None:
    port = make_port()
    await port.bind("127.0.0.1", 0)
    silent = await connect(port, opened)
    await asyncio.sleep(0)
    host, number = port.addresses[0]
    await port.stop()
    async with asyncio.timeout(30):
        assert await silent.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, number)
