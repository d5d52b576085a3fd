"""The issuer's keys: from a file that changes, and by https."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from joserfc.jwk import OctKey

from local_cluster.client.auth.security import SecurityError
from local_cluster.security.authentication.oauth import signing_keys
from local_cluster.security.authentication.oauth.settings import OauthSettings, check_allowed
from local_cluster.security.authentication.oauth.signing_keys import (
    KEY_SET_BYTES_MAX,
    SigningKeys,
    parse_keys,
    request_keys,
)
from tests.support.authority import Authority
from tests.support.issuer import Issuer


def test_a_changed_file_is_loaded_again(tmp_path: Path) -> None:
    path, issuer = tmp_path / "keys.json", Issuer()
    issuer.write_key_set(path)
    keys = SigningKeys("L", OauthSettings(keys_file=str(path)))
    assert _ids(keys) == ["key-1"]
    issuer.rotate()
    issuer.write_key_set(path)
    assert _ids(keys) == ["key-1", "key-2"]
    path.write_text("half-writ")
    assert _ids(keys) == ["key-1", "key-2"], "the last usable ones stay"


def _ids(keys: SigningKeys) -> list[str | None]:
    found = keys.newest()
    assert found is not None
    return [each.kid for each in found.keys]


def test_a_file_without_keys_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for content in (None, "", "{}", '{"keys":{}}', '{"keys":[]}', '{"keys":[7]}', "[" * 50_000):
        if content is not None:
            path.write_text(content)
        with pytest.raises(SecurityError, match=r"listener L: keys of tokens in .*keys\.json"):
            SigningKeys("L", OauthSettings(keys_file=str(path)))


def test_a_symmetric_key_is_left_out() -> None:
    secret = OctKey.generate_key(256, {"kid": "secret"}).as_dict(private=True)
    (public,) = json.loads(Issuer().key_set_json())["keys"]
    both = json.dumps({"keys": [secret, public]}).encode()
    assert [each.kid for each in parse_keys(both).keys] == ["key-1"]
    with pytest.raises(ValueError, match="no usable key"):
        parse_keys(json.dumps({"keys": [secret]}).encode())
    with pytest.raises(ValueError, match="bytes"):
        parse_keys(b" " * (KEY_SET_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://issuer/keys",
            "file:///etc/passwd",
            "ftp://issuer/keys",
            "issuer/keys",
            "https://",
        ),
        *("https://user:password@issuer/keys", "https://issuer/keys#part", "https://issuer:0/keys"),
        "https://issuer/keys with spaces",
        *("HTTP://issuer/keys", "https://[::1/keys", "jar:https://issuer!/keys"),
    ],
)
def test_keys_come_by_https_only(url: str) -> None:
    with pytest.raises(ValueError, match="keys_url"):
        OauthSettings(keys_url=url)


def test_an_address_must_be_in_the_list_that_is_empty_by_default() -> None:
    settings = OauthSettings(keys_url="https://issuer/keys")
    check_allowed(settings, ["https://issuer/keys"])
    check_allowed(OauthSettings(keys_file="keys"), [])
    for allowed in ([], ["https://issuer/"], ["https://issuer/keys/"], ["https://issuer/keys?x"]):
        with pytest.raises(ValueError, match="oauth_allowed_urls"):
            check_allowed(settings, allowed)


class Served:
    """An https server of one answer."""

    def __init__(self) -> None:
        self.answer = web.Response(text="")
        self.requests = 0
        self.asked_for: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.asked_for.append(request.headers["Accept-Encoding"])
        return web.Response(
            body=self.answer.body, status=self.answer.status, headers=self.answer.headers
        )


@asynccontextmanager
async def served(authority: Authority) -> AsyncIterator[Served]:
    it = Served()
    app = web.Application()
    app.router.add_get("/keys", it.handle)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.issue("issuer").pem)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    it.url = f"https://127.0.0.1:{port}/keys"
    try:
        yield it
    finally:
        await runner.cleanup()


async def test_keys_by_https(tmp_path: Path) -> None:
    authority, issuer = Authority(tmp_path), Issuer()
    ca_file = str(authority.ca_file)
    async with served(authority) as there:
        there.answer = web.Response(text=issuer.key_set_json())
        assert [each.kid for each in await request_keys(there.url, ca_file)] == ["key-1"]
        for authorities, answer in (
            (None, web.Response(text=issuer.key_set_json())),
            (ca_file, web.Response(status=302, headers={"Location": there.url})),
            (ca_file, web.Response(status=500, text=issuer.key_set_json())),
            (ca_file, web.Response(text="<html>")),
            (ca_file, web.Response(text=" " * KEY_SET_BYTES_MAX + issuer.key_set_json())),
        ):
            there.answer = answer
            with pytest.raises(SecurityError, match="keys of tokens at https://127"):
                await request_keys(there.url, authorities)


async def test_a_compressed_key_set_is_not_opened(tmp_path: Path) -> None:
    authority, issuer = Authority(tmp_path), Issuer()
    async with served(authority) as there:
        packed = gzip.compress(issuer.key_set_json().encode())
        there.answer = web.Response(body=packed, headers={"Content-Encoding": "gzip"})
        with pytest.raises(SecurityError, match="keys of tokens at https://127"):
            await request_keys(there.url, str(authority.ca_file))
        assert there.asked_for == ["identity"]


async def test_an_unknown_key_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "REFRESH_SECONDS_MIN", 0.05)
    authority, issuer = Authority(tmp_path), Issuer()
    async with served(authority) as there:
        there.answer = web.Response(status=503)
        settings = OauthSettings(keys_url=there.url, keys_ca_file=str(authority.ca_file))
        keys = SigningKeys("L", settings)
        keys.start()
        try:
            await _until(lambda: there.requests >= 2)
            assert keys.newest() is None
            there.answer = web.Response(text=issuer.key_set_json())
            await _until(lambda: keys.newest() is not None)
            issuer.rotate()
            there.answer = web.Response(text=issuer.key_set_json())
            before = there.requests
            keys.ask()
            await _until(lambda: len(_ids(keys)) == 2)
            assert there.requests == before + 1
        finally:
            keys.stop()


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)
