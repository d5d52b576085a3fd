"""The newest token: one request for many clients, renewal, and endpoints that fail."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.oauth.token_request import (
    Token,
    TokenRefusedError,
    TokenUnavailableError,
)
from local_cluster.client.auth.oauth.token_source import TokenSource, token_source
from local_cluster.client.auth.security import Secret, SecurityError

LOGIN = OauthLogin(
    token_url="https://issuer.example/token", client_id="mirror", client_secret=Secret(env="X")
)
LIFETIME_MS = 10_000
DUE_MS = 8_000
PATIENCE_SECONDS = 60.0


class Endpoint:
    """Numbers its tokens. `error` fails a request; while it is not `open`, requests wait."""

    def __init__(self) -> None:
        self.requests = 0
        self.error: SecurityError | None = None
        self.open = threading.Event()
        self.open.set()
        self.now_ms = 0
        self.source = TokenSource(LOGIN, self.request, lambda: self.now_ms)

    def request(self, login: OauthLogin) -> Token:
        self.requests += 1
        assert self.open.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        return Token(f"token-{self.requests}", self.now_ms, self.now_ms + LIFETIME_MS)

    def value(self, wait_seconds: float = PATIENCE_SECONDS) -> str:
        return self.source.token(wait_seconds).value


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


def test_a_token_is_used_until_it_is_due(endpoint: Endpoint) -> None:
    assert [endpoint.value(), endpoint.value()] == ["token-1", "token-1"]
    endpoint.now_ms = DUE_MS - 1
    assert endpoint.value() == "token-1"
    endpoint.now_ms = DUE_MS
    assert [endpoint.value(), endpoint.value()] == ["token-2", "token-2"]
    assert endpoint.requests == 2


async def test_many_clients_wait_for_one_request(endpoint: Endpoint) -> None:
    endpoint.open.clear()
    waiting = [asyncio.create_task(endpoint.source.token_soon(PATIENCE_SECONDS)) for _ in range(9)]
    in_thread = asyncio.create_task(asyncio.to_thread(endpoint.value))
    gone = asyncio.create_task(endpoint.source.token_soon(PATIENCE_SECONDS))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    endpoint.open.set()
    assert {(await each).value for each in waiting} == {"token-1"}
    assert await in_thread == "token-1"
    assert endpoint.requests == 1
    assert gone.cancelled()


def test_a_valid_token_stays_while_its_renewal_fails(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.value()
    endpoint.now_ms, endpoint.error = DUE_MS, TokenUnavailableError("HTTP status 503")
    assert endpoint.value() == "token-1"
    assert "the last token stays" in caplog.text
    assert endpoint.value() == "token-1"
    assert endpoint.requests == 2, "the endpoint is left alone for a while"
    endpoint.now_ms += 1_000
    assert endpoint.value() == "token-1"
    assert endpoint.requests == 3
    endpoint.now_ms = LIFETIME_MS
    with pytest.raises(TokenUnavailableError, match="503"):
        endpoint.value()
    endpoint.now_ms, endpoint.error = LIFETIME_MS + 1_000, None
    assert endpoint.value() == "token-5"


async def test_nobody_waits_longer_than_he_said(endpoint: Endpoint) -> None:
    endpoint.open.clear()
    with pytest.raises(TokenUnavailableError, match="does not answer in time"):
        await endpoint.source.token_soon(0.0)
    with pytest.raises(TokenUnavailableError, match="does not answer in time"):
        endpoint.value(0.0)
    endpoint.open.set()
    assert endpoint.value() == "token-1"
    endpoint.now_ms = DUE_MS
    endpoint.open.clear()
    assert endpoint.value(0.0) == "token-1", "it is still valid"
    endpoint.open.set()
    assert endpoint.value() == "token-2"


def test_a_token_that_a_broker_refuses_is_renewed_unless_it_is_young() -> None:
    login = OauthLogin(
        token_url="https://issuer.example/token",
        client_id="mirror",
        client_secret=Secret(env="X"),
    )
    made: list[Token] = []
    now_ms = 0

    def request(_: OauthLogin) -> Token:
        made.append(Token(f"token-{len(made)}", now_ms, now_ms + 3_600_000))
        return made[-1]

    source = TokenSource(login, request, lambda: now_ms)
    source.drop(source.token().value)
    assert source.token().value == "token-0"
    now_ms = 10_000
    source.drop("another")
    assert source.token().value == "token-0"
    source.drop("token-0")
    assert source.token().value == "token-1"


def test_a_defect_leaves_nobody_waiting(endpoint: Endpoint) -> None:
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        endpoint.source = TokenSource(LOGIN, lambda _: 1 // 0, lambda: 0)  # type: ignore[arg-type, return-value]
        with pytest.raises(TokenUnavailableError):
            endpoint.value()
    finally:
        threading.excepthook = hook


def test_a_file_is_read_at_every_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = token_source(OauthLogin(token_file=str(file)))
    assert source is token_source(OauthLogin(token_file=str(file)))
    with pytest.raises(TokenRefusedError, match="No such file"):
        source.token()
    for text in ("first", "second"):
        file.write_text(text + "\n")
        assert source.token().value == text


def test_a_missing_secret_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("X", raising=False)
    with pytest.raises(TokenRefusedError, match=r"client mirror gets no token: .*X is not set"):
        TokenSource(LOGIN).token(PATIENCE_SECONDS)
