"""An HTTP port: its limits, TLS, several addresses, and its end."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from local_cluster.http_security import arrivals
from local_cluster.http_security import port as port_module
from local_cluster.http_security.addresses import counted_address
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


async def connect(
    port: HttpPort, opened: list[asyncio.StreamWriter], **options: Any
) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(*port.addresses[0], **options)
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


@pytest.mark.parametrize("is_tls", [False, True])
async def test_one_address_leaves_room_for_others(
    opened: list[asyncio.StreamWriter],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    is_tls: bool,
) -> None:
    """Addresses of the loopback stand for others: only 127.0.0.9 counts as the loopback."""
    monkeypatch.setattr(
        port_module, "counted_address", lambda host: None if host == "127.0.0.9" else host
    )
    authority = Authority(tmp_path)
    tls = TlsSettings(keystore_file=str(authority.issue("server").pem)) if is_tls else None
    security = HttpSecurity(tls=tls, allow_insecure=True)
    port = make_port(security, connections_max=6, address_connections_max=2)
    options: dict[str, Any] = {}
    if is_tls:
        options["ssl"] = ssl.create_default_context(cafile=str(authority.ca_file))
    await port.bind("127.0.0.1", 0)
    try:
        for _ in range(2):
            # They say nothing: over TLS they are counted before their handshake.
            await connect(port, opened, local_addr=("127.0.0.2", 0))
        refused = await connect(port, opened, local_addr=("127.0.0.2", 0), **options)
        assert (await refused.read()).startswith(FULL)
        assert await get(port, **options) == 200, "another address"
        for _ in range(3):
            await connect(port, opened, local_addr=("127.0.0.9", 0))
        opened[0].close()
        await opened[0].wait_closed()
        async with asyncio.timeout(30):
            while True:
                again = await connect(port, opened, local_addr=("127.0.0.2", 0), **options)
                opened[-1].write(b"GET / HTTP/1.0\r\n\r\n")
                if (await again.readline()).startswith(b"HTTP/1.0 200"):
                    break
                await asyncio.sleep(0.01)
    finally:
        await port.stop()


async def test_handshakes_of_refused_connections_are_limited(
    opened: list[asyncio.StreamWriter], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(arrivals, "BEGINNING_MAX", 3)
    authority = Authority(tmp_path)
    tls = TlsSettings(keystore_file=str(authority.issue("server").pem))
    port = make_port(HttpSecurity(tls=tls, allow_insecure=True), connections_max=1)
    await port.bind("127.0.0.1", 0)
    try:
        for _ in range(3):
            await connect(port, opened)
        one_more = await connect(port, opened)
        async with asyncio.timeout(8):
            assert await one_more.read() == b"", "it does not wait for the end of a handshake"
    finally:
        await port.stop()


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("127.0.0.1", None),
        ("127.8.8.8", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_connections_are_counted_by(host: str, counted: str | None) -> None:
    assert counted_address(host) == counted


async def test_a_compressed_body_is_refused_and_not_opened() -> None:
    read: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        read.append(await request.read())
        return web.Response()

    app = web.Application()
    app.add_routes([web.post("/", take)])
    port = HttpPort(app, HttpGuard(HttpSecurity()))
    await port.bind("127.0.0.1", 0)
    host, number = port.addresses[0]
    try:
        async with aiohttp.ClientSession() as session:
            for encoding, body in (
                ("gzip", gzip.compress(bytes(50_000_000))),
                ("deflate", zlib.compress(bytes(50_000_000))),
                ("br", b"x"),
                ("zstd", b"x"),
            ):
                async with session.post(
                    f"http://{host}:{number}/", data=body, headers={"Content-Encoding": encoding}
                ) as response:
                    assert response.status == 415
                    document = await response.json()
                    assert document["message"] == "send the body without Content-Encoding"
            assert not read
            async with session.post(f"http://{host}:{number}/", data=b"plain") as response:
                assert response.status == 200
            assert read == [b"plain"]
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
