"""Fetch requests and responses, and fetches that wait while a client quota throttles them.

Above a client quota Apache Kafka returns a Fetch response without error and without any partition.
It has only a throttle time (KIP-13, KIP-219; `FetchContext.getThrottledResponse`). Without a
session every partition of the request is in the response, so a missing one was throttled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Final

from local_cluster.client.connection import Connection
from local_cluster.client.fetch_session import FetchSession, SessionRequest
from local_cluster.client.model import (
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import CONSUMER_REPLICA_ID
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import (
    FINAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    ForgottenPartition,
    decode_response,
)

NO_LOG_START: Final = -1
"""Only followers name their log start."""
THROTTLED_ATTEMPTS_MAX: Final = 20
THROTTLE_WAIT_MS_MAX: Final = 5_000
"""Before the next attempt. If the broker demands more, its next response comes later by as much: it
does not read from the connection before."""
THROTTLE_WAIT_MS_MIN: Final = 100
"""Also if the broker names no time."""


def fetch_request(
    positions: Mapping[TopicPartition, FetchPosition], limits: FetchLimits
) -> FetchRequest:
    """Return a request without a session."""
    return _request(NO_SESSION, FINAL_EPOCH, _partitions(positions, limits), (), limits)


def session_request(request: SessionRequest, limits: FetchLimits) -> FetchRequest:
    """Return a request in a session."""
    forgotten = [
        ForgottenPartition(at.topic, at.partition, topic_id)
        for at, topic_id in sorted(request.forgotten)
    ]
    partitions = _partitions(request.named, limits)
    return _request(request.session_id, request.session_epoch, partitions, forgotten, limits)


def choose_fetch_version(connection: Connection, *, by_id: bool) -> int:
    """Return the version of a request that names topics by name, or by id.

    Raises KafkaError: unsupported_version; fetch_session_topic_id_error if the broker knows no
    ids. It was replaced by an older one, and a session cannot change from ids to names.
    """
    if not by_id:
        return connection.choose_version(ApiKey.FETCH)
    if not connection.has_version(ApiKey.FETCH, TOPIC_IDS_SINCE):
        raise KafkaError(ErrorCode.fetch_session_topic_id_error, "Fetch")
    return TOPIC_IDS_SINCE


def decode_fetch(
    version: int, frame: memoryview, position: int, by_id: FetchSession | None
) -> SessionAnswer:
    """Decode a response. `by_id` is the session that knows the names of the topic ids, if any.

    Raises KafkaError for an error of the whole request, PeerError for a broken response.
    """
    error, session_id, partitions = decode_response(version, frame, position)
    if error:
        raise KafkaError(error, "Fetch")
    fetched = {}
    for entry in partitions:
        name = entry.topic if by_id is None else by_id.topic_name(entry.topic_id)
        if name is not None:
            fetched[TopicPartition(name, entry.partition)] = FetchedPartition(
                ErrorCode(entry.error_code),
                entry.high_watermark,
                entry.last_stable_offset,
                entry.log_start_offset,
                tuple(entry.aborted_transactions or ()),
                entry.records if isinstance(entry.records, memoryview) else memoryview(b""),
                entry.diverging_epoch,
            )
    throttle_ms = int.from_bytes(frame[position : position + 4], "big", signed=True)
    return SessionAnswer(session_id, throttle_ms, fetched, by_id is not None)


async def fetch_all(
    requested: Set[TopicPartition], send: Callable[[], Awaitable[SessionAnswer]]
) -> dict[TopicPartition, FetchedPartition]:
    """Repeat a request until its response has every partition. `send` sends it once.

    Raises KafkaError as `send` does, and request_timed_out, which is retriable, if some
    partitions were throttled in every attempt.
    """
    for attempt in range(THROTTLED_ATTEMPTS_MAX):
        response = await send()
        missing = requested - response.partitions.keys()
        if not missing:
            return response.partitions
        if attempt + 1 < THROTTLED_ATTEMPTS_MAX:
            wait_ms = max(THROTTLE_WAIT_MS_MIN, min(response.throttle_ms, THROTTLE_WAIT_MS_MAX))
            await asyncio.sleep(wait_ms / 1000)
    raise KafkaError(
        ErrorCode.request_timed_out,
        f"{min(missing)}: the broker held its answer to a fetch back {THROTTLED_ATTEMPTS_MAX} "
        "times, as above a client quota",
    )


def _request(
    session_id: int,
    session_epoch: int,
    partitions: list[FetchPartition],
    forgotten: list[ForgottenPartition] | tuple[()],
    limits: FetchLimits,
) -> FetchRequest:
    return FetchRequest(
        CONSUMER_REPLICA_ID,
        limits.wait_ms_max,
        limits.bytes_min,
        limits.bytes_max,
        limits.isolation_level,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        "",
    )


def _partitions(
    positions: Mapping[TopicPartition, FetchPosition], limits: FetchLimits
) -> list[FetchPartition]:
    """Return the partitions as a request has them: those of a topic side by side."""
    return [
        FetchPartition(
            partition.topic,
            partition.partition,
            position.leader_epoch,
            position.offset,
            position.last_fetched_epoch,
            NO_LOG_START,
            limits.partition_bytes_max,
            position.topic_id,
        )
        for partition, position in sorted(positions.items())
    ]
