"""Who fails to log in waits for the response, for connection.failed.authentication.delay.ms."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.clock import SystemClock
from local_cluster.counters.listener import ListenerCounters
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.server.secure import sasl_session
from local_cluster.server.secure.sasl_session import SaslSession, SharedSasl
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.header import encode_request_header

DELAY_MS = 700
MECHANISM = "SCRAM-SHA-512"


class RefusingExchange:
    """No message is good enough."""

    username = None
    ends_ms = None

    def respond(self, message: bytes) -> bytes:
        raise AuthenticationError("no")


def send(session: SaslSession, api: ApiKey, fields: dict[str, Any]) -> Any:
    header = encode_request_header(api, 1, 1, "test")
    frame = memoryview(header + messages.encode_request(api, 1, fields))
    return session.dispatch(frame, "h", 1)[1]


@pytest.mark.parametrize("mechanism", [MECHANISM, "PLAIN"])
async def test_a_refusal_comes_after_the_delay(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    services: Any = SimpleNamespace(quotas=ClientQuotas({}), clock=SystemClock())
    credentials: Any = SimpleNamespace(exchange=lambda _: RefusingExchange())
    shared = SharedSasl("L", (MECHANISM,), credentials, DELAY_MS, 0, ListenerCounters())
    session = SaslSession(services, shared)
    session.begin(lambda _: None, lambda _: None)
    waits: list[float] = []
    is_over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await is_over.wait()

    monkeypatch.setattr(f"{sasl_session.__name__}.asyncio.sleep", sleep)
    reply = send(session, ApiKey.SASL_HANDSHAKE, {"mechanism": mechanism})
    expected = ErrorCode.unsupported_sasl_mechanism
    if mechanism == MECHANISM:
        # An enabled mechanism is answered at once, and its wrong proof is not.
        assert reply["error_code"] == ErrorCode.none
        reply = send(session, ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"wrong"})
        expected = ErrorCode.sasl_authentication_failed
    answer = asyncio.ensure_future(reply)
    while not waits:
        await asyncio.wait([answer], timeout=0)
    assert not answer.done()
    is_over.set()
    assert (await answer)["error_code"] == expected
    assert waits == [DELAY_MS / 1000]
    session.end()
