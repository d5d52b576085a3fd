"""Producers and consumers of librdkafka, and its calls that may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.oauth.outside_clients import librdkafka_callback
from local_cluster.client.auth.security import SecurityError
from spark_global.addresses import CLIENT_ID, ClusterAddress
from spark_global.serving.positions import BrokenPositionError, LanePosition

TRANSACTION_MS_MAX: Final = 120_000
"""A coordinator aborts a transaction that is older. Readers wait for it so long."""
CALL_SECONDS: Final = 30.0
CALLS_SECONDS_MAX: Final = 120.0
"""Seconds in which a call is repeated whose outcome is not known yet."""
SILENCE_SECONDS_MAX: Final = 60.0
"""Seconds without an answer after which a position cannot be read."""
LOOK_BACK: Final = 100
"""Offsets before the end where a position is looked for first: a record and a marker per batch."""

MESSAGE_BYTES_MAX: Final = 1_000_000_000
"""The most that librdkafka allows. It counts before compression; the topic has its own limit."""


def librdkafka_config(address: ClusterAddress) -> dict[str, Any]:
    """Return the connection's configs. Raises SecurityError."""
    security = address.security
    found: dict[str, Any] = {
        "bootstrap.servers": address.bootstrap,
        "client.id": CLIENT_ID,
        "security.protocol": security.protocol,
        "log_level": 3,
    }
    if security.oauth is not None:
        found |= {
            "sasl.mechanism": security.mechanism,
            "oauth_cb": librdkafka_callback(security.oauth),
        }
    elif security.uses_tickets:
        raise SecurityError("librdkafka cannot log in by GSSAPI here; use another mechanism for it")
    elif security.uses_sasl:
        assert security.password is not None, "`ClientSecurity` checks it"
        found |= {
            "sasl.mechanism": security.mechanism or "",
            "sasl.username": security.username or "",
            "sasl.password": read_secret(security.password),
        }
    files = {
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file or security.certificate_file,
    }
    found |= {name: path for name, path in files.items() if path is not None}
    if security.key_password is not None:
        found["ssl.key.password"] = read_secret(security.key_password)
    if security.uses_tls and not security.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def open_producer(address: ClusterAddress, transactional_id: str) -> Producer:
    """Return a producer that has fenced every earlier one with its transactional id.

    What these have begun is aborted, or committed if that had begun, before this returns. Raises
    KafkaException.
    """
    producer = Producer(
        {
            **librdkafka_config(address),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS_MAX,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.max.bytes": MESSAGE_BYTES_MAX,
        }
    )
    repeated(lambda: producer.init_transactions(CALL_SECONDS))
    return producer


def repeated(call: Callable[[], None]) -> None:
    """Repeat a call of the transactional API while librdkafka says that it may be."""
    Retrying(
        stop=stop_after_delay(CALLS_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=2.0),
        retry=retry_if_exception(_is_retriable),
        reraise=True,
    )(call)


def last_position(address: ClusterAddress, topic: str, lane: int) -> LanePosition | None:
    """Return the newest committed position of a lane. Raises KafkaException, BrokenPositionError.

    The lane has no open transaction, because its producer has just begun.
    """
    consumer = Consumer(
        {
            **librdkafka_config(address),
            "group.id": CLIENT_ID,  # librdkafka demands one; nothing joins or commits
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        at = TopicPartition(topic, lane)
        low, high = consumer.get_watermark_offsets(at, timeout=CALL_SECONDS)
        back = LOOK_BACK
        while True:
            start = max(low, high - back)
            value = _last_value(consumer, TopicPartition(topic, lane, start), high)
            if value is not None:
                return LanePosition.decode(value)
            if start == low:
                return None
            back *= 10
    except BrokenPositionError as error:
        raise BrokenPositionError(f"{topic}-{lane}: {error}") from error
    finally:
        consumer.close()


def _last_value(consumer: Consumer, start: TopicPartition, end: int) -> bytes | None:
    """Return the value of the last committed record from an offset on; None without one.

    `end` is the end of the log. A leader that was just elected may not know it yet: its responses
    end before. So the log is read until a response ends there.
    """
    assert start.offset != OFFSET_INVALID
    consumer.assign([start])
    last: bytes | None = None
    while True:
        message = consumer.poll(SILENCE_SECONDS_MAX)
        if message is None:
            raise KafkaException(
                KafkaError(
                    KafkaError._TIMED_OUT,
                    f"{start.topic}-{start.partition}: no answer as far as offset {end}",
                )
            )
        error = message.error()
        if error is None:
            last = message.value()
        elif error.code() == KafkaError._PARTITION_EOF:
            if (message.offset() or 0) >= end:
                return last
        elif not error.retriable():
            raise KafkaException(error)


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and bool(error.args[0].retriable())
