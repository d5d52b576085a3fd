"""Sessions of a connection: when they are renewed, and what waits meanwhile."""

from __future__ import annotations

import asyncio
import struct
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.client.auth.sasl import authenticate
from local_cluster.client.auth.security import ClientSecurity, OauthLogin
from local_cluster.client.auth.session import INTERVAL_MS_MIN, reauthentication_ms
from local_cluster.client.connection import IN_FLIGHT_MAX, Connection
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.security.authentication.oauth.bearer_exchange import BearerExchange
from local_cluster.security.authentication.oauth.token_rules import Bearer, TokenError
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields


@pytest.mark.parametrize(
    ("lifetime_ms", "share", "expected"),
    [
        (0, 0.9, None),
        (INTERVAL_MS_MIN, 0.9, None),
        (1_200, 0.9, INTERVAL_MS_MIN),
        (3_600_000, 0.85, 3_060_000),
        (3_600_000, 0.95, 3_420_000),
    ],
)
def test_when_a_session_is_renewed(lifetime_ms: int, share: float, expected: int | None) -> None:
    assert reauthentication_ms(lifetime_ms, share) == expected


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.apis: list[int] = []
        self.is_aborted = False

    def writelines(self, parts: Any) -> None:
        frame = b"".join(parts)
        self.apis.append(struct.unpack(">h", frame[4:6])[0])

    def abort(self) -> None:
        self.is_aborted = True


@pytest.fixture
async def wire() -> Wire:
    return Wire()


@pytest.fixture
async def connection(wire: Wire) -> Connection:
    made = Connection("test")
    made.connection_made(wire)
    return made


async def test_requests_wait_during_an_authentication(connection: Connection, wire: Wire) -> None:
    connection.send(ApiKey.FETCH, 12, (b"",))
    connection.hold()
    connection.send(ApiKey.METADATA, 12, (b"",))
    connection.send(ApiKey.SASL_HANDSHAKE, 1, (b"",))
    connection.send_unanswered(ApiKey.PRODUCE, 9, (b"",))
    connection.send(ApiKey.SASL_AUTHENTICATE, 2, (b"",))
    connection.send(ApiKey.LIST_OFFSETS, 6, (b"",))
    assert wire.apis == [ApiKey.FETCH, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    assert connection.in_flight == 6
    connection.release()
    assert wire.apis[3:] == [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.LIST_OFFSETS]
    connection.send(ApiKey.HEARTBEAT, 4, (b"",))
    assert wire.apis[-1] == ApiKey.HEARTBEAT
    assert connection.in_flight == 6


async def test_what_waits_counts_and_fails_with_the_connection(
    connection: Connection, wire: Wire
) -> None:
    connection.hold()
    waiting = [connection.send(ApiKey.METADATA, 12, (b"",)) for _ in range(IN_FLIGHT_MAX)]
    with pytest.raises(KafkaError, match="in flight already"):
        connection.send(ApiKey.METADATA, 12, (b"",))
    connection.abort("not authenticated again")
    for response in waiting:
        with pytest.raises(KafkaError, match="not authenticated again"):
            await response
    assert wire.is_aborted
    assert connection.in_flight == 0
    connection.release()
    assert not wire.apis


class Broker:
    """Takes whatever it gets, by a broker's rules."""

    def __init__(self) -> None:
        self.exchange = BearerExchange(self.verify)
        self.sent = b""

    def verify(self, token: str) -> Bearer:
        if token != "good":
            raise TokenError("not good")
        return Bearer("alice", 60_000)

    async def call(self, api: ApiKey, fields: Fields, version_max: int | None) -> Any:
        if api is ApiKey.SASL_HANDSHAKE:
            return SimpleNamespace(error_code=0, mechanisms=["OAUTHBEARER"])
        self.sent = fields["auth_bytes"]
        try:
            message = self.exchange.respond(self.sent)
        except AuthenticationError as error:
            code = ErrorCode.sasl_authentication_failed
            return SimpleNamespace(error_code=code, error_message=str(error), auth_bytes=b"")
        lifetime = timedelta(seconds=60)
        return SimpleNamespace(error_code=0, auth_bytes=message, session_lifetime=lifetime)


async def test_a_token_goes_with_its_extensions() -> None:
    login = OauthLogin(token_file="/t", extensions=(("logicalCluster", "lkc-1"), ("pool", "p 1")))
    security = ClientSecurity(protocol="SASL_SSL", mechanism="OAUTHBEARER", oauth=login)
    broker = Broker()
    assert await authenticate(broker, security, "good") == 60_000
    assert broker.exchange.username == "alice"
    assert b"\x01logicalCluster=lkc-1\x01pool=p 1\x01\x01" in broker.sent
    with pytest.raises(KafkaError, match="not good") as caught:
        await authenticate(Broker(), security, "bad")
    assert caught.value.code == ErrorCode.sasl_authentication_failed
