"""Opens and closes aiokafka's clients for the probe."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    LeaderNotAvailableError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from aggregator.probe.settings import ProbeSettings
from local_cluster.client.auth.credentials import read_secret, tls_context
from local_cluster.client.auth.oauth.outside_clients import aiokafka_provider
from local_cluster.client.auth.security import ClientSecurity, SecurityError

CLIENT_ID: Final = "heliograph-probe"
REQUEST_TIMEOUT_MS: Final = 10_000
RETRY_BACKOFF_MS: Final = 500
"""aiokafka retries at this interval, without an end, while a cluster is down."""
FETCH_WAIT_MS_MAX: Final = 1_000
OPEN_SECONDS_MAX: Final = 20.0
"""Seconds to connect a client, or to create the probe topic."""
CLOSE_SECONDS_MAX: Final = 1.0
CANCELS_MAX: Final = 3
PARTITIONS: Final = 1
DEFAULT_REPLICATION_FACTOR: Final = -1

log = logging.getLogger(__name__)


class StrayCancelError(Exception):
    """aiokafka has cancelled its caller's task by mistake."""


def client_options(bootstrap: str, security: ClientSecurity) -> dict[str, Any]:
    """Return the options of all of aiokafka's clients. Raises SecurityError."""
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap.split(","),
        "client_id": CLIENT_ID,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "security_protocol": security.protocol,
        "ssl_context": tls_context(security),
    }
    if security.oauth is not None:
        options["sasl_mechanism"] = security.mechanism
        options["sasl_oauth_token_provider"] = aiokafka_provider(security.oauth)
    elif security.uses_tickets:
        raise SecurityError("aiokafka cannot log in by GSSAPI here; use another mechanism for it")
    elif security.uses_sasl:
        assert security.password is not None, "`ClientSecurity` checks it"
        options["sasl_mechanism"] = security.mechanism
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = read_secret(security.password)
    return options


async def create_probe_topic(options: dict[str, Any], topic: str, settings: ProbeSettings) -> None:
    """Create the topic if it is missing; an existing topic stays unchanged.

    Raises aiokafka's KafkaError, TimeoutError.
    """
    new_topic = NewTopic(
        topic,
        PARTITIONS,
        DEFAULT_REPLICATION_FACTOR,
        {},  # aiokafka requires it with a replication factor of -1
        {
            "cleanup.policy": "delete",
            "retention.ms": str(settings.window_ms),
            "segment.bytes": str(settings.segment_bytes),
            "message.timestamp.type": "CreateTime",
        },
    )
    admin = AIOKafkaAdminClient(**options)
    try:
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            await admin.start()
            ((_, code, *message),) = (await admin.create_topics([new_topic])).topic_errors
            error = for_code(code)
            # A user without the right to create is refused even if the topic exists.
            is_there = error is TopicAlreadyExistsError or (
                error is TopicAuthorizationFailedError and topic in await admin.list_topics()
            )
    finally:
        await admin.close()
    if code and not is_there:
        why = (message and message[0]) or error.__name__
        raise error(f"topic {topic} was not created: {why}")


async def open_producer(options: dict[str, Any]) -> AIOKafkaProducer:
    """Return a connected idempotent producer, whose retries create no duplicates.

    Raises aiokafka's KafkaError, TimeoutError.
    """
    producer = AIOKafkaProducer(**options, enable_idempotence=True, acks="all")
    try:
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            await producer.start()
    except BaseException:
        await abandon_producer(producer)
        raise
    return producer


def check_leader(producer: AIOKafkaProducer, topic: str, partition: int) -> None:
    """Raise LeaderNotAvailableError where the producer knows of no leader.

    With a record for such a partition, aiokafka requests metadata in a loop without a pause.
    """
    leader = producer.client.cluster.leader_for_partition(TopicPartition(topic, partition))
    if leader is None or leader < 0:
        raise LeaderNotAvailableError(f"partition {partition} of {topic} has no leader")


async def abandon_producer(producer: AIOKafkaProducer) -> None:
    """Close a producer without waiting for its records.

    aiokafka's `stop` waits until every record is delivered, and an idempotent producer retries for
    ever. So this function does the rest of `stop`, with attributes that are not public.
    """
    producer._closed = True
    sender = producer._sender
    if sender.sender_task is not None:
        # The callback is for transactions, and raises without one.
        sender.sender_task.remove_done_callback(sender._fail_all)
        await _end(sender.sender_task)
    await _end(asyncio.create_task(producer.client.close()), CLOSE_SECONDS_MAX)


async def open_consumer(options: dict[str, Any]) -> AIOKafkaConsumer:
    """Return a connected consumer without group and topic, which reads from the log start.

    Raises aiokafka's KafkaError, TimeoutError.
    """
    consumer = AIOKafkaConsumer(
        **options,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FETCH_WAIT_MS_MAX,
        consumer_timeout_ms=FETCH_WAIT_MS_MAX,
    )
    try:
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            await consumer.start()
    except BaseException:
        await close_consumer(consumer)
        raise
    return consumer


async def close_consumer(consumer: AIOKafkaConsumer) -> None:
    """Close a consumer without waiting for a cluster that is down."""
    await _end(asyncio.create_task(consumer.stop()), CLOSE_SECONDS_MAX)
    # `stop` does not close the client while a fetch waits for its retry.
    await _end(asyncio.create_task(consumer._client.close()), CLOSE_SECONDS_MAX)


async def in_own_task(work: Coroutine[Any, Any, None]) -> None:
    """Await work with aiokafka's clients, and raise its error.

    aiokafka awaits tasks that it has cancelled itself, which sometimes cancels its caller. Here
    that becomes StrayCancelError instead of the end of the caller's task.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    if task.cancelled():
        raise StrayCancelError("aiokafka has cancelled its caller")
    task.result()


async def _end(task: asyncio.Task[None], grace_seconds: float = 0.0) -> None:
    """Wait for a task of aiokafka, and cancel it after a grace period; its error is logged."""
    await asyncio.wait([task], timeout=grace_seconds)
    for _ in range(CANCELS_MAX):
        if task.done():
            break
        # After the first cancel a request in flight may finish; the second cancel stops it.
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_SECONDS_MAX)
    if task.done() and not task.cancelled() and task.exception() is not None:
        log.debug("a client was not closed cleanly: %r", task.exception())
