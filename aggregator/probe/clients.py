"""aiokafka's clients, as the probe opens and closes them."""

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
from local_cluster.client.auth.security import ClientSecurity

CLIENT_ID: Final = "heliograph-probe"
REQUEST_TIMEOUT_MS: Final = 10_000
RETRY_BACKOFF_MS: Final = 500
"""aiokafka tries again at this pace, without an end, while a cluster is away."""
FETCH_WAIT_MS_MAX: Final = 1_000
OPEN_SECONDS_MAX: Final = 20.0
"""How long a client may take to connect, or a cluster to create the probe topic."""
CLOSE_SECONDS_MAX: Final = 1.0
CANCELS_MAX: Final = 3
PARTITIONS: Final = 1
DEFAULT_REPLICATION_FACTOR: Final = -1

logger = logging.getLogger(__name__)


class StrayCancelError(Exception):
    """aiokafka has cancelled the task that called it, though nobody wanted to."""


def client_options(bootstrap: str, security: ClientSecurity) -> dict[str, Any]:
    """What each of aiokafka's clients takes. Raises SecurityError."""
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap.split(","),
        "client_id": CLIENT_ID,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "security_protocol": security.protocol,
        "ssl_context": security.tls_context(),
    }
    if security.uses_sasl:
        assert security.password is not None, "`ClientSecurity` checks that"
        options["sasl_mechanism"] = security.mechanism
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = security.password.read()
    return options


async def create_probe_topic(options: dict[str, Any], topic: str, settings: ProbeSettings) -> None:
    """Create the topic if it is absent. Raises aiokafka's KafkaError, TimeoutError.

    One that exists is left as it is.
    """
    new_topic = NewTopic(
        topic,
        PARTITIONS,
        DEFAULT_REPLICATION_FACTOR,
        {},  # aiokafka asks for this beside a replication factor of -1
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
            # Who may write and not create is refused, whether the topic exists or not.
            is_there = error is TopicAlreadyExistsError or (
                error is TopicAuthorizationFailedError and topic in await admin.list_topics()
            )
    finally:
        await admin.close()
    if code and not is_there:
        why = (message and message[0]) or error.__name__
        raise error(f"topic {topic} was not created: {why}")


async def open_producer(options: dict[str, Any]) -> AIOKafkaProducer:
    """An idempotent producer, connected: what it sends again is not doubled.

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

    aiokafka asks for metadata again and again, without a pause, while it has a record for such a
    partition.
    """
    leader = producer.client.cluster.leader_for_partition(TopicPartition(topic, partition))
    if leader is None or leader < 0:
        raise LeaderNotAvailableError(f"partition {partition} of {topic} has no leader")


async def abandon_producer(producer: AIOKafkaProducer) -> None:
    """Close a producer, whatever it waits for.

    aiokafka's own `stop` waits until everything is delivered, and an idempotent producer tries for
    ever. So what `stop` does apart from that is done here, with attributes that are not public.
    """
    producer._closed = True
    sender = producer._sender
    if sender.sender_task is not None:
        # It is for transactions, and raises where there are none.
        sender.sender_task.remove_done_callback(sender._fail_all)
        await _end(sender.sender_task)
    await _end(asyncio.create_task(producer.client.close()), CLOSE_SECONDS_MAX)


async def open_consumer(options: dict[str, Any]) -> AIOKafkaConsumer:
    """A consumer of no group and no topic, connected; it starts where a log begins.

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
    """Close it, but do not wait for a cluster that is away."""
    await _end(asyncio.create_task(consumer.stop()), CLOSE_SECONDS_MAX)
    # `stop` does not come so far where a fetch was waiting to be tried again.
    await _end(asyncio.create_task(consumer._client.close()), CLOSE_SECONDS_MAX)


async def in_own_task(work: Coroutine[Any, Any, None]) -> None:
    """Await some work with aiokafka's clients. Raises what it raises.

    aiokafka awaits tasks that it has cancelled itself, and so cancels its caller now and then. That
    would end a task that nobody wanted to end. Here it is StrayCancelError.
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
    """See a task of aiokafka's end, with its error if it has one; cancelled after a grace."""
    await asyncio.wait([task], timeout=grace_seconds)
    for _ in range(CANCELS_MAX):
        if task.done():
            break
        # The first one lets a request in flight end, the second one ends it.
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_SECONDS_MAX)
    if task.done() and not task.cancelled() and task.exception() is not None:
        logger.debug("a client was not closed cleanly: %r", task.exception())
