"""A guarded port over TLS, asked by the client of commands: tokens, certificates and changes."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web

from local_cluster.client.auth.security import ClientSecurity, Secret, SecurityError
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.request import HttpFailure, HttpResponse, request
from local_cluster.http_security.settings import HttpClientSecurity, HttpSecurity
from local_cluster.security.authentication.listener_security import TlsSettings
from tests.support.authority import Authority

TOKEN = "the-token-0123456789"
Ask = Callable[..., Coroutine[Any, Any, HttpResponse]]


class Files:
    """The files of a port and its clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca")
        self.server = self.authority.issue("server")
        self.token = directory / "token"
        self.token.write_text(TOKEN)

    def security(
        self, client_auth: Literal["none", "requested"] = "none", *, with_token: bool = True
    ) -> HttpSecurity:
        tls = TlsSettings(
            keystore_file=str(self.server.pem),
            truststore_file=str(self.authority.ca_file),
            client_auth=client_auth,
        )
        return HttpSecurity(token=Secret(file=str(self.token)) if with_token else None, tls=tls)

    def client(
        self, *, with_token: bool = True, certificate: str | None = None
    ) -> HttpClientSecurity:
        tls = ClientSecurity(
            protocol="SSL", ca_file=str(self.authority.ca_file), certificate_file=certificate
        )
        return HttpClientSecurity(
            token=Secret(file=str(self.token)) if with_token else None, tls=tls
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@asynccontextmanager
async def serving(security: HttpSecurity) -> AsyncIterator[int]:
    guard = HttpGuard(security)
    app = web.Application(middlewares=guard.middlewares)

    async def respond(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path})

    async def go_elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("/status")

    app.add_routes([web.get(f"/{name}", respond) for name in ("livez", "status", "metrics")])
    app.add_routes([web.post("/pause", respond), web.get("/moved", go_elsewhere)])
    listener = socket.create_server(("127.0.0.1", 0))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener, ssl_context=guard.tls_context).start()
    try:
        yield listener.getsockname()[1]
    finally:
        await runner.cleanup()


async def ask(
    client: HttpClientSecurity,
    port: int,
    path: str = "/status",
    method: str = "GET",
    **options: Any,
) -> HttpResponse:
    url = f"{client.scheme}://127.0.0.1:{port}{path}"
    options = {"timeout_s": 5.0, **options}
    return await asyncio.to_thread(request, HttpCredentials(client), method, url, **options)


async def test_the_token_decides(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(files.security()) as port:
        right, without = files.client(), files.client(with_token=False)
        assert json.loads((await ask(right, port)).body) == {"path": "/status"}
        assert (await ask(right, port, "/pause", "POST")).status == 200
        assert (await ask(without, port, "/livez")).status == 200
        refused = await ask(without, port)
        assert refused.status == 401
        assert json.loads(refused.body)["error"] == "unauthenticated"
        files.token.write_text("another-token-0123456789")
        assert (await ask(right, port)).status == 200, "both sides follow the file"
        files.token.write_text(TOKEN)
        other = files.token.with_name("other")
        other.write_text("a-forged-token-0123456789")
        wrong = replace(right, token=Secret(file=str(other)))
        assert (await ask(wrong, port)).status == 401
    assert "refused GET '/status' from 127.0.0.1" in caplog.text
    assert TOKEN not in caplog.text and "a-forged" not in caplog.text


async def test_a_client_certificate_counts_as_the_token(files: Files, tmp_path: Path) -> None:
    mine = files.authority.issue("operator")
    foreign = Authority(tmp_path / "foreign", "foreign").issue("operator")
    async with serving(files.security("requested", with_token=False)) as port:
        assert (await ask(files.client(with_token=False), port, "/livez")).status == 200
        assert (await ask(files.client(with_token=False), port)).status == 401
        client = files.client(with_token=False, certificate=str(mine.pem))
        assert (await ask(client, port)).status == 200
        with pytest.raises(HttpFailure):
            await ask(files.client(with_token=False, certificate=str(foreign.pem)), port)


async def test_new_certificates_and_authorities_need_no_restart(
    files: Files, tmp_path: Path
) -> None:
    client = files.client()
    async with serving(files.security()) as port:
        assert (await ask(client, port)).status == 200
        other = Authority(tmp_path / "other", "other")
        other.issue("server").pem.replace(files.server.pem)
        with pytest.raises(HttpFailure, match="certificate verify failed"):
            await ask(client, port)
        other.ca_file.replace(files.authority.ca_file)
        assert (await ask(client, port)).status == 200


async def test_a_client_bounds_what_it_takes(files: Files) -> None:
    async with serving(files.security()) as port:
        client = files.client()
        with pytest.raises(HttpFailure, match="more than 5 bytes"):
            await ask(client, port, bytes_max=5)
        assert (await ask(client, port, "/moved")).status == 302, "a redirect is not followed"


async def test_the_token_leaves_the_host_only_over_tls(files: Files) -> None:
    plain = HttpClientSecurity(token=Secret(file=str(files.token)))
    with pytest.raises(SecurityError, match="without TLS") as caught:
        HttpCredentials(plain).headers("http://10.0.0.1:8083/status")
    assert TOKEN not in str(caught.value)
    for url in ("http://127.0.0.1:8083/status", "https://10.0.0.1:8083/status"):
        assert HttpCredentials(plain).headers(url)["Authorization"] == f"Bearer {TOKEN}"
    allowed = HttpCredentials(replace(plain, allow_insecure=True))
    assert "Authorization" in allowed.headers("http://10.0.0.1:8083/status")


def test_a_missing_certificate_is_named(files: Files) -> None:
    files.server.pem.unlink()
    with pytest.raises(SecurityError, match=r"server\.pem"):
        HttpGuard(files.security())


async def test_refusals_are_logged_a_line_a_second_at_most(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(files.security()) as port:
        for _ in range(5):
            await ask(files.client(with_token=False), port)
    lines = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert 1 <= len(lines) < 5
