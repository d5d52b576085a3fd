"""ListOffsets v1-v11 by hand, a broker's side. Spark's Kafka connector sends two per 500 records.

Schema: ListOffsetsRequest.json and ListOffsetsResponse.json of Apache Kafka (KIP-98, KIP-320,
KIP-405, KIP-482, KIP-1075). A field that a version lacks has its default here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.wire.constants import READ_UNCOMMITTED
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    skip_tagged_fields,
    write_array_length,
    write_string,
)

ISOLATION_LEVEL_SINCE: Final = 2
"""The version that has the throttle time in responses, too."""
LEADER_EPOCH_SINCE: Final = 4
FLEXIBLE_SINCE: Final = 6
TIMEOUT_SINCE: Final = 10
NO_EPOCH: Final = -1

_REPLICA_ID_BYTES: Final = 4
_TIMEOUT_BYTES: Final = 4
_ISOLATION_LEVEL: Final = struct.Struct(">b")
_PLACE: Final = struct.Struct(">iq")
_PLACE_WITH_EPOCH: Final = struct.Struct(">iiq")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_WITH_EPOCH: Final = struct.Struct(">ihqqi")
_NO_THROTTLE: Final = bytes(4)


class AskedPartition(NamedTuple):
    """One partition of a request."""

    partition: int
    current_leader_epoch: int
    timestamp_ms: int
    """A time, or one of the negative values in constants.py."""


class ListOffsetsRequest(NamedTuple):
    """A request. Neither topics nor partitions need to be distinct."""

    isolation_level: int
    topics: Sequence[tuple[str, Sequence[AskedPartition]]]


class ListedOffset(NamedTuple):
    """The result of one partition; -1 where nothing was found."""

    partition: int
    error_code: int
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = NO_EPOCH


def decode_request(version: int, frame: memoryview, position: int) -> ListOffsetsRequest:
    """Decode the body of a request. Raises PeerError for broken bytes."""
    flexible = version >= FLEXIBLE_SINCE
    try:
        position += _REPLICA_ID_BYTES
        isolation_level = READ_UNCOMMITTED
        if version >= ISOLATION_LEVEL_SINCE:
            (isolation_level,) = _ISOLATION_LEVEL.unpack_from(frame, position)
            position += 1
        topics: list[tuple[str, Sequence[AskedPartition]]] = []
        count, position = _read_length(frame, position, flexible, 3)
        for _ in range(count):
            name, position = read_string(frame, position, flexible=flexible)
            if name is None:
                raise PeerError("a topic without a name")
            partitions, position = _read_partitions(version, frame, position)
            topics.append((name, partitions))
            if flexible:
                position = skip_tagged_fields(frame, position)
        if version >= TIMEOUT_SINCE:
            position += _TIMEOUT_BYTES
        if flexible:
            position = skip_tagged_fields(frame, position)
        if position > len(frame):
            raise PeerError("ListOffsets request cut short")
    except (struct.error, IndexError) as error:
        raise PeerError("ListOffsets request cut short") from error
    return ListOffsetsRequest(isolation_level, topics)


def _read_partitions(
    version: int, frame: memoryview, position: int
) -> tuple[list[AskedPartition], int]:
    flexible = version >= FLEXIBLE_SINCE
    has_epoch = version >= LEADER_EPOCH_SINCE
    size = _PLACE_WITH_EPOCH.size if has_epoch else _PLACE.size
    partitions: list[AskedPartition] = []
    count, position = _read_length(frame, position, flexible, size)
    for _ in range(count):
        epoch = NO_EPOCH
        if has_epoch:
            index, epoch, timestamp_ms = _PLACE_WITH_EPOCH.unpack_from(frame, position)
        else:
            index, timestamp_ms = _PLACE.unpack_from(frame, position)
        position += size
        if flexible:
            position = skip_tagged_fields(frame, position)
        partitions.append(AskedPartition(index, epoch, timestamp_ms))
    return partitions, position


def _read_length(
    frame: memoryview, position: int, flexible: bool, element_bytes_min: int
) -> tuple[int, int]:
    count, position = read_array_length(
        frame, position, flexible=flexible, element_bytes_min=element_bytes_min
    )
    if count < 0:
        raise PeerError("null for an array that must be there")
    return count, position


def encode_response(version: int, topics: Sequence[tuple[str, Sequence[ListedOffset]]]) -> bytes:
    """Encode the body of a response. The throttle time is 0."""
    flexible = version >= FLEXIBLE_SINCE
    out = bytearray(_NO_THROTTLE if version >= ISOLATION_LEVEL_SINCE else b"")
    out += write_array_length(len(topics), flexible=flexible)
    for name, offsets in topics:
        out += write_string(name, flexible=flexible)
        out += write_array_length(len(offsets), flexible=flexible)
        for index, code, timestamp_ms, offset, epoch in offsets:
            if version >= LEADER_EPOCH_SINCE:
                out += _RESULT_WITH_EPOCH.pack(index, code, timestamp_ms, offset, epoch)
            else:
                out += _RESULT.pack(index, code, timestamp_ms, offset)
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    return bytes(out)
