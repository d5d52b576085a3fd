"""Outside clients on secured listeners: who gets in, who does not, and what happens in between.

The broker is that of secured_broker.py. The table of clients and cases is in README.md. Clients in
Go and JavaScript: test_secured_programs.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest
import pytest_asyncio
from aiokafka.helpers import create_ssl_context

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity
from tests.compat.secured_broker import (
    SESSION_MS,
    WAIT_SECONDS,
    OpenReader,
    Secured,
    committed,
    new_topic,
    read_while_revoked,
    running_secured,
)
from tests.support.python_clients import librdkafka_options

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

REFUSED_SECONDS: Final = 4.0
"""How long a client tries that retries for ever."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Secured]:
    async with running_secured(zookeeper, tmp_path_factory.mktemp("secured")) as started:
        yield started


# -- who does not get in -----------------------------------------------------------------------


def confluent_refused(address: str, security: ClientSecurity) -> str:
    errors: list[confluent_kafka.KafkaError] = []
    options = librdkafka_options(address, security)
    client = confluent_kafka.Producer({**options, "log_level": 0, "error_cb": errors.append})
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=REFUSED_SECONDS)
    ends = time.monotonic() + WAIT_SECONDS
    while not errors:
        assert time.monotonic() < ends, "it never says why"
        client.poll(0.1)
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
    await secured.refusals_are_logged(since, flaw, len(REFUSED))


# -- what happens in between -------------------------------------------------------------------


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


class AiokafkaReader:
    """By aiokafka; its loop runs during a call only."""

    def __init__(self, address: str, security: ClientSecurity, topic: str) -> None:
        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._start(address, security, topic))

    @staticmethod
    async def _start(
        address: str, security: ClientSecurity, topic: str
    ) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="earliest", **aiokafka_options(security)
        )
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        return consumer

    def next(self) -> bytes | None:
        return self._runner.run(self._next())

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                value: bytes = (await self._consumer.getone()).value
                return value
        except aiokafka.errors.TopicAuthorizationFailedError:
            return None

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


READERS: Final[dict[str, OpenReader]] = {
    "confluent-kafka": ConfluentReader,
    "kafka-python": KafkaPythonReader,
    "aiokafka": AiokafkaReader,
}


@pytest.mark.parametrize("client", READERS)
async def test_a_right_is_revoked_and_granted_in_mid_stream(secured: Secured, client: str) -> None:
    security = secured.alice("SASL_SSL")
    await read_while_revoked(
        secured.broker.bootstrap,
        secured.address(security),
        security,
        f"orders-revoked-{client}",
        READERS[client],
    )


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
