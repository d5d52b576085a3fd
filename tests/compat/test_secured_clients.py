"""Outside clients on secured listeners: who gets in, who does not, and what happens in between.

One broker has a listener for each of SSL, SASL_PLAINTEXT and SASL_SSL, and an authorizer. The table
of clients and cases is in README.md.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest
import pytest_asyncio
from aiokafka.helpers import create_ssl_context

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.compat.client_programs import GO_CLIENTS, KAFKAJS, run_client
from tests.support.authority import Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import run_java
from tests.support.kafka_from_maven import broker_jars
from tests.support.python_clients import librdkafka_options
from tests.support.quiet_ports import quiet_ports
from topology.certificates.client_properties import java_properties, properties_text

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

PASSWORD: Final = "of-everybody"
SESSION_MS: Final = 4_000
WAIT_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 4.0
"""How long a client tries that retries for ever."""
LISTENERS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
RULES: Final = "RULE:^CN=(.*)$/$1/"
LOGGED: Final = {
    "wrong password": "invalid credentials",
    "expired certificate": "certificate has expired",
    "foreign certificate": "certificate verify failed",
}
"""What the broker's log has of each refusal."""


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
            "expired certificate": authority.issue("late", age=datetime.timedelta(days=9)),
            "foreign certificate": foreign.issue("alice"),
        }

    def address(self, security: ClientSecurity) -> str:
        listeners = self.broker.settings.listeners
        (port,) = (each.port for each in listeners if each.name == security.protocol)
        return f"127.0.0.1:{port}"

    def alice(self, protocol: str, flaw: str | None = None) -> ClientSecurity:
        """How alice connects, or somebody with a flaw."""
        ca_file = self._ca_file if protocol.endswith("SSL") else None
        if protocol == "SSL":
            made = self._certificates[flaw]
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
            username="alice",
            password=Secret(file=str(self.directory / name)),
            ca_file=ca_file,
        )


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
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
    async with running_broker(zookeeper, directory, listeners=listeners, config=config) as broker:
        async with KafkaClient(broker.bootstrap) as admin:
            allowed = rights(AclOperation.READ, AclOperation.WRITE)
            assert set((await create_acls(admin, allowed)).values()) == {None}
        yield Secured(broker, authority, directory)


async def new_topic(secured: Secured, name: str) -> None:
    async with KafkaClient(secured.broker.bootstrap) as admin:
        assert await admin.create_topics([NewTopic(name=name, partitions=1)]) == {name: None}


# -- who gets in ------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_java_produces(secured: Secured, protocol: str) -> None:
    broker_jars()
    topic = f"orders-java-{protocol.lower()}"
    await new_topic(secured, topic)
    security = secured.alice(protocol)
    config = secured.directory / f"{topic}.properties"
    address = secured.address(security)
    config.write_text(properties_text(java_properties(address, security, PASSWORD)))
    told = await run_java(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", address, "--topic", topic, "--max-messages", "3"),
        *("--command-config", str(config)),
    )
    assert told.count("producer_send_success") == 3


@pytest.mark.parametrize("client", [KAFKAJS, *GO_CLIENTS])
async def test_a_client_in_another_language(secured: Secured, client: str) -> None:
    """Everything of its program, by TLS and a password. Its user is a super user."""
    security = secured.alice("SASL_SSL")
    assert security.ca_file is not None
    user = {"KAFKA_USER": "admin", "KAFKA_PASSWORD": PASSWORD, "KAFKA_CA": security.ca_file}
    await run_client(client, secured.address(security), f"secured-{client}", user)


# -- who does not get in -----------------------------------------------------------------------


def confluent_refused(address: str, security: ClientSecurity) -> str:
    errors: list[confluent_kafka.KafkaError] = []
    options = librdkafka_options(address, security)
    client = confluent_kafka.Producer({**options, "log_level": 0, "error_cb": errors.append})
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=REFUSED_SECONDS)
    client.poll(0)
    return " ".join(each.str() for each in errors)


def kafka_python_refused(address: str, security: ClientSecurity) -> str:
    with pytest.raises(kafka.errors.KafkaError) as caught:
        kafka.KafkaConsumer(
            bootstrap_servers=address,
            bootstrap_timeout_ms=int(REFUSED_SECONDS * 1_000),
            **kafka_python_options(security),
        )
    return repr(caught.value)


def kafka_python_options(security: ClientSecurity) -> dict[str, Any]:
    options: dict[str, Any] = {"security_protocol": security.protocol}
    if security.uses_tls:
        options["ssl_cafile"] = security.ca_file
        options["ssl_certfile"] = security.certificate_file
        options["ssl_keyfile"] = security.key_file
    if security.password is not None:
        options["sasl_mechanism"] = security.mechanism
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = read_secret(security.password)
    return options


def aiokafka_options(security: ClientSecurity) -> dict[str, Any]:
    options: dict[str, Any] = {"security_protocol": security.protocol}
    if security.uses_tls:
        options["ssl_context"] = create_ssl_context(
            cafile=security.ca_file,
            certfile=security.certificate_file,
            keyfile=security.key_file,
        )
    if security.password is not None:
        options["sasl_mechanism"] = security.mechanism
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = read_secret(security.password)
    return options


def aiokafka_refused(address: str, security: ClientSecurity) -> str:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, **aiokafka_options(security)
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError) as caught:
        asyncio.run(start())
    return repr(caught.value)


REFUSED: Final[dict[str, Callable[[str, ClientSecurity], str]]] = {
    "confluent-kafka": confluent_refused,
    "aiokafka": aiokafka_refused,
    "kafka-python": kafka_python_refused,
}


@pytest.mark.parametrize(
    ("protocol", "flaw"),
    [
        ("SASL_PLAINTEXT", "wrong password"),
        ("SASL_SSL", "wrong password"),
        ("SSL", "expired certificate"),
        ("SSL", "foreign certificate"),
    ],
)
async def test_nobody_gets_in_without_a_proof(secured: Secured, protocol: str, flaw: str) -> None:
    security = secured.alice(protocol, flaw)
    since = len(secured.broker.log_text())
    said = await asyncio.gather(
        *(asyncio.to_thread(each, secured.address(security), security) for each in REFUSED.values())
    )
    assert all(said), "each client says so too"
    async with asyncio.timeout(WAIT_SECONDS):
        while secured.broker.log_text()[since:].count(LOGGED[flaw]) < len(REFUSED):
            await asyncio.sleep(0.05)


# -- what happens in between -------------------------------------------------------------------


class Reader(Protocol):
    """Reads the records of a topic one by one."""

    def next(self) -> bytes | None:
        """The next record, None if the right to read is missing."""
        ...

    def close(self) -> None: ...


class ConfluentReader:
    """By confluent-kafka."""

    def __init__(self, address: str, security: ClientSecurity, topic: str) -> None:
        options = librdkafka_options(address, security)
        self._consumer = confluent_kafka.Consumer({**options, "group.id": "alice-c"})
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])

    def next(self) -> bytes | None:
        message = self._consumer.poll(WAIT_SECONDS)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
            return None
        return message.value()

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonReader:
    """By kafka-python."""

    def __init__(self, address: str, security: ClientSecurity, topic: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=address,
            auto_offset_reset="earliest",
            **kafka_python_options(security),
        )
        self._consumer.assign([kafka.TopicPartition(topic, 0)])
        self._found: list[bytes] = []

    def next(self) -> bytes | None:
        ends = time.monotonic() + WAIT_SECONDS
        while not self._found:
            assert time.monotonic() < ends
            try:
                polled = self._consumer.poll(timeout_ms=200)
            except kafka.errors.TopicAuthorizationFailedError:
                return None
            self._found = [record.value for records in polled.values() for record in records]
        return self._found.pop(0)

    def close(self) -> None:
        self._consumer.close()


READERS: Final[dict[str, Callable[[str, ClientSecurity, str], Reader]]] = {
    "confluent-kafka": ConfluentReader,
    "kafka-python": KafkaPythonReader,
}


@pytest.mark.parametrize("client", READERS)
async def test_a_right_is_revoked_and_granted_in_mid_stream(secured: Secured, client: str) -> None:
    topic = f"orders-revoked-{client}"
    await new_topic(secured, topic)
    security = secured.alice("SASL_SSL")
    readable = [each for each in rights(AclOperation.READ) if each.resource_name == "orders"]
    writer = confluent_kafka.Producer(librdkafka_options(secured.address(security), security))

    def write(value: bytes) -> None:
        writer.produce(topic, value)
        assert writer.flush(WAIT_SECONDS) == 0

    await asyncio.to_thread(write, b"before")
    reader = await asyncio.to_thread(READERS[client], secured.address(security), security, topic)
    async with KafkaClient(secured.broker.bootstrap) as admin:
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


def confluent_transaction(address: str, security: ClientSecurity, topic: str) -> None:
    options = librdkafka_options(address, security)
    producer = confluent_kafka.Producer({**options, "transactional.id": f"alice-{topic}"})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"0")
    assert producer.flush(WAIT_SECONDS) == 0
    time.sleep(1.5 * SESSION_MS / 1_000)
    producer.produce(topic, b"1")
    producer.commit_transaction(WAIT_SECONDS)


def aiokafka_transaction(address: str, security: ClientSecurity, topic: str) -> None:
    async def play() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            transactional_id=f"alice-{topic}",
            **aiokafka_options(security),
        ) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"0")
            await asyncio.sleep(1.5 * SESSION_MS / 1_000)
            await producer.send_and_wait(topic, b"1")
            await producer.commit_transaction()

    asyncio.run(play())


def kafka_python_transaction(address: str, security: ClientSecurity, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        transactional_id=f"alice-{topic}",
        **kafka_python_options(security),
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"0").get(WAIT_SECONDS)
    time.sleep(1.5 * SESSION_MS / 1_000)
    producer.send(topic, b"1").get(WAIT_SECONDS)
    producer.commit_transaction()
    producer.close()


TRANSACTIONS: Final[dict[str, Callable[[str, ClientSecurity, str], None]]] = {
    "confluent-kafka": confluent_transaction,
    "aiokafka": aiokafka_transaction,
    "kafka-python": kafka_python_transaction,
}


async def test_a_session_ends_in_mid_transaction(secured: Secured) -> None:
    """Each client authenticates again, or connects again, and its transaction is committed."""
    security = secured.alice("SASL_SSL")
    address = secured.address(security)
    topics = {client: f"orders-transaction-{client}" for client in TRANSACTIONS}
    for topic in topics.values():
        await new_topic(secured, topic)
    plays = (
        asyncio.to_thread(play, address, security, topics[client])
        for client, play in TRANSACTIONS.items()
    )
    await asyncio.gather(*plays)
    for topic in topics.values():
        assert await asyncio.to_thread(committed, address, security, topic) == [b"0", b"1"]


def committed(address: str, security: ClientSecurity, topic: str) -> list[bytes | None]:
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
    with suppress(confluent_kafka.KafkaException):
        consumer.close()
    return found
