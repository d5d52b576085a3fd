"""TLS listeners: outside clients, client certificates, refused peers, certificates that change."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.errors import KafkaError
from tests.support.authority import STORE_PASSWORD, Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.python_clients import (
    through_aiokafka,
    through_kafka_python,
    through_librdkafka,
)
from tests.support.quiet_ports import quiet_ports

LOGGED_SECONDS_MAX = 20
pytestmark = pytest.mark.real

CONNECT_TIMEOUT_MS = 20_000
BIG_VALUE_BYTES = 3 * 1024 * 1024


class Secured:
    """A broker with a listener that demands certificates, and one that has none of them."""

    def __init__(self, broker: BrokerProcess, authority: Authority, directory: Path) -> None:
        self.broker = broker
        self.authority = authority
        self.directory = directory
        self.mutual, self.one_sided = (
            f"127.0.0.1:{each.port}" for each in broker.settings.listeners[1:]
        )

    def client(self, name: str | None = None) -> ClientSecurity:
        """How a client connects, with a certificate if it has a name."""
        security = ClientSecurity(protocol="SSL", ca_file=str(self.authority.ca_file))
        if name is None:
            return security
        certificate = self.authority.issue(name)
        return replace(
            security,
            certificate_file=str(certificate.certificate_pem),
            key_file=str(certificate.key_pem),
        )


@pytest.fixture
async def secured(zookeeper: str, tmp_path: Path) -> AsyncIterator[Secured]:
    authority = Authority(tmp_path / "ca")
    (tmp_path / "store-password").write_text(STORE_PASSWORD + "\n")
    password = Secret(file=str(tmp_path / "store-password"))
    certificate = authority.issue("broker")
    mutual = TlsSettings(
        keystore_file=str(certificate.store),
        keystore_type="PKCS12",
        keystore_password=password,
        truststore_file=str(authority.truststore),
        truststore_type="PKCS12",
        truststore_password=password,
        client_auth="required",
        enabled_protocols=("TLSv1.3",),
    )
    shutil.copy(certificate.pem, tmp_path / "listener.pem")
    one_sided = TlsSettings(keystore_file=str(tmp_path / "listener.pem"))
    listeners = [
        Listener(name=name, host="127.0.0.1", port=port, security_protocol="SSL", tls=settings)
        for (name, settings), port in zip(
            {"MUTUAL": mutual, "ONE_SIDED": one_sided}.items(), quiet_ports(2), strict=True
        )
    ]
    async with running_broker(zookeeper, tmp_path, listeners=listeners) as broker:
        yield Secured(broker, authority, tmp_path)


async def test_outside_clients_with_certificates(secured: Secured) -> None:
    alice = secured.client("alice")
    async with KafkaClient(secured.mutual, security=alice) as admin:
        topic = NewTopic(name="t", partitions=1, configs={"max.message.bytes": str(2**24)})
        assert (await admin.create_topics([topic]))["t"] is None
    values = [os.urandom(BIG_VALUE_BYTES), *(os.urandom(size) for size in (0, 1, 16_384, 100_000))]
    written = list(values)
    assert await through_aiokafka(secured.mutual, alice, "t", values) == written
    written += values
    assert (
        await asyncio.to_thread(through_librdkafka, secured.mutual, alice, "t", values) == written
    )
    written += values
    assert (
        await asyncio.to_thread(
            through_kafka_python, secured.one_sided, secured.client(), "t", values
        )
        == written
    )


async def test_strangers_are_refused_and_named_in_the_log(secured: Secured) -> None:
    stranger = Authority(secured.directory / "other", "other").issue("mallory")
    expired = secured.authority.issue("late", age=datetime.timedelta(days=9))
    for files in (None, stranger, expired):
        security = secured.client()
        if files is not None:
            security = replace(security, certificate_file=str(files.pem))
        with pytest.raises(KafkaError):
            await _connect(secured.mutual, security)
    for reason in (
        "peer did not return a certificate",
        "self-signed certificate",
        "expired",
    ):
        # The peer may read the alert before the broker has logged it.
        async with asyncio.timeout(LOGGED_SECONDS_MAX):
            while reason not in secured.broker.log_text():
                await asyncio.sleep(0.05)
    # Neither a TLS 1.2 peer nor plain text gets through, and nobody else is disturbed.
    old = ssl.create_default_context(cafile=secured.authority.ca_file)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"protocol version|closed|reset|EOF"):
        _handshake(secured.mutual, old)
    host, port = secured.mutual.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as plain:
        plain.sendall(b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00" + bytes(6))
        with contextlib.suppress(ConnectionResetError):
            while plain.recv(4096):
                pass
    await (await _connect(secured.mutual, secured.client("bob"))).close()


async def test_a_new_certificate_needs_no_restart(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=secured.authority.ca_file)
    place = secured.directory / "listener.pem"
    first = _handshake(secured.one_sided, context)
    assert _handshake(secured.one_sided, context) == first
    async with KafkaClient(secured.one_sided, security=secured.client()) as client:
        await client.metadata(None)
        place.write_text("half a certi")
        assert _handshake(secured.one_sided, context) == first, "the last usable one stays"
        assert f"listener ONE_SIDED keeps its certificates: {place}" in secured.broker.log_text()
        shutil.copy(secured.authority.issue("broker-2").pem, place)
        assert _handshake(secured.one_sided, context) != first
        await client.metadata(None)


async def _connect(address: str, security: ClientSecurity) -> Connection:
    host, port = address.split(":")
    return await connect(
        host, int(port), client_id="test", timeout_ms=CONNECT_TIMEOUT_MS, security=security
    )


def _handshake(address: str, context: ssl.SSLContext) -> int:
    """Return the serial number of the certificate that the broker shows."""
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        certificate = secure.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number
