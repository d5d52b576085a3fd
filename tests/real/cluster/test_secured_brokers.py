"""Brokers prove to each other who they are; nobody else acts as a broker, on any listener."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.errors import ErrorCode
from tests.support.authority import Authority, Certificate
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.posing_broker import act_as_broker
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

CONNECT_TIMEOUT_MS: Final = 20_000
RULES: Final = "RULE:^CN=(.*)$/$1/"


class Secured:
    """Two brokers, and how clients reach them."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca")
        self.directory = directory
        self.certificate = self.authority.issue("host")
        self.brokers: list[BrokerProcess] = []
        for name in ("broker", "bob"):
            (directory / name).write_text(f"of-{name}")

    def listeners(self) -> list[Listener]:
        tls = TlsSettings(
            keystore_file=str(self.certificate.pem),
            truststore_file=str(self.authority.ca_file),
            client_auth="requested",
            principal_mapping_rules=RULES,
        )
        users = {name: Secret(file=str(self.directory / name)) for name in ("broker", "bob")}
        ports = quiet_ports(2)
        return [
            Listener(
                name="INTERNAL",
                host="127.0.0.1",
                port=ports[0],
                security_protocol="SASL_SSL",
                tls=tls,
                sasl=SaslSettings(users=users),
            ),
            Listener(
                name="CERTIFICATES",
                host="127.0.0.1",
                port=ports[1],
                security_protocol="SSL",
                tls=tls,
            ),
        ]

    def as_user(self, name: str) -> ClientSecurity:
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism="SCRAM-SHA-512",
            username=name,
            password=Secret(file=str(self.directory / name)),
            ca_file=str(self.authority.ca_file),
        )

    def by_certificate(self, certificate: Certificate) -> ClientSecurity:
        return ClientSecurity(
            protocol="SSL",
            ca_file=str(self.authority.ca_file),
            certificate_file=str(certificate.pem),
        )

    async def connect(self, listener: int, security: ClientSecurity) -> Connection:
        broker = self.brokers[0]
        port = broker.settings.listeners[listener].port if listener else broker.port
        return await connect(
            "127.0.0.1", port, client_id="c", timeout_ms=CONNECT_TIMEOUT_MS, security=security
        )


@pytest.fixture
async def secured(chroot: str, tmp_path: Path) -> AsyncIterator[Secured]:
    made = Secured(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        for broker_id in (1, 2):
            settings = {
                "inter_broker_listener": "INTERNAL",
                "inter_broker_security": made.as_user("broker"),
                "broker_principals": ("User:broker",),
            }
            broker = running_broker(
                chroot,
                tmp_path,
                broker_id=broker_id,
                listeners=made.listeners(),
                settings=settings,
            )
            made.brokers.append(await stack.enter_async_context(broker))
        yield made


async def test_secured_brokers_replicate_and_nobody_else_acts_as_a_broker(
    secured: Secured,
) -> None:
    async with KafkaClient(secured.brokers[0].bootstrap) as client:
        topic = NewTopic(
            name="t",
            partitions=2,
            replication_factor=2,
            configs={"min.insync.replicas": "2"},
        )
        assert (await client.create_topics([topic]))["t"] is None
        for index in range(2):
            # Acknowledged only if the follower has fetched it.
            batch = encode_batch([NewRecord(1, b"k", b"v")])
            assert await produce_to(client, TopicPartition("t", index), batch) == 0
    strangers = {
        "plain text": (0, PLAINTEXT),
        "another user on the inter-broker listener": (1, secured.as_user("bob")),
        "another certificate": (2, secured.by_certificate(secured.authority.issue("bob"))),
    }
    for who, (listener, security) in strangers.items():
        answers = await act_as_broker(await secured.connect(listener, security))
        assert set(answers) == {ErrorCode.cluster_authorization_failed}, who
    brokers = {
        "the brokers' user": (1, secured.as_user("broker")),
        "the brokers' certificate": (2, secured.by_certificate(secured.authority.issue("broker"))),
    }
    for who, (listener, security) in brokers.items():
        answers = await act_as_broker(await secured.connect(listener, security))
        assert ErrorCode.cluster_authorization_failed not in answers, who
    assert "Traceback" not in secured.brokers[0].log_text()
