"""GSSAPI: Java's clients and ours get in by tickets of a real key distribution centre.

Strangers, old tickets, other services and hostile messages do not.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from local_cluster.client.admin.acls import create_acls
from local_cluster.client.auth.kerberos.gss_library import InitiatedContext, gss_library
from local_cluster.client.auth.kerberos.gss_login import GssLogin
from local_cluster.client.auth.kerberos.security_context import GssError
from local_cluster.client.auth.security import ClientSecurity, KerberosLogin
from local_cluster.client.auth.session import NoProofError
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.security.authentication.kerberos.gss_exchange import GssExchange
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.kerberos.short_names import ShortNames
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.authority import Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import run_java
from tests.support.kafka_from_maven import broker_jars, properties_text
from tests.support.kdc import REALM, Kdc, running_kdc
from tests.support.quiet_ports import quiet_ports

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

BROKER: Final = "kafka/localhost"
PRINCIPALS: Final = (BROKER, "http/localhost", "alice", "bob/laptop")
TIMEOUT_MS: Final = 20_000
SESSION_MS: Final = 4_000
"""A session is renewed after more than a second, and well before its end."""
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PROGRAM: Final = str(Path(__file__).parents[2] / "compat" / "java" / "MeetRefusals.java")
KAFKAS_TEXT: Final = "due to invalid credentials with SASL mechanism GSSAPI"
NO_LAYER: Final = b"\x01\x00\x00\x00"
_caches: Final = itertools.count()


class Secured:
    """A broker that takes tickets.

    TICKETS has Kafka's default rule, TLS has it too, and the rule of BOB knows only bob.
    """

    def __init__(self, broker: BrokerProcess, kdc: Kdc, ca_file: Path) -> None:
        self.broker = broker
        self.kdc = kdc
        self._ca_file = ca_file

    def port(self, listener: str) -> int:
        (port,) = (each.port for each in self.broker.settings.listeners if each.name == listener)
        return port

    async def connect(self, listener: str = "TICKETS") -> Connection:
        """Connect without a proof."""
        port = self.port(listener)
        return await connect("localhost", port, client_id="test", timeout_ms=TIMEOUT_MS)

    def java(self, name: str, listener: str, client: str, service: str = "kafka") -> str:
        """Write the configs of a Java client, and return their file."""
        configs = {
            "bootstrap.servers": f"localhost:{self.port(listener)}",
            "security.protocol": "SASL_SSL" if listener == "TLS" else "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
            "useKeyTab=true storeKey=true "
            f'keyTab="{self.kdc.keytab(client)}" principal="{client}@{REALM}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca_file),
        }
        path = self.kdc.directory / f"{name}.properties"
        path.write_text(properties_text(configs))
        return str(path)

    def context(self, client: str = "alice", service: str = "kafka@localhost") -> InitiatedContext:
        """The client's context, with tickets of its own."""
        library = gss_library()
        cache = f"MEMORY:test-{os.getpid()}-{next(_caches)}"
        credential = library.initiator(library.principal(client), self.kdc.keytab(client), cache)
        return library.initiate(credential, library.service(service))

    def log_since(self, position: int) -> str:
        return self.broker.log_text()[position:]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Secured]:
    directory = tmp_path_factory.mktemp("kerberos")
    bob = (r"RULE:[2:$1@$0](bob@EXAMPLE\.COM)s/@.*//",)
    rules = {"TICKETS": ("DEFAULT",), "TLS": ("DEFAULT",), "BOB": bob}
    ports = quiet_ports(len(rules))
    authority = Authority(directory / "ca")
    tls = TlsSettings(keystore_file=str(authority.issue("broker").pem))
    async with running_kdc(directory / "kdc", PRINCIPALS) as kdc:
        listeners = [
            Listener(
                name=name,
                host="127.0.0.1",
                advertised_host="localhost",
                port=port,
                security_protocol="SASL_SSL" if name == "TLS" else "SASL_PLAINTEXT",
                tls=tls if name == "TLS" else None,
                sasl=SaslSettings(
                    mechanisms=("GSSAPI",),
                    kerberos=KerberosSettings(
                        keytab_file=kdc.keytab(BROKER), principal_to_local_rules=rules[name]
                    ),
                ),
            )
            for name, port in zip(rules, ports, strict=True)
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KRB5_CONFIG", kdc.config())
            config = {
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:ANONYMOUS;User:bob",
                "connections.max.reauth.ms": str(SESSION_MS),
            }
            async with running_broker(
                zookeeper, directory, listeners=listeners, config=config
            ) as broker:
                yield Secured(broker, kdc, authority.ca_file)


async def handshake(connection: Connection) -> None:
    answer = await connection.call(ApiKey.SASL_HANDSHAKE, {"mechanism": "GSSAPI"}, version_max=1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.none, ("GSSAPI",))


async def send(connection: Connection, message: bytes) -> Any:
    return await connection.call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message}, version_max=2)


async def log_in(connection: Connection, context: InitiatedContext) -> Any:
    """Authenticate, and return the last answer."""
    login = GssLogin(context)
    await handshake(connection)
    answer = await send(connection, await asyncio.to_thread(login.first))
    while not answer.error_code:
        message = await asyncio.to_thread(login.respond, answer.auth_bytes)
        if login.is_done:
            break
        answer = await send(connection, message)
    return answer


async def allow_alice(secured: Secured, topic: str) -> None:
    acl = Acl(
        *(ResourceType.TOPIC, topic, PatternType.LITERAL, "User:alice", "*"),
        *(AclOperation.DESCRIBE, Permission.ALLOW),
    )
    async with KafkaClient(secured.broker.bootstrap) as admin:
        new = [NewTopic(name=name, partitions=1) for name in (topic, f"hidden-{topic}")]
        assert set((await admin.create_topics(new)).values()) == {None}
        assert set((await create_acls(admin, [acl])).values()) == {None}


async def topics_of(connection: Connection) -> list[str]:
    answer = await connection.call(ApiKey.METADATA, {"topics": None}, version_max=1)
    return sorted(each.name for each in answer.topics)


# -- who gets in ---------------------------------------------------------------------------------


async def test_a_ticket_makes_its_client_a_user(secured: Secured) -> None:
    await allow_alice(secured, "of-alice")
    connection = await secured.connect()
    assert (await log_in(connection, secured.context())).error_code == ErrorCode.none
    assert await topics_of(connection) == ["of-alice"]
    connection.abort("end")


async def test_a_session_is_renewed_by_the_same_principal_only(secured: Secured) -> None:
    connection = await secured.connect()
    for client, error in (
        ("alice", ErrorCode.none),
        ("alice", ErrorCode.none),
        ("bob/laptop", ErrorCode.sasl_authentication_failed),
    ):
        assert (await log_in(connection, secured.context(client))).error_code == error
        # A broker refuses an authentication within a second of the last one.
        await asyncio.sleep(1.1)
    connection.abort("end")


async def test_a_new_key_needs_no_restart(secured: Secured) -> None:
    await secured.kdc.new_key(BROKER)
    connection = await secured.connect()
    assert (await log_in(connection, secured.context())).error_code == ErrorCode.none
    connection.abort("end")


def java_options() -> list[str]:
    return [f"-Djava.security.krb5.conf={os.environ['KRB5_CONFIG']}"]


@pytest.mark.oracle
async def test_javas_clients_by_krb5_login_module(secured: Secured) -> None:
    broker_jars()
    played = {
        "alice": ("TICKETS", "alice"),
        "alice over TLS": ("TLS", "alice"),
        "bob by a rule": ("BOB", "bob/laptop"),
        "alice by no rule": ("BOB", "alice"),
        "another service": ("TICKETS", "alice", "http"),
    }
    arguments = [each for name, of in played.items() for each in (name, secured.java(name, *of))]
    told = await run_java(PROGRAM, "refused", *arguments, options=java_options())
    found = dict(line.split("|", 1) for line in told.splitlines())
    assert list(found) == list(played)
    assert [found.pop(name) for name in list(played)[:3]] == 3 * ["welcome|"]
    no_rule = found.pop("alice by no rule")
    assert no_rule.startswith("SaslAuthenticationException|Authentication failed: no rule of sasl.")
    (refused,) = found.values()
    assert (
        refused
        == f"SaslAuthenticationException|Authentication failed during authentication {KAFKAS_TEXT}"
    )


@pytest.mark.oracle
@pytest.mark.long
async def test_a_java_client_renews_its_session_in_mid_transaction(secured: Secured) -> None:
    broker_jars()
    async with KafkaClient(secured.broker.bootstrap) as admin:
        assert await admin.create_topics([NewTopic(name="of-java", partitions=1)]) == {
            "of-java": None
        }
        config = secured.java("transaction", "TLS", "bob/laptop")
        pause_ms = str(SESSION_MS * 2)
        await run_java(PROGRAM, "transact", "of-java", pause_ms, config, options=java_options())
        at = TopicPartition("of-java", 0)
        assert (await admin.list_offsets({at: -1}))[at].offset == 3, "two records and a marker"


def own_client(
    secured: Secured, client: str, keytab_of: str = "", service: str = "kafka"
) -> ClientSecurity:
    return ClientSecurity(
        protocol="SASL_PLAINTEXT",
        mechanism="GSSAPI",
        kerberos=KerberosLogin(
            principal=client,
            keytab_file=secured.kdc.keytab(keytab_of or client),
            service_name=service,
        ),
    )


async def connect_by_ticket(secured: Secured, security: ClientSecurity) -> Connection:
    port = secured.port("TICKETS")
    return await connect(
        "localhost", port, client_id="test", timeout_ms=TIMEOUT_MS, security=security
    )


async def test_our_own_client_renews_its_sessions(secured: Secured) -> None:
    since = len(secured.broker.log_text())
    security = own_client(secured, "bob/laptop")
    connections = [await connect_by_ticket(secured, security) for _ in range(3)]
    # A session that is not renewed ends in the middle of this.
    ends = asyncio.get_running_loop().time() + 1.5 * SESSION_MS / 1_000
    while asyncio.get_running_loop().time() < ends:
        for connection in connections:
            await topics_of(connection)
    for connection in connections:
        await connection.close()
    assert "has ended" not in secured.log_since(since)


# -- who does not get in ---------------------------------------------------------------------------


async def refused(secured: Secured, connection: Connection, message: bytes) -> str:
    """Send the message that is refused; what the client is told, and what the log has."""
    since = len(secured.broker.log_text())
    answer = await send(connection, message)
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert answer.auth_bytes == b""
    with pytest.raises(KafkaError):
        await connection.call(ApiKey.METADATA, {"topics": None}, version_max=1)
    logged = secured.log_since(since)
    assert "authentication by GSSAPI failed" in logged
    return f"{answer.error_message} | {logged}"


async def test_a_rule_decides_who_has_a_name(secured: Secured) -> None:
    connection = await secured.connect("BOB")
    assert (await log_in(connection, secured.context("bob/laptop"))).error_code == ErrorCode.none
    connection.abort("end")
    connection = await secured.connect("BOB")
    answer = await log_in(connection, secured.context("alice"))
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert f"no rule of sasl.kerberos.principal.to.local.rules takes alice@{REALM}" in (
        answer.error_message
    )


async def test_a_ticket_for_another_service_is_refused(secured: Secured) -> None:
    connection = await secured.connect()
    await handshake(connection)
    token = await asyncio.to_thread(secured.context(service="http@localhost").step, b"")
    said, _, logged = (await refused(secured, connection, token)).partition(" | ")
    assert said.endswith(KAFKAS_TEXT)
    assert "http/localhost" in logged, "the log has the library's own words"


async def test_a_token_is_taken_once(secured: Secured) -> None:
    token = await asyncio.to_thread(secured.context().step, b"")
    connection = await secured.connect()
    await handshake(connection)
    assert (await send(connection, token)).error_code == ErrorCode.none
    connection.abort("end")
    connection = await secured.connect()
    await handshake(connection)
    assert "replay" in await refused(secured, connection, token)


async def test_an_old_ticket_is_refused(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes a ticket for some more minutes, unless krb5.conf has another tolerance."""
    # It looks once a second whether a file has changed. So the client has a file of its own.
    short = secured.kdc.config("short.conf", more="ticket_lifetime = 2s")
    secured.kdc.config(more="clockskew = 1")
    try:
        monkeypatch.setenv("KRB5_CONFIG", short)
        token = await asyncio.to_thread(secured.context().step, b"")
        # Two seconds, one of tolerance, and what whole seconds of either side may add.
        await asyncio.sleep(5.0)
        connection = await secured.connect()
        await handshake(connection)
        assert "Ticket expired" in await refused(secured, connection, token)
    finally:
        secured.kdc.config()


@pytest.mark.parametrize("choice", [b"\x02\x00\xff\xff", b"\x04\x00\xff\xff", b"\x00" * 4, b""])
async def test_a_layer_that_the_broker_does_not_offer(secured: Secured, choice: bytes) -> None:
    connection = await secured.connect()
    await handshake(connection)
    context = secured.context()
    answer = await send(connection, await asyncio.to_thread(context.step, b""))
    await asyncio.to_thread(context.step, answer.auth_bytes)
    assert context.is_complete
    offer = await send(connection, b"")
    assert context.unwrap(offer.auth_bytes) == NO_LAYER
    assert "a security layer" in await refused(secured, connection, context.wrap(choice))


@pytest.mark.parametrize("message", [b"", b"junk", b"\x60" + 300 * b"\xff"])
async def test_what_is_no_token_is_refused(secured: Secured, message: bytes) -> None:
    connection = await secured.connect()
    await handshake(connection)
    await refused(secured, connection, message)


async def test_no_changed_token_or_choice_gets_anybody_in(secured: Secured) -> None:
    """Each byte in turn, by the library of this process and the keys of the broker.

    The token has been used already: some bits of its frame are not signed, and may be changed once.
    """
    library, chosen = gss_library(), random.Random(1)
    names = ShortNames(("DEFAULT",), REALM)
    keys = library.acceptor(library.service("kafka"), secured.kdc.keytab(BROKER))
    token = await asyncio.to_thread(secured.context().step, b"")
    GssExchange(library.accept(keys), names).respond(token)
    for index in range(len(token)):
        changed = bytearray(token)
        changed[index] ^= 1 << chosen.randrange(8)
        with pytest.raises(AuthenticationError):
            GssExchange(library.accept(keys), names).respond(bytes(changed))
    accepted, context = library.accept(keys), secured.context()
    await asyncio.to_thread(context.step, accepted.step(context.step(b"")))
    choice = context.wrap(NO_LAYER)
    for index in range(len(choice)):
        changed = bytearray(choice)
        changed[index] ^= 1 << chosen.randrange(8)
        with suppress(GssError):
            # How far a message is rotated is not signed; what it says is.
            assert accepted.unwrap(bytes(changed)) == NO_LAYER


async def test_a_client_that_does_not_wait_for_its_answer_is_disconnected(
    secured: Secured,
) -> None:
    connection = await secured.connect()
    await handshake(connection)
    token = await asyncio.to_thread(secured.context().step, b"")
    assert connection._transport is not None
    sock = connection._transport.get_extra_info("socket")
    # Both leave in one segment: the broker must not answer the first before the second is there.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    sent = [asyncio.create_task(send(connection, each)) for each in (token, b"")]
    await asyncio.sleep(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(answers[1], KafkaError)
    assert "before the response" in secured.broker.log_text()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"keytab_of": "bob/laptop"}, ErrorCode.sasl_authentication_failed, "no ticket as alice"),
        ({"service": "http"}, ErrorCode.sasl_authentication_failed, KAFKAS_TEXT),
        ({"service": "ftp"}, ErrorCode.sasl_authentication_failed, "not found in Kerberos"),
    ],
)
async def test_our_own_client_says_why_it_does_not_get_in(
    secured: Secured, options: dict[str, str], code: ErrorCode, said: str
) -> None:
    with pytest.raises(KafkaError, match=said) as caught:
        await connect_by_ticket(secured, own_client(secured, "alice", **options))
    assert caught.value.code == code


async def test_a_centre_that_is_away_may_come_back(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", secured.kdc.config("away.conf", port=quiet_ports(1)[0]))
    security = own_client(secured, f"alice@{REALM}", "alice")
    with pytest.raises(NoProofError, match="Cannot contact any KDC") as caught:
        await connect_by_ticket(secured, security)
    assert caught.value.code == ErrorCode.network_exception
    monkeypatch.undo()
    await (await connect_by_ticket(secured, security)).close()


async def test_a_broker_without_its_keys_says_so(
    secured: Secured, zookeeper: str, tmp_path: Path
) -> None:
    for keytab, said in (
        (str(tmp_path / "none"), "not found"),
        (secured.kdc.keytab("alice"), "No key table entry found matching kafka/"),
    ):
        kerberos = KerberosSettings(keytab_file=keytab)
        listener = Listener(
            name="TICKETS",
            host="127.0.0.1",
            port=quiet_ports(1)[0],
            security_protocol="SASL_PLAINTEXT",
            sasl=SaslSettings(mechanisms=("GSSAPI",), kerberos=kerberos),
        )
        with pytest.raises(RuntimeError) as caught:
            async with running_broker(zookeeper, tmp_path, listeners=[listener]):
                pass
        assert f"listener TICKETS, GSSAPI with keytab {keytab}" in str(caught.value)
        assert said in str(caught.value)
