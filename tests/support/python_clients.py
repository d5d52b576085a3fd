"""Records through outside Python clients, in and out, with their own security settings."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.helpers import create_ssl_context

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity

WAIT_SECONDS_MAX = 60


def _kafka_options(security: ClientSecurity) -> dict[str, Any]:
    """The options that aiokafka and kafka-python share."""
    options: dict[str, Any] = {"security_protocol": security.protocol}
    if security.uses_sasl:
        assert security.password is not None
        options |= {
            "sasl_mechanism": security.mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": read_secret(security.password),
        }
    return options


def aiokafka_options(bootstrap: str, security: ClientSecurity) -> dict[str, Any]:
    """The options of aiokafka."""
    options = {"bootstrap_servers": bootstrap, **_kafka_options(security)}
    if security.uses_tls:
        options["ssl_context"] = create_ssl_context(
            cafile=security.ca_file, certfile=security.certificate_file, keyfile=security.key_file
        )
    return options


async def through_aiokafka(
    bootstrap: str, security: ClientSecurity, topic: str, values: list[bytes]
) -> list[bytes]:
    """Produce the values, and return all that the topic's only partition holds."""
    options = aiokafka_options(bootstrap, security)
    async with aiokafka.AIOKafkaProducer(acks="all", max_request_size=2**24, **options) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)
    async with aiokafka.AIOKafkaConsumer(
        topic, auto_offset_reset="earliest", **options
    ) as consumer:
        partition = aiokafka.TopicPartition(topic, 0)
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[bytes] = []
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(found) < end:
                found.append((await consumer.getone()).value)
        return found


def librdkafka_options(bootstrap: str, security: ClientSecurity) -> dict[str, Any]:
    """The options of confluent-kafka."""
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": security.protocol,
    }
    if security.uses_tls:
        options["ssl.ca.location"] = security.ca_file
        if security.certificate_file is not None:
            options["ssl.certificate.location"] = security.certificate_file
            options["ssl.key.location"] = security.key_file or security.certificate_file
    if security.uses_sasl:
        assert security.password is not None
        options |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": read_secret(security.password),
        }
    return options


def through_librdkafka(
    bootstrap: str, security: ClientSecurity, topic: str, values: list[bytes]
) -> list[bytes]:
    """As `through_aiokafka`. Blocks."""
    options = librdkafka_options(bootstrap, security)
    producer = confluent_kafka.Producer({**options, "message.max.bytes": 2**24})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    consumer = confluent_kafka.Consumer(
        {**options, "group.id": "librdkafka", "auto.offset.reset": "earliest"}
    )
    partition = confluent_kafka.TopicPartition(topic, 0, 0)
    consumer.assign([partition])
    _, end = consumer.get_watermark_offsets(partition, timeout=WAIT_SECONDS_MAX)
    found: list[bytes] = []
    while len(found) < end:
        message = consumer.poll(WAIT_SECONDS_MAX)
        assert message is not None, f"only {len(found)} of {end} records"
        assert message.error() is None, message.error()
        content = message.value()
        assert content is not None
        found.append(content)
    consumer.close()
    return found


def through_kafka_python(
    bootstrap: str, security: ClientSecurity, topic: str, values: list[bytes]
) -> list[bytes]:
    """As `through_aiokafka`. Blocks."""
    options = _kafka_options(security)
    if security.uses_tls:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.certificate_file is not None:
            context.load_cert_chain(security.certificate_file, security.key_file)
        options["ssl_context"] = context
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", max_request_size=2**24, **options
    )
    for value in values:
        producer.send(topic, value).get(WAIT_SECONDS_MAX)
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_SECONDS_MAX * 1000,
        **options,
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    end = consumer.end_offsets([partition])[partition]
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == end:
            break
    consumer.close()
    return found
