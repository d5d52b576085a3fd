"""The time of the first record at a leader that a group has not read, and the request for it.

Bodies of the private OFFSET_TIMES are a version byte and JSON. The request is a list of
[topic, partition, offset]. The response is a list in the same order:

- a number: milliseconds, or -1 for a record without a known time
- "end": there is nothing to read
- null: this broker does not lead the partition, or cannot read it
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from local_cluster.foreign_json import parse_json
from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import KafkaError

VERSION: Final = 1
AT_END: Final = "end"

Time = int | str | None
"""Milliseconds, `AT_END`, or None."""


class Place(NamedTuple):
    """A committed offset."""

    topic: str
    partition: int
    offset: int


def unread_time(replica: Partition | None, offset: int) -> Time:
    """Return the time at a committed offset; None if this broker does not lead, or cannot read.

    Records that were deleted unread are skipped. Raises ColdReadError inside of `warm_only`.
    """
    if replica is None or not replica.is_leader:
        return None
    try:
        time_ms = replica.log.reader.unread_time(offset, replica.high_watermark)
    except KafkaError:
        return None
    return AT_END if time_ms is None else time_ms


def encode_places(places: Sequence[Place]) -> bytes:
    """Encode a request."""
    return _encode(places)


def decode_places(body: bytes) -> list[Place]:
    """Decode a request. Raises ValueError."""
    return [Place(str(topic), int(index), int(offset)) for topic, index, offset in _decode(body)]


def encode_times(times: Sequence[Time]) -> bytes:
    """Encode a response."""
    return _encode(times)


def decode_times(body: bytes) -> list[Time]:
    """Decode a response. Raises ValueError."""
    times = _decode(body)
    if not all(each is None or each == AT_END or type(each) is int for each in times):
        raise ValueError("not a response of OFFSET_TIMES")
    return times


def _encode(body: Any) -> bytes:
    return bytes((VERSION,)) + json.dumps(body, separators=(",", ":")).encode()


def _decode(body: bytes) -> list[Any]:
    if body[:1] != bytes((VERSION,)):
        raise ValueError("an unknown version of OFFSET_TIMES")
    found = parse_json(body[1:])
    if not isinstance(found, list):
        raise ValueError("not a body of OFFSET_TIMES")
    return found
