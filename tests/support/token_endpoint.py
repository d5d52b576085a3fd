"""A token endpoint: the client credentials grant by http or https, on the loopback."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from local_cluster.client.auth.security import ClientSecurity, OauthLogin, Secret
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.settings import Listener
from tests.support.authority import Authority
from tests.support.issuer import Issuer

SECRET: Final = "of-the-client"
AUDIENCE: Final = "heliograph"


class TokenEndpoint:
    """Gives a client a token of its own name. It runs on the loop of the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.issuer = Issuer()
        self.authority = Authority(directory / "ca")
        self.lifetime_s = 600
        self.status = 200
        """Of its answers; another one than 200 comes without a token."""
        self.url = ""
        self.tokens: list[str] = []
        """All that it gave."""
        self.failures = 0
        """Requests that it could not answer."""
        self.keys_file = directory / "keys.json"
        self.issuer.write_key_set(self.keys_file)
        self._secret_file = directory / "secret"
        self._secret_file.write_text(SECRET)

    def listener(self, port: int, name: str = "TOKENS") -> Listener:
        """Return a broker's listener that takes its tokens."""
        return Listener(
            name=name,
            host="127.0.0.1",
            port=port,
            security_protocol="SASL_SSL",
            tls=TlsSettings(keystore_file=str(self.authority.issue("broker").pem)),
            sasl=SaslSettings(
                mechanisms=("OAUTHBEARER",),
                oauth=OauthSettings(
                    keys_file=str(self.keys_file),
                    expected_audiences=(AUDIENCE,),
                    clock_skew_seconds=0,
                ),
            ),
        )

    def security(self, client_id: str = "alice", secret_file: Path | None = None) -> ClientSecurity:
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism="OAUTHBEARER",
            oauth=OauthLogin(
                token_url=self.url,
                client_id=client_id,
                client_secret=Secret(file=str(secret_file or self._secret_file)),
                extensions=(("pool", "of the test"),),
                token_ca_file=(
                    str(self.authority.ca_file) if self.url.startswith("https") else None
                ),
            ),
            ca_file=str(self.authority.ca_file),
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        assert form["grant_type"] == "client_credentials"
        pair = request.headers["Authorization"].removeprefix("Basic ")
        client_id, _, secret = base64.b64decode(pair).decode().partition(":")
        if self.status != 200:
            self.failures += 1
            return web.Response(status=self.status)
        if secret != SECRET:
            # Some endpoints repeat what they were given.
            document = {"error": "invalid_client", "error_description": secret}
            return web.json_response(document, status=401)
        self.tokens.append(self.issuer.token(client_id, seconds=self.lifetime_s, aud=AUDIENCE))
        return web.json_response(
            {
                "access_token": self.tokens[-1],
                "token_type": "Bearer",
                "expires_in": self.lifetime_s,
            }
        )


@asynccontextmanager
async def token_endpoint(directory: Path, *, tls: bool = False) -> AsyncIterator[TokenEndpoint]:
    directory.mkdir(parents=True, exist_ok=True)
    endpoint = TokenEndpoint(directory)
    app = web.Application()
    app.router.add_post("/token", endpoint.handle)
    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(endpoint.authority.issue("issuer").pem)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    endpoint.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/token"
    try:
        yield endpoint
    finally:
        await runner.cleanup()
