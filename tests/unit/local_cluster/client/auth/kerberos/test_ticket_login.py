"""Logins by tickets with a library that is played: what a client is told, and what it waits for."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.client.auth.kerberos import ticket_login
from local_cluster.client.auth.kerberos.gss_login import GssLogin
from local_cluster.client.auth.kerberos.security_context import NO_CENTRE, GssError
from local_cluster.client.auth.kerberos.settings import KerberosLogin
from local_cluster.client.auth.sasl import authenticate, read_proof
from local_cluster.client.auth.secret import ProofUnavailableError, SecurityError
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.auth.session import NoProofError, Session
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.security.authentication.kerberos.gss_exchange import GssExchange
from local_cluster.security.authentication.kerberos.short_names import ShortNames
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields

LOGIN = KerberosLogin(principal="alice@REALM", keytab_file="/alice.keytab")
SECURITY = ClientSecurity(protocol="SASL_SSL", mechanism="GSSAPI", kerberos=LOGIN)


class PlayedContext:
    """Complete after some tokens; a signed message begins with "signed:"."""

    peer = "alice@REALM"

    def __init__(self, *answers: bytes) -> None:
        self._answers = [*answers]

    @property
    def is_complete(self) -> bool:
        return not self._answers

    def step(self, token: bytes) -> bytes:
        return self._answers.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return b"signed:" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"signed:"):
            raise GssError("gss_unwrap: not signed")
        return message.removeprefix(b"signed:")


class Broker:
    """Takes tickets, by a broker's rules."""

    peer = "broker"

    def __init__(self, rule: str = "DEFAULT") -> None:
        context = PlayedContext(b"of-broker")
        self.exchange = GssExchange(context, ShortNames((rule,), "REALM"))
        self.sent: list[bytes] = []

    async def call(self, api: ApiKey, fields: Fields, version_max: int | None) -> Any:
        if api is ApiKey.SASL_HANDSHAKE:
            return SimpleNamespace(error_code=0, mechanisms=["GSSAPI"])
        self.sent.append(fields["auth_bytes"])
        try:
            message = self.exchange.respond(fields["auth_bytes"])
        except AuthenticationError as error:
            code = ErrorCode.sasl_authentication_failed
            return SimpleNamespace(error_code=code, error_message=str(error), auth_bytes=b"")
        lifetime = timedelta(seconds=60)
        return SimpleNamespace(error_code=0, auth_bytes=message, session_lifetime=lifetime)

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def abort(self, reason: str) -> None: ...


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts for which a ticket was used."""
    found: list[str] = []

    def begin(login: KerberosLogin, host: str) -> GssLogin:
        found.append(f"{login.service_name}@{host}")
        return GssLogin(PlayedContext(b"of-client", b""))

    monkeypatch.setattr(ticket_login, "begin_login", begin)
    return found


async def test_a_session_by_a_ticket(hosts: list[str]) -> None:
    broker, session = Broker(), Session(SECURITY, 60_000, "broker-1")
    await session.begin(broker)
    assert (broker.exchange.username, session.lifetime_ms) == ("alice", 60_000)
    assert broker.sent == [b"of-client", b"", b"signed:\x01\x00\x00\x00"]
    assert set(hosts) == {"kafka@broker-1"}


async def test_a_refused_ticket_names_the_principal(hosts: list[str]) -> None:
    with pytest.raises(KafkaError, match="no rule of sasl") as caught:
        await authenticate(Broker("RULE:[2:$1]"), SECURITY, "", "h")
    assert caught.value.code == ErrorCode.sasl_authentication_failed


async def test_a_broker_that_signs_nothing_is_left(
    hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker()
    monkeypatch.setattr(broker.exchange, "respond", lambda message: b"\x01\x00\x00\x00")
    with pytest.raises(KafkaError, match="as alice@REALM: gss_unwrap: not signed") as caught:
        await authenticate(broker, SECURITY, "", "h")
    assert caught.value.code == ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize(
    ("minor", "expected"), [(0, SecurityError), (min(NO_CENTRE), ProofUnavailableError)]
)
async def test_why_there_is_no_ticket(
    monkeypatch: pytest.MonkeyPatch, minor: int, expected: type[Exception]
) -> None:
    def fail(login: KerberosLogin, host: str) -> None:
        raise GssError("gss_acquire_cred_from: said", minor)

    monkeypatch.setattr(ticket_login, "fetch_ticket", fail)
    text = "no ticket as alice@REALM by /alice.keytab for kafka@h: gss_acquire_cred_from: said"
    with pytest.raises(expected, match=text):
        await read_proof(SECURITY, "h", 60)


async def test_a_ticket_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_go = threading.Event()
    monkeypatch.setattr(ticket_login, "fetch_ticket", lambda login, host: may_go.wait(60))
    try:
        with pytest.raises(NoProofError, match=r"within 0\.01 s"):
            await Session(SECURITY, 10, "h").begin(Broker())
    finally:
        may_go.set()


async def test_threads_are_few_and_no_process_waits_for_them() -> None:
    may_go, begun = threading.Event(), threading.Semaphore(0)
    daemons: list[bool] = []

    def block() -> None:
        daemons.append(threading.current_thread().daemon)
        begun.release()
        assert may_go.wait(60)

    calls = [
        asyncio.ensure_future(ticket_login.run_beside(block))
        for _ in range(ticket_login.THREADS_MAX + 2)
    ]
    for _ in range(ticket_login.THREADS_MAX):
        assert await asyncio.to_thread(begun.acquire, timeout=60)
    # A thread keeps its place, although nobody waits for it any more.
    calls[0].cancel()
    await asyncio.sleep(0.01)
    assert not begun.acquire(blocking=False)
    may_go.set()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1:] == [None] * (len(calls) - 1)
    assert daemons == [True] * len(calls)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"principal": ""}, "`principal` and `keytab_file`"),
        ({"keytab_file": ""}, "`principal` and `keytab_file`"),
        ({"service_name": "kafka/host"}, "before the slash"),
    ],
)
def test_logins_that_cannot_be(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        KerberosLogin(**{"principal": "a", "keytab_file": "k", **changes})
