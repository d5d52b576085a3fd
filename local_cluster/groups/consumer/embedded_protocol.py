"""Subscriptions and assignments of classic consumers, the bytes inside JoinGroup and SyncGroup.

Formats: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json, v0 to v3. A newer
version is read as v3, as in Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.groups.record_reader import RecordReader
from local_cluster.wire.primitives import write_string

VERSION_MAX: Final = 3
NO_GENERATION: Final = -1
_NULL_BYTES: Final = b"\xff\xff\xff\xff"

Partitions = Mapping[str, tuple[int, ...]]
"""Partitions by topic name."""


class Subscription(NamedTuple):
    """What a classic consumer subscribes to and holds."""

    version: int
    topics: tuple[str, ...]
    owned: Partitions
    """Empty before v1, and for consumers of the eager protocol."""
    rack_id: str | None = None
    generation: int = NO_GENERATION
    """In which it got what it holds; NO_GENERATION before v2, and for who is no member any more."""


class EmbeddedAssignment(NamedTuple):
    """What the leader of a classic group gave to a member."""

    partitions: Partitions
    has_user_data: bool
    """Whether a custom assignor added data, which only its members understand."""


def read_subscription(payload: bytes) -> Subscription:
    """Raises UnreadableRecordError."""
    reader = RecordReader(payload, flexible=False)
    version = _version(reader)
    topics = tuple(reader.string() for _ in range(reader.array_length(2)))
    reader.nullable_octets()
    owned = _read_partitions(reader) if version >= 1 else {}
    generation = reader.int32() if version >= 2 else NO_GENERATION
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, owned, rack_id or None, generation)


def read_assignment(payload: bytes) -> EmbeddedAssignment:
    """Read an assignment; no bytes stand for no partitions. Raises UnreadableRecordError."""
    if not payload:
        return EmbeddedAssignment({}, has_user_data=False)
    reader = RecordReader(payload, flexible=False)
    _version(reader)
    partitions = _read_partitions(reader)
    return EmbeddedAssignment(partitions, has_user_data=bool(reader.nullable_octets()))


def encode_assignment(version: int, partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Encode an assignment without user data, in the version of the member's subscription."""
    out = bytearray(struct.pack(">hi", min(version, VERSION_MAX), len(partitions)))
    for topic in sorted(partitions):
        indexes = sorted(partitions[topic])
        out += write_string(topic, flexible=False)
        out += struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return bytes(out + _NULL_BYTES)


def _version(reader: RecordReader) -> int:
    version = reader.int16()
    if version < 0:
        raise UnreadableRecordError(f"unknown version {version} of the consumer protocol")
    return min(version, VERSION_MAX)


def _read_partitions(reader: RecordReader) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.array_length(6)):
        topic = reader.string()
        indexes = tuple(reader.int32() for _ in range(reader.array_length(4)))
        found[topic] = (*found.get(topic, ()), *indexes)
    return found
