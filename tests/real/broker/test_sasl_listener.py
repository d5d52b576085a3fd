"""SASL listeners: outside clients, refused logins, users that change, sessions that end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.sasl import authenticate
from local_cluster.client.auth.scram import HASHES, ScramClient, salted_password
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import SCRAM_MECHANISMS
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms
from tests.support.authority import Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.python_clients import (
    through_aiokafka,
    through_kafka_python,
    through_librdkafka,
)
from tests.support.quiet_ports import quiet_ports
from tests.support.scraping import scrape

pytestmark = pytest.mark.real

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CONNECT_TIMEOUT_MS = 20_000
PASSWORD = "of-bob, with=signs"
SALT = b"salt-of-a-user"
SESSION_MS = 3_000
NUMBERS = {name: number for number, name in SCRAM_MECHANISMS.items()}


class Secured:
    """A broker with SASL over plain text and over TLS; `admin` is a user of its settings."""

    def __init__(self, broker: BrokerProcess, authority: Authority, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self._ca_file = str(authority.ca_file)
        self.plain, self.tls = (f"127.0.0.1:{each.port}" for each in broker.settings.listeners[1:])

    def client(
        self, name: str, mechanism: str = "SCRAM-SHA-512", *, tls: bool = False, password: str = ""
    ) -> ClientSecurity:
        file = self.directory / f"{name}-{len(password)}-of-client"
        file.write_text(password or PASSWORD)
        return ClientSecurity(
            protocol="SASL_SSL" if tls else "SASL_PLAINTEXT",
            mechanism=mechanism,  # type: ignore[arg-type]
            username=name,
            password=Secret(file=str(file)),
            ca_file=self._ca_file if tls else None,
        )


@pytest.fixture
def config() -> dict[str, str]:
    return {}


@pytest.fixture
async def secured(chroot: str, tmp_path: Path, config: Mapping[str, str]) -> AsyncIterator[Secured]:
    authority = Authority(tmp_path / "ca")
    (tmp_path / "admin").write_text(PASSWORD + "\n")
    sasl = SaslSettings(
        mechanisms=MECHANISMS,  # type: ignore[arg-type]
        users={"admin": Secret(file=str(tmp_path / "admin"))},
    )
    ports = quiet_ports(2)
    listeners = [
        Listener(
            name="SASL",
            host="127.0.0.1",
            port=ports[0],
            security_protocol="SASL_PLAINTEXT",
            sasl=sasl,
        ),
        Listener(
            name="BOTH",
            host="127.0.0.1",
            port=ports[1],
            security_protocol="SASL_SSL",
            sasl=sasl,
            tls=TlsSettings(keystore_file=str(authority.issue("broker").pem)),
        ),
    ]
    async with running_broker(
        chroot, tmp_path, listeners=listeners, config=config, http_port=0
    ) as broker:
        yield Secured(broker, authority, tmp_path)


async def set_password(
    admin: KafkaClient, name: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512"
) -> None:
    change = {
        "name": name,
        "mechanism": NUMBERS[mechanism],
        "iterations": 4096,
        "salt": SALT,
        "salted_password": salted_password(HASHES[mechanism], password, SALT, 4096),
    }
    answer = await admin.call_controller(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [], "upsertions": [change]}
    )
    assert [each.error_code for each in answer.results] == [ErrorCode.none]


async def test_outside_clients_by_every_mechanism(secured: Secured) -> None:
    written: list[bytes] = []
    async with KafkaClient(secured.plain, security=secured.client("admin", "PLAIN")) as admin:
        assert (await admin.create_topics([NewTopic(name="t", partitions=1)]))["t"] is None
        for mechanism in HASHES:
            await set_password(admin, "bob", mechanism=mechanism)
    for name, mechanism, tls in (
        ("admin", "PLAIN", True),
        ("admin", "SCRAM-SHA-256", False),
        ("bob", "SCRAM-SHA-512", True),
        ("bob", "SCRAM-SHA-256", False),
    ):
        security = secured.client(name, mechanism, tls=tls)
        address = secured.tls if tls else secured.plain
        value = f"{name} by {mechanism}".encode()
        for number in range(3):
            written.append(value + bytes((number,)))
        assert (await through_aiokafka(address, security, "t", written[-3:-2]))[-1] == written[-3]
        for run, index in ((through_librdkafka, -2), (through_kafka_python, -1)):
            found = await asyncio.to_thread(run, address, security, "t", [written[index]])
            assert found == written[: len(written) + index + 1]
    assert PASSWORD not in secured.broker.log_text()


async def test_who_cannot_prove_who_he_is_gets_nothing(secured: Secured) -> None:
    refused = set()
    for name, mechanism, password in (
        ("admin", "SCRAM-SHA-512", "wrong"),
        ("mallory", "SCRAM-SHA-512", PASSWORD),
        ("admin", "PLAIN", "wrong"),
        ("mallory", "PLAIN", PASSWORD),
    ):
        with pytest.raises(KafkaError) as error:
            await _connect(secured.plain, secured.client(name, mechanism, password=password))
        assert error.value.code == ErrorCode.sasl_authentication_failed
        refused.add((mechanism, error.value.message))
    assert len(refused) == 2, "an unknown user looks like a wrong password"
    found = await asyncio.to_thread(scrape, secured.broker.http_url)
    failed = "kafka_server_socket_server_metrics_failed_authentication_total"
    assert found.one(failed, listener="SASL", networkProcessor="0") == 4
    # No request is served, no large frame is taken, before somebody has proved who he is.
    metadata = struct.pack(">hhih", ApiKey.METADATA, 1, 7, -1) + struct.pack(">i", 0)
    handshake = struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 0, 7, -1) + struct.pack(
        ">h5s", 5, b"PLAIN"
    )
    large = struct.pack(">i", 600 * 1024)
    for sent in (*(struct.pack(">i", len(each)) + each for each in (metadata, handshake)), large):
        host, port = secured.plain.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as stranger:
            stranger.sendall(sent)
            assert stranger.recv(100) == b""
    assert "before an authentication" in secured.broker.log_text()
    assert "SaslHandshake v0" in secured.broker.log_text()
    assert "at most 524288 are accepted" in secured.broker.log_text()


async def test_users_change_at_once_and_are_kafkas_in_zookeeper(
    secured: Secured, outside: KazooClient
) -> None:
    name = "bob * \u00fc"
    first, second = (secured.client(name, password=each) for each in (PASSWORD, "another one"))
    admin_security = secured.client("admin", tls=True)
    async with KafkaClient(secured.tls, security=admin_security) as admin:
        await set_password(admin, name)
        await (await _connect(secured.plain, first)).close()
        payload = outside.get("/config/users/bob%20%2A%20%C3%BC")[0].decode()
        assert payload.startswith('{"version":1,"config":{"SCRAM-SHA-512":"salt=')
        await set_password(admin, name, "another one")
        with pytest.raises(KafkaError, match="invalid credentials"):
            await _connect(secured.plain, first)
        await (await _connect(secured.plain, second)).close()
        described = await admin.call_controller(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}
        )
        assert [(each.user, len(each.credential_infos)) for each in described.results] == [
            (name, 1)
        ]
        # An outside tool deletes the user.
        outside.delete("/config/users/bob%20%2A%20%C3%BC")
        async with asyncio.timeout(20):
            while True:
                try:
                    await (await _connect(secured.plain, second)).close()
                except KafkaError as error:
                    assert error.code == ErrorCode.sasl_authentication_failed
                    break
    # Users of the settings change with their files.
    (secured.directory / "admin").write_text("a new one\n")
    for mechanism in MECHANISMS:
        with pytest.raises(KafkaError):
            await _connect(secured.plain, secured.client("admin", mechanism))
        changed = secured.client("admin", mechanism, password="a new one")
        await (await _connect(secured.plain, changed)).close()


@pytest.mark.parametrize("config", [{"connections.max.reauth.ms": str(SESSION_MS)}])
async def test_a_session_ends_unless_its_user_authenticates_again(secured: Secured) -> None:
    """KIP-368."""
    connection = await _connect_once(secured.plain, secured.client("admin"))
    with pytest.raises(KafkaError) as early:
        await _authenticate_again(connection, "admin")
    assert early.value.code == ErrorCode.illegal_sasl_state, "within the first second"
    await asyncio.sleep(SESSION_MS / 2 / 1000)
    assert await _authenticate_again(connection, "admin") == SESSION_MS
    # Past the end of the first session, and long before that of the second.
    await asyncio.sleep(SESSION_MS * 0.6 / 1000)
    await connection.negotiate()
    await asyncio.sleep(SESSION_MS / 2 / 1000)
    with pytest.raises(KafkaError) as ended:
        await connection.negotiate()
    assert ended.value.code == ErrorCode.network_exception
    assert "the session of User:admin has ended" in secured.broker.log_text()
    # Nobody becomes another user on the way.
    async with KafkaClient(secured.plain, security=secured.client("admin")) as admin:
        await set_password(admin, "bob")
    connection = await _connect_once(secured.plain, secured.client("admin"))
    await asyncio.sleep(1.1)
    with pytest.raises(KafkaError, match="Cannot change principals"):
        await _authenticate_again(connection, "bob")


@pytest.mark.parametrize("config", [{"connections.max.reauth.ms": str(SESSION_MS)}])
async def test_our_own_client_renews_its_sessions(secured: Secured) -> None:
    connections = [
        await _connect(secured.plain, secured.client("admin", mechanism))
        for mechanism in MECHANISMS
    ]
    # A session that is not renewed ends in the middle of this.
    ends = asyncio.get_running_loop().time() + 2 * SESSION_MS / 1000
    while asyncio.get_running_loop().time() < ends:
        for connection in connections:
            await connection.negotiate()
    for connection in connections:
        await connection.close()
    assert "has ended" not in secured.broker.log_text()


@pytest.mark.parametrize("config", [{"connections.max.reauth.ms": str(SESSION_MS)}])
async def test_a_session_ends_for_a_client_that_knows_of_no_lifetimes(secured: Secured) -> None:
    """As in Kafka: otherwise a client of old keeps a session that outlives every password."""
    host, port = secured.plain.split(":")
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection("old"), host, int(port))
    await connection.negotiate()
    assert await _authenticate_again(connection, "admin", version_max=0) == 0
    await connection.negotiate()
    await asyncio.sleep(1.5 * SESSION_MS / 1000)
    with pytest.raises(KafkaError) as ended:
        await connection.negotiate()
    assert ended.value.code == ErrorCode.network_exception
    assert "the session of User:admin has ended" in secured.broker.log_text()


async def _authenticate_again(
    connection: Connection, username: str, *, version_max: int = 2
) -> int:
    """Authenticate on an open connection; return the lifetime of the session in ms, 0 for none."""
    answer = await connection.call(
        ApiKey.SASL_HANDSHAKE, {"mechanism": "SCRAM-SHA-512"}, version_max=1
    )
    if answer.error_code:
        raise KafkaError(answer.error_code)
    scram = ScramClient("SCRAM-SHA-512", username, PASSWORD, "nonce-of-the-client")
    message = scram.first()
    for _ in range(2):
        answer = await connection.call(
            ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message}, version_max=version_max
        )
        if answer.error_code:
            raise KafkaError(answer.error_code, answer.error_message or "")
        if answer.auth_bytes.startswith(b"r="):
            message = scram.final(answer.auth_bytes)
    scram.verify(answer.auth_bytes)
    return ms(get(answer, "session_lifetime", timedelta(0)))


async def _connect(address: str, security: ClientSecurity) -> Connection:
    host, port = address.split(":")
    return await connect(
        host, int(port), client_id="test", timeout_ms=CONNECT_TIMEOUT_MS, security=security
    )


async def _connect_once(address: str, security: ClientSecurity) -> Connection:
    """Authenticate, and leave the session to its end."""
    host, port = address.split(":")
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection("test"), host, int(port))
    await connection.negotiate()
    assert security.password is not None
    await authenticate(connection, security, read_secret(security.password))
    return connection
