"""The Fetch request v4-v18, both sides."""

from __future__ import annotations

import struct
import uuid
from typing import Final

from local_cluster.wire.constants import CONSUMER_REPLICA_ID
from local_cluster.wire.errors import PeerError
from local_cluster.wire.fetch.model import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    ForgottenPartition,
)
from local_cluster.wire.primitives import (
    TAGGED_FIELDS_MAX,
    read_array_length,
    read_string,
    read_unsigned_varint,
    skip_tagged_fields,
    write_array_length,
    write_string,
)
from local_cluster.wire.topics import read_topic, runs_by_topic, write_topic

_HEAD: Final = struct.Struct(">iiib")
_REPLICA_STATE: Final = struct.Struct(">iq")
_SESSION: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")

_REPLICA_STATE_SINCE: Final = 15
_REPLICA_STATE_TAG: Final = 1


def decode_request(version: int, frame: memoryview, position: int) -> FetchRequest:
    """Decode the request body. Raises PeerError for broken bytes."""
    flexible = version >= 12
    try:
        replica_id, replica_epoch = CONSUMER_REPLICA_ID, -1
        if version < _REPLICA_STATE_SINCE:
            (replica_id,) = _INT32.unpack_from(frame, position)
            position += 4
        wait_ms, bytes_min, bytes_max, isolation = _HEAD.unpack_from(frame, position)
        position += _HEAD.size
        session_id, session_epoch = 0, -1
        if version >= 7:
            session_id, session_epoch = _SESSION.unpack_from(frame, position)
            position += 8
        partitions, position = _read_partitions(version, frame, position)
        forgotten: list[ForgottenPartition] = []
        if version >= 7:
            forgotten, position = _read_forgotten(version, frame, position)
        rack_id: str | None = ""
        if version >= 11:
            rack_id, position = read_string(frame, position, flexible=flexible)
        if version >= _REPLICA_STATE_SINCE:
            replica_id, replica_epoch = _read_replica_state(frame, position)
        elif flexible:
            skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Fetch request cut short") from error
    return FetchRequest(
        replica_id,
        wait_ms,
        bytes_min,
        bytes_max,
        isolation,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        rack_id or "",
        replica_epoch,
    )


def _read_partitions(
    version: int, frame: memoryview, position: int
) -> tuple[list[FetchPartition], int]:
    flexible = version >= 12
    by_id = version >= TOPIC_IDS_SINCE
    layout = _partition_layout(version)
    partitions: list[FetchPartition] = []
    topics_count, position = read_array_length(
        frame, position, flexible=flexible, element_bytes_min=3
    )
    for _ in range(topics_count):
        topic, topic_id, position = read_topic(frame, position, flexible=flexible, by_id=by_id)
        count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=layout.size
        )
        for _ in range(count):
            values = layout.unpack_from(frame, position)
            position += layout.size
            if flexible:
                position = skip_tagged_fields(frame, position)
            partitions.append(_partition(version, topic, topic_id, values))
        if flexible:
            position = skip_tagged_fields(frame, position)
    return partitions, position


def _read_forgotten(
    version: int, frame: memoryview, position: int
) -> tuple[list[ForgottenPartition], int]:
    flexible = version >= 12
    by_id = version >= TOPIC_IDS_SINCE
    forgotten: list[ForgottenPartition] = []
    topics_count, position = read_array_length(
        frame, position, flexible=flexible, element_bytes_min=3
    )
    for _ in range(topics_count):
        topic, topic_id, position = read_topic(frame, position, flexible=flexible, by_id=by_id)
        count, position = read_array_length(frame, position, flexible=flexible, element_bytes_min=4)
        indexes = struct.unpack_from(f">{count}i", frame, position)
        position += 4 * count
        forgotten += [ForgottenPartition(topic, index, topic_id) for index in indexes]
        if flexible:
            position = skip_tagged_fields(frame, position)
    return forgotten, position


def encode_request(version: int, request: FetchRequest) -> bytes:
    """Encode the request body; partitions of one topic must be adjacent."""
    flexible = version >= 12
    by_id = version >= TOPIC_IDS_SINCE
    out = bytearray()
    if version < _REPLICA_STATE_SINCE:
        out += _INT32.pack(request.replica_id)
    out += _HEAD.pack(
        request.wait_ms_max, request.bytes_min, request.bytes_max, request.isolation_level
    )
    if version >= 7:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    groups = runs_by_topic(request.partitions)
    out += write_array_length(len(groups), flexible=flexible)
    for entries in groups:
        out += write_topic(entries[0], flexible=flexible, by_id=by_id)
        out += write_array_length(len(entries), flexible=flexible)
        for entry in entries:
            out += _encode_partition(version, entry)
        if flexible:
            out += b"\0"
    if version >= 7:
        forgotten = runs_by_topic(request.forgotten)
        out += write_array_length(len(forgotten), flexible=flexible)
        for gone in forgotten:
            out += write_topic(gone[0], flexible=flexible, by_id=by_id)
            out += write_array_length(len(gone), flexible=flexible)
            out += struct.pack(f">{len(gone)}i", *(entry.partition for entry in gone))
            if flexible:
                out += b"\0"
    if version >= 11:
        out += write_string(request.rack_id, flexible=flexible)
    if version >= _REPLICA_STATE_SINCE and request.replica_id != CONSUMER_REPLICA_ID:
        state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch) + b"\0"
        out += bytes((1, _REPLICA_STATE_TAG, len(state))) + state
    elif flexible:
        out += b"\0"
    return bytes(out)


_LAYOUTS: Final = {
    4: struct.Struct(">iqi"),
    5: struct.Struct(">iqqi"),
    9: struct.Struct(">iiqqi"),
    12: struct.Struct(">iiqiqi"),
}


def _partition_layout(version: int) -> struct.Struct:
    if version >= 12:
        return _LAYOUTS[12]
    return _LAYOUTS[max(since for since in _LAYOUTS if since <= version)]


def _encode_partition(version: int, entry: FetchPartition) -> bytes:
    """Encode what `_partition` reads, and no tagged fields."""
    _, index, epoch, offset, last_epoch, log_start, bytes_max, _ = entry
    layout = _partition_layout(version)
    if version >= 12:
        return layout.pack(index, epoch, offset, last_epoch, log_start, bytes_max) + b"\0"
    if version >= 9:
        return layout.pack(index, epoch, offset, log_start, bytes_max)
    if version >= 5:
        return layout.pack(index, offset, log_start, bytes_max)
    return layout.pack(index, offset, bytes_max)


def _partition(
    version: int, topic: str, topic_id: uuid.UUID | None, values: tuple[int, ...]
) -> FetchPartition:
    if version >= 12:
        index, epoch, offset, last_epoch, log_start, bytes_max = values
    elif version >= 9:
        index, epoch, offset, log_start, bytes_max = values
        last_epoch = -1
    elif version >= 5:
        index, offset, log_start, bytes_max = values
        epoch = last_epoch = -1
    else:
        index, offset, bytes_max = values
        epoch = last_epoch = log_start = -1
    return FetchPartition(topic, index, epoch, offset, last_epoch, log_start, bytes_max, topic_id)


def _read_replica_state(frame: memoryview, position: int) -> tuple[int, int]:
    """Return (replica id, broker epoch) from the tagged fields at the end of a request."""
    count, position = read_unsigned_varint(frame, position)
    if count > TAGGED_FIELDS_MAX:
        raise PeerError(f"{count} tagged fields")
    for _ in range(min(count, len(frame))):
        tag, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        if position + size > len(frame):
            raise PeerError("tagged field runs past the end of the frame")
        if tag == _REPLICA_STATE_TAG:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(
                frame[position : position + size]
            )
            return int(replica_id), int(replica_epoch)
        position += size
    return CONSUMER_REPLICA_ID, -1
