"""A step of GSSAPI may block: it runs beside the loop, and one at a time of a connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.clock import SystemClock
from local_cluster.counters.listener import ListenerCounters
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.server.secure.sasl_session import SaslSession, SharedSasl
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, PeerError
from local_cluster.wire.header import encode_request_header

DETAIL = "of the library"


class SlowExchange:
    """Takes one message, when it is let go."""

    ends_ms = None

    def __init__(self) -> None:
        self.username: str | None = None
        self.thread = ""
        self.may_go = threading.Event()
        self.error: AuthenticationError | None = None

    def respond(self, message: bytes) -> bytes:
        self.thread = threading.current_thread().name
        assert self.may_go.wait(60)
        if self.error is not None:
            raise self.error
        self.username = "alice"
        return b"answer"


class Played:
    """A session, and what it did."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.exchange = SlowExchange()
        self.is_authenticated = False
        self.closed = ""
        services: Any = SimpleNamespace(quotas=ClientQuotas({}), clock=SystemClock())
        credentials: Any = SimpleNamespace(exchange=lambda mechanism: self.exchange)
        counters = ListenerCounters()
        self.session = SaslSession(
            services, SharedSasl("L", ("GSSAPI",), credentials, 0, 0, counters, threads)
        )
        self.session.begin(self._authenticated, self._close)
        self.send(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"})

    def _authenticated(self, principal: str) -> None:
        self.is_authenticated = True

    def _close(self, reason: str) -> None:
        self.closed = reason

    def send(self, api: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        header = encode_request_header(api, version, 1, "test")
        frame = memoryview(header + messages.encode_request(api, version, fields))
        return self.session.dispatch(frame, "h", 1)[1]

    def step(self) -> Any:
        return self.send(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"token"})


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, "gssapi") as made:
        yield made


async def test_the_loop_goes_on_during_a_step(threads: ThreadPoolExecutor) -> None:
    played = Played(threads)
    answer = asyncio.ensure_future(played.step())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not answer.done()
    played.exchange.may_go.set()
    assert (await answer)["auth_bytes"] == b"answer"
    assert played.exchange.thread.startswith("gssapi")
    assert played.is_authenticated


async def test_nothing_else_is_served_during_a_step(threads: ThreadPoolExecutor) -> None:
    played = Played(threads)
    first = played.step()
    for api, version, fields in (
        (ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"token"}),
        (ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"}),
        (ApiKey.API_VERSIONS, 0, {}),
    ):
        with pytest.raises(PeerError):
            played.send(api, version, fields)
    played.exchange.may_go.set()
    assert (await first)["error_code"] == ErrorCode.none


async def test_a_refusal_tells_the_client_nothing_of_the_library(
    threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    played = Played(threads)
    played.exchange.error = AuthenticationError("no", DETAIL)
    played.exchange.may_go.set()
    answer = await played.step()
    assert (answer["error_code"], answer["error_message"]) == (
        ErrorCode.sasl_authentication_failed,
        "no",
    )
    assert DETAIL in caplog.text
    assert not played.is_authenticated
    with pytest.raises(PeerError, match="after a failed authentication"):
        played.step()
    async with asyncio.timeout(10):
        while played.closed != "not authenticated":
            await asyncio.sleep(0.01)
