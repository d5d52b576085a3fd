"""A broker with a listener for each of SSL, SASL_PLAINTEXT and SASL_SSL, and an authorizer.

Alice has rights on what begins with "orders" and "alice". Others show a wrong password, or a
certificate that is too old or of an unknown authority.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import confluent_kafka

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.support.authority import Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.python_clients import librdkafka_options
from tests.support.quiet_ports import quiet_ports
from topology.certificates.client_properties import java_properties, properties_text

PASSWORD: Final = "of-everybody"
SESSION_MS: Final = 4_000
"""`connections.max.reauth.ms` of the broker."""
WAIT_SECONDS: Final = 60.0
LISTENERS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
RULES: Final = "RULE:^CN=(.*)$/$1/"


LOGGED: Final = {
    "wrong password": "failed: Authentication failed",
    "expired certificate": "certificate has expired",
    "foreign certificate": "certificate verify failed",
}
"""What the broker's log has of each refusal."""


class Reader(Protocol):
    """Reads the records of a topic one by one."""

    def next(self) -> bytes | None:
        """The next record, None if the right to read is missing."""
        ...

    def close(self) -> None: ...


OpenReader = Callable[[str, ClientSecurity, str], Reader]
"""Makes a reader from an address, a user and a topic."""


class Secured:
    """The broker, and how alice connects."""

    def __init__(self, broker: BrokerProcess, authority: Authority, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self._ca_file = str(authority.ca_file)
        (directory / "wrong").write_text("another")
        foreign = Authority(directory / "foreign", "foreign")
        self._certificates = {
            None: authority.issue("alice"),
            "admin": authority.issue("admin"),
            "expired certificate": authority.issue("late", age=datetime.timedelta(days=9)),
            "foreign certificate": foreign.issue("alice"),
        }

    def address(self, security: ClientSecurity) -> str:
        listeners = self.broker.settings.listeners
        (port,) = (each.port for each in listeners if each.name == security.protocol)
        return f"127.0.0.1:{port}"

    def alice(self, protocol: str, flaw: str | None = None) -> ClientSecurity:
        """How alice connects, or somebody with a flaw."""
        return self._security(protocol, "alice", flaw, flaw)

    def admin(self, protocol: str) -> ClientSecurity:
        """How a super user connects."""
        return self._security(protocol, "admin", "admin", None)

    def _security(
        self, protocol: str, user: str, certificate: str | None, flaw: str | None
    ) -> ClientSecurity:
        ca_file = self._ca_file if protocol.endswith("SSL") else None
        if protocol == "SSL":
            made = self._certificates[certificate]
            return ClientSecurity(
                protocol="SSL",
                ca_file=ca_file,
                certificate_file=str(made.certificate_pem),
                key_file=str(made.key_pem),
            )
        name = "wrong" if flaw else "password"
        return ClientSecurity(
            protocol=protocol,  # type: ignore[arg-type]
            mechanism="SCRAM-SHA-512",
            username=user,
            password=Secret(file=str(self.directory / name)),
            ca_file=ca_file,
        )

    async def refusals_are_logged(self, since: int, flaw: str, count: int) -> None:
        """Wait until the log from `since` on has so many refusals because of a flaw."""
        async with asyncio.timeout(WAIT_SECONDS):
            while self.broker.log_text()[since:].count(LOGGED[flaw]) < count:
                await asyncio.sleep(0.05)

    def java(self, security: ClientSecurity) -> dict[str, str]:
        """The configs of Java's clients for this."""
        password = "" if security.password is None else read_secret(security.password)
        found = java_properties(self.address(security), security, password)
        if security.certificate_file is not None:
            assert security.key_file is not None
            pem = Path(security.key_file).with_suffix(".pem")
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem)}
        return found

    def write_java(self, security: ClientSecurity, name: str) -> str:
        """Write the configs of Java's clients into a file, and return its path."""
        path = self.directory / f"{name.replace(' ', '-')}.properties"
        path.write_text(properties_text(self.java(security)))
        return str(path)


def rights(*operations: AclOperation) -> list[Acl]:
    named = [(ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "alice")]
    named.append((ResourceType.TRANSACTIONAL_ID, "alice"))
    return [
        Acl(kind, name, PatternType.PREFIXED, "User:alice", "*", operation, Permission.ALLOW)
        for kind, name in named
        for operation in operations
        if kind != ResourceType.GROUP or operation == AclOperation.READ
        if kind != ResourceType.TRANSACTIONAL_ID or operation == AclOperation.WRITE
    ]


async def allow(secured: Secured, *resources: tuple[ResourceType, str]) -> None:
    """Give alice every right on what begins with these names."""
    acls = [
        Acl(kind, name, PatternType.PREFIXED, "User:alice", "*", AclOperation.ALL, Permission.ALLOW)
        for kind, name in resources
    ]
    async with KafkaClient(secured.broker.bootstrap) as admin:
        assert set((await create_acls(admin, acls)).values()) == {None}


@contextlib.asynccontextmanager
async def running_secured(zookeeper: str, directory: Path, **more: Any) -> AsyncIterator[Secured]:
    """The broker; its first listener is plain text, for the test itself.

    `more` goes to `running_broker`.
    """
    authority = Authority(directory / "ca")
    (directory / "password").write_text(PASSWORD)
    tls = TlsSettings(keystore_file=str(authority.issue("broker").pem))
    mutual = replace(
        tls,
        truststore_file=str(authority.ca_file),
        client_auth="required",
        principal_mapping_rules=RULES,
    )
    secret = Secret(file=str(directory / "password"))
    sasl = SaslSettings(
        mechanisms=("PLAIN", "SCRAM-SHA-512"), users={"admin": secret, "alice": secret}
    )
    listeners = [
        Listener(
            name=name,
            host="127.0.0.1",
            port=port,
            security_protocol=name,  # type: ignore[arg-type]
            tls=None if name == "SASL_PLAINTEXT" else mutual if name == "SSL" else tls,
            sasl=None if name == "SSL" else sasl,
        )
        for name, port in zip(LISTENERS, quiet_ports(len(LISTENERS)), strict=True)
    ]
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "connections.max.reauth.ms": str(SESSION_MS),
    }
    async with running_broker(
        zookeeper, directory, listeners=listeners, config=config, **more
    ) as broker:
        async with KafkaClient(broker.bootstrap) as admin:
            allowed = rights(AclOperation.READ, AclOperation.WRITE)
            assert set((await create_acls(admin, allowed)).values()) == {None}
        yield Secured(broker, authority, directory)


async def new_topic(secured: Secured, name: str) -> None:
    await create_topic(secured.broker.bootstrap, name)


async def create_topic(bootstrap: str, name: str) -> None:
    """Create a topic of one partition, as a super user."""
    async with KafkaClient(bootstrap) as admin:
        assert await admin.create_topics([NewTopic(name=name, partitions=1)]) == {name: None}


async def read_while_revoked(
    bootstrap: str, address: str, security: ClientSecurity, topic: str, open_reader: OpenReader
) -> None:
    """A reader hears of a revocation in mid-stream, and continues when it is granted again.

    Super users connect to `bootstrap`; alice, who has all `rights`, to `address`.
    """
    await create_topic(bootstrap, topic)
    readable = [each for each in rights(AclOperation.READ) if each.resource_name == "orders"]
    writer = confluent_kafka.Producer(librdkafka_options(address, security))

    def write(value: bytes) -> None:
        writer.produce(topic, value)
        assert writer.flush(WAIT_SECONDS) == 0

    await asyncio.to_thread(write, b"before")
    reader = await asyncio.to_thread(open_reader, address, security, topic)
    async with KafkaClient(bootstrap) as admin:
        try:
            assert await asyncio.to_thread(reader.next) == b"before"
            assert set((await delete_acls(admin, readable)).values()) == {None}
            assert await asyncio.to_thread(reader.next) is None
            await asyncio.to_thread(write, b"meanwhile")
        finally:
            assert set((await create_acls(admin, readable)).values()) == {None}
        while (found := await asyncio.to_thread(reader.next)) is None:
            pass
        assert found == b"meanwhile"
    await asyncio.to_thread(reader.close)


def committed(address: str, security: ClientSecurity, topic: str) -> list[bytes | None]:
    """The first two records of the topic that are committed."""
    options = librdkafka_options(address, security)
    consumer = confluent_kafka.Consumer(
        {**options, "group.id": "alice-c", "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < 2:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None and message.error() is None
        found.append(message.value())
    with contextlib.suppress(confluent_kafka.KafkaException):
        consumer.close()
    return found
