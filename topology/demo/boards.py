"""Moves the consumer group `boards` to the aggregate by exact offset translation.

The group reads a part of `flights` in one datacenter and commits. The aggregator translates its
offsets, which are committed for the group of the same name on the aggregate. A consumer there must
get in every partition exactly the flight that is next in the datacenter.
"""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from local_cluster.client.auth.security import SecurityError
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import HttpFailure, request
from topology.demo.clients import ADDRESS, Connection

GROUP: Final = "boards"
SHARE: Final = 10
"""The group reads one record in this many of each partition."""
READ_TIMEOUT_S: Final = 60.0
TRANSLATE_TIMEOUT_S: Final = 60.0
TRANSLATE_POLL_S: Final = 0.2
HTTP_TIMEOUT_S: Final = 5.0
CALL_TIMEOUT_S: Final = 10.0
_POLL_RECORDS: Final = 2_000
_CONSUMER: Final[Mapping[str, Any]] = {
    "group.id": GROUP,
    "client.id": "heliograph-boards",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
}


class BoardsError(Exception):
    """The group could not read or commit, or its offsets could not be translated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A record, as a consumer gets it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def is_copy_of(self, other: Flight) -> bool:
        """Return whether everything except the offset is equal."""
        return (self.timestamp_ms, self.key, self.value, self.headers) == (
            other.timestamp_ms,
            other.key,
            other.value,
            other.headers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A partition of the group, in the datacenter and on the aggregate."""

    partition: int
    committed_offset: int
    translated_offset: int
    next_there: Flight | None
    """The next flight in the datacenter; None if the group has read all flights."""
    next_here: Flight | None
    """The next flight on the aggregate."""

    @property
    def is_exact(self) -> bool:
        if self.next_there is None or self.next_here is None:
            return self.next_there is self.next_here
        return self.next_there.is_copy_of(self.next_here)

    def as_json(self) -> dict[str, Any]:
        document = asdict(self)
        for name in ("next_there", "next_here"):
            flight: Flight | None = getattr(self, name)
            document[name] = None if flight is None else json.loads(flight.value or b"null")
        return {**document, "is_exact": self.is_exact}


def read_a_part(connection: Connection, topic: str) -> dict[int, int]:
    """Let the group read a share of every partition and commit; return offset by partition.

    Raises BoardsError.
    """
    consumer = Consumer({**_CONSUMER, **connection})
    try:
        metadata = consumer.list_topics(topic, timeout=CALL_TIMEOUT_S).topics[topic]
        wanted = {}
        for partition in metadata.partitions:
            at = TopicPartition(topic, partition)
            first, end = consumer.get_watermark_offsets(at, timeout=CALL_TIMEOUT_S)
            wanted[partition] = first + -(-(end - first) // SHARE)
        positions: dict[int, int] = {}
        consumer.subscribe([topic])
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while any(positions.get(p, 0) < end for p, end in wanted.items()):
            if time.monotonic() > deadline_s:
                raise BoardsError(f"group {GROUP} has read only up to {positions}, not {wanted}")
            for message in consumer.consume(_POLL_RECORDS, timeout=0.5):
                # A fetch may return more records than wanted; the group commits only its share.
                partition, offset = _place(message)
                if offset < wanted[partition]:
                    positions[partition] = offset + 1
                else:
                    consumer.pause([TopicPartition(topic, partition)])
        offsets = [TopicPartition(topic, p, offset) for p, offset in positions.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        return positions
    except KafkaException as error:
        raise BoardsError(f"group {GROUP} at {connection[ADDRESS]}: {error}") from error
    finally:
        consumer.close()


def translate_position(
    api: str, credentials: HttpCredentials, link: str, topic: str, position: Mapping[int, int]
) -> tuple[str, dict[int, int]]:
    """Translate offsets; return the aggregate's topic, and offset by partition there.

    Waits while a translation is pending. Raises BoardsError.
    """
    target_topic = ""
    translated: dict[int, int] = {}
    deadline_s = time.monotonic() + TRANSLATE_TIMEOUT_S
    for partition, offset in sorted(position.items()):
        query = urllib.parse.urlencode(
            {"link": link, "topic": topic, "partition": partition, "offset": offset}
        )
        while partition not in translated:
            answer = _get(credentials, f"{api}/api/v1/translate?{query}")
            if answer.get("state") == "exact":
                target_topic = answer["target_topic"]
                translated[partition] = answer["target_offset"]
            elif time.monotonic() > deadline_s:
                raise BoardsError(f"{topic}-{partition} offset {offset} over {link}: {answer}")
            else:
                time.sleep(TRANSLATE_POLL_S)
    return target_topic, translated


def move_group(connection: Connection, topic: str, position: Mapping[int, int]) -> None:
    """Commit offsets for the group of the same name in another cluster. Raises BoardsError."""
    consumer = Consumer({**_CONSUMER, **connection})
    try:
        offsets = [TopicPartition(topic, p, offset) for p, offset in position.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        raise BoardsError(f"group {GROUP} at {connection[ADDRESS]}: {error}") from error
    finally:
        consumer.close()


def next_flights(connection: Connection, topic: str, partitions: list[int]) -> dict[int, Flight]:
    """Return the group's next record of every partition that has one. Raises BoardsError."""
    consumer = Consumer({**_CONSUMER, **connection})
    try:
        committed = consumer.committed(
            [TopicPartition(topic, partition) for partition in partitions], timeout=CALL_TIMEOUT_S
        )
        left = {}
        for at in committed:
            end = consumer.get_watermark_offsets(at, timeout=CALL_TIMEOUT_S)[1]
            if at.offset < end:
                left[at.partition] = at
        consumer.assign(list(left.values()))
        found: dict[int, Flight] = {}
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while left.keys() - found.keys():
            if time.monotonic() > deadline_s:
                missing = sorted(left.keys() - found.keys())
                where = f"{topic} partitions {missing} at {connection[ADDRESS]}"
                raise BoardsError(f"no next flight in {where}")
            for message in consumer.consume(_POLL_RECORDS, timeout=0.5):
                partition, offset = _place(message)
                found.setdefault(partition, _flight(message, offset))
        return found
    except KafkaException as error:
        raise BoardsError(f"group {GROUP} at {connection[ADDRESS]}: {error}") from error
    finally:
        consumer.close()


def check_boards(
    *,
    source: Connection,
    aggregate: Connection,
    api: str,
    credentials: HttpCredentials,
    link: str,
    topic: str,
) -> list[Board]:
    """Read, translate, move and compare; return one board per partition. Raises BoardsError."""
    position = read_a_part(source, topic)
    target_topic, translated = translate_position(api, credentials, link, topic, position)
    move_group(aggregate, target_topic, translated)
    partitions = sorted(position)
    there = next_flights(source, topic, partitions)
    here = next_flights(aggregate, target_topic, partitions)
    return [
        Board(
            partition=partition,
            committed_offset=position[partition],
            translated_offset=translated[partition],
            next_there=there.get(partition),
            next_here=here.get(partition),
        )
        for partition in partitions
    ]


def _place(message: Message) -> tuple[int, int]:
    """Return partition and offset. Raises KafkaException if the message is an error."""
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None, "a record has a partition and an offset"
    return partition, offset


def _flight(message: Message, offset: int) -> Flight:
    headers: Any = message.headers()
    return Flight(
        offset=offset,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(headers or ()),
    )


def _get(credentials: HttpCredentials, url: str) -> dict[str, Any]:
    """Return a JSON document. An error response becomes a document without `state`."""
    try:
        response = request(credentials, "GET", url, timeout_s=HTTP_TIMEOUT_S)
        if response.status != 200:
            return {"status": response.status, "problem": response.body.decode(errors="replace")}
        document = json.loads(response.body)
    except (OSError, HttpFailure, SecurityError, ValueError) as error:
        return {"problem": str(error)}
    return document if isinstance(document, dict) else {"problem": "no JSON object"}
