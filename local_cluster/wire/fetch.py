"""Fetch v4-v17 by hand, both sides: record bytes are never copied into the answer.

Schema: FetchRequest.json and FetchResponse.json of Apache Kafka (KIP-74, KIP-98, KIP-227,
KIP-320, KIP-392, KIP-516, KIP-595, KIP-903). Topics go by name up to v12 and by id from v13 on:
what the version does not have is "" or None here.

The encoder gives the answer as a list of parts; where a partition has records it leaves a
`RecordsPart` of the caller's, whose bytes the connection sends from the file.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from .errors import PeerError
from .primitives import (
    read_array_length,
    read_string,
    read_unsigned_varint,
    skip_tagged_fields,
    write_array_length,
    write_string,
    write_unsigned_varint,
)

_HEAD: Final = struct.Struct(">iiib")
_REPLICA_STATE: Final = struct.Struct(">iq")
_SESSION: Final = struct.Struct(">ii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_PARTITION_ANSWER: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_ANSWER_HEAD: Final = struct.Struct(">ihi")

READ_COMMITTED: Final = 1
CONSUMER: Final = -1
"""The replica id of whoever is not a replica."""
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15
REPLICA_STATE_TAG: Final = 1
NO_TOPIC_ID: Final = bytes(16)


class RecordsPart(Protocol):
    """Record bytes that are sent from somewhere else, such as a segment file."""

    @property
    def size_bytes(self) -> int: ...


class FetchPartition(NamedTuple):
    """One partition of a request."""

    topic: str
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_bytes_max: int
    topic_id: uuid.UUID | None = None


class ForgottenPartition(NamedTuple):
    """A partition that an incremental request takes out of its session."""

    topic: str
    partition: int
    topic_id: uuid.UUID | None = None


class FetchRequest(NamedTuple):
    """A Fetch request; partitions are flat, in wire order."""

    replica_id: int
    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: Sequence[FetchPartition]
    forgotten: Sequence[ForgottenPartition]
    rack_id: str


class PartitionFetched(NamedTuple):
    """One partition of an answer; `records` is bytes, a part sent from elsewhere, or None."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: memoryview | bytes | RecordsPart | None = None
    topic_id: uuid.UUID | None = None


def decode_request(version: int, frame: memoryview, position: int) -> FetchRequest:
    """Read the request body. Raises PeerError on broken bytes."""
    flexible = version >= 12
    layout = _partition_layout(version)
    try:
        replica_id = CONSUMER
        if version < REPLICA_STATE_SINCE:
            (replica_id,) = _INT32.unpack_from(frame, position)
            position += 4
        wait_ms, bytes_min, bytes_max, isolation = _HEAD.unpack_from(frame, position)
        position += _HEAD.size
        session_id, session_epoch = 0, -1
        if version >= 7:
            session_id, session_epoch = _SESSION.unpack_from(frame, position)
            position += 8
        partitions: list[FetchPartition] = []
        topics_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=3
        )
        for _ in range(topics_count):
            topic, topic_id, position = _read_topic(version, frame, position)
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
        forgotten: list[ForgottenPartition] = []
        if version >= 7:
            topics_count, position = read_array_length(
                frame, position, flexible=flexible, element_bytes_min=3
            )
            for _ in range(topics_count):
                topic, topic_id, position = _read_topic(version, frame, position)
                count, position = read_array_length(
                    frame, position, flexible=flexible, element_bytes_min=4
                )
                indexes = struct.unpack_from(f">{count}i", frame, position)
                position += 4 * count
                forgotten += [ForgottenPartition(topic, index, topic_id) for index in indexes]
                if flexible:
                    position = skip_tagged_fields(frame, position)
        rack_id: str | None = ""
        if version >= 11:
            rack_id, position = read_string(frame, position, flexible=flexible)
        if version >= REPLICA_STATE_SINCE:
            replica_id = _read_replica_id(frame, position)
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
    )


def encode_request(version: int, request: FetchRequest) -> bytes:
    """The request body; partitions of one topic must be adjacent."""
    flexible = version >= 12
    out = bytearray()
    if version < REPLICA_STATE_SINCE:
        out += _INT32.pack(request.replica_id)
    out += _HEAD.pack(
        request.wait_ms_max, request.bytes_min, request.bytes_max, request.isolation_level
    )
    if version >= 7:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    groups = _by_topic(version, request.partitions)
    out += write_array_length(len(groups), flexible=flexible)
    for topic, entries in groups:
        out += topic
        out += write_array_length(len(entries), flexible=flexible)
        for entry in entries:
            out += _encode_asked(version, entry)
        if flexible:
            out += b"\0"
    if version >= 7:
        forgotten = _by_topic(version, request.forgotten)
        out += write_array_length(len(forgotten), flexible=flexible)
        for topic, gone in forgotten:
            out += topic + write_array_length(len(gone), flexible=flexible)
            out += struct.pack(f">{len(gone)}i", *(entry.partition for entry in gone))
            if flexible:
                out += b"\0"
    if version >= 11:
        out += write_string(request.rack_id, flexible=flexible)
    if version >= REPLICA_STATE_SINCE and request.replica_id != CONSUMER:
        state = _REPLICA_STATE.pack(request.replica_id, -1) + b"\0"
        out += bytes((1, REPLICA_STATE_TAG, len(state))) + state
    elif flexible:
        out += b"\0"
    return bytes(out)


def _encode_asked(version: int, entry: FetchPartition) -> bytearray:
    out = bytearray(_INT32.pack(entry.partition))
    if version >= 9:
        out += _INT32.pack(entry.current_leader_epoch)
    out += _INT64.pack(entry.fetch_offset)
    if version >= 12:
        out += _INT32.pack(entry.last_fetched_epoch)
    if version >= 5:
        out += _INT64.pack(entry.log_start_offset)
    out += _INT32.pack(entry.partition_bytes_max)
    if version >= 12:
        out += b"\0"
    return out


def encode_response(
    version: int,
    partitions: Sequence[PartitionFetched],
    *,
    error_code: int = 0,
    session_id: int = 0,
) -> list[bytes | memoryview | RecordsPart]:
    """The body as parts; partitions of one topic must be adjacent."""
    flexible = version >= 12
    parts: list[bytes | memoryview | RecordsPart] = []
    out = bytearray(4) if version < 7 else bytearray(_ANSWER_HEAD.pack(0, error_code, session_id))
    groups = _by_topic(version, partitions)
    out += write_array_length(len(groups), flexible=flexible)
    for topic, entries in groups:
        out += topic
        out += write_array_length(len(entries), flexible=flexible)
        for entry in entries:
            out += _encode_partition(version, entry)
            records = entry.records
            if records is not None and records_size_bytes(records):
                parts += (bytes(out), records)
                out = bytearray()
            if flexible:
                out += b"\0"
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    if out:
        parts.append(bytes(out))
    return parts


def records_size_bytes(records: memoryview | bytes | RecordsPart | None) -> int:
    """How many record bytes a partition's answer has."""
    if records is None:
        return 0
    return len(records) if isinstance(records, bytes | memoryview) else records.size_bytes


def _encode_partition(version: int, entry: PartitionFetched) -> bytearray:
    """Everything of a partition's answer up to and with the size of its records."""
    flexible = version >= 12
    out = bytearray(
        _PARTITION_ANSWER.pack(
            entry.partition, entry.error_code, entry.high_watermark, entry.last_stable_offset
        )
    )
    if version >= 5:
        out += _INT64.pack(entry.log_start_offset)
    aborted = entry.aborted_transactions
    if aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        out += write_array_length(len(aborted), flexible=flexible)
        for producer_id, first_offset in aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                out += b"\0"
    if version >= 11:
        out += _INT32.pack(entry.preferred_read_replica)
    size = records_size_bytes(entry.records)
    out += write_unsigned_varint(size + 1) if flexible else _INT32.pack(size)
    return out


def decode_response(
    version: int, frame: memoryview, position: int
) -> tuple[int, int, list[PartitionFetched]]:
    """(error code, session id, partitions); records are views into the frame.

    Raises PeerError on broken bytes.
    """
    flexible = version >= 12
    error_code, session_id = 0, 0
    partitions: list[PartitionFetched] = []
    try:
        if version >= 7:
            _, error_code, session_id = _ANSWER_HEAD.unpack_from(frame, position)
            position += _ANSWER_HEAD.size
        else:
            position += 4
        topics_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=3
        )
        for _ in range(topics_count):
            topic, topic_id, position = _read_topic(version, frame, position)
            count, position = read_array_length(
                frame, position, flexible=flexible, element_bytes_min=_PARTITION_ANSWER.size
            )
            for _ in range(count):
                entry, position = _decode_partition(version, topic, frame, position)
                partitions.append(entry if topic_id is None else entry._replace(topic_id=topic_id))
            if flexible:
                position = skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Fetch response cut short") from error
    return error_code, session_id, partitions


def _decode_partition(
    version: int, topic: str, frame: memoryview, position: int
) -> tuple[PartitionFetched, int]:
    flexible = version >= 12
    index, error_code, high_watermark, stable = _PARTITION_ANSWER.unpack_from(frame, position)
    position += _PARTITION_ANSWER.size
    log_start_offset = -1
    if version >= 5:
        (log_start_offset,) = _INT64.unpack_from(frame, position)
        position += 8
    aborted: list[tuple[int, int]] | None = None
    aborted_count, position = read_array_length(
        frame, position, flexible=flexible, element_bytes_min=16
    )
    if aborted_count >= 0:
        aborted = []
        for _ in range(aborted_count):
            aborted.append(_ABORTED.unpack_from(frame, position))
            position += 16
            if flexible:
                position = skip_tagged_fields(frame, position)
    preferred = -1
    if version >= 11:
        (preferred,) = _INT32.unpack_from(frame, position)
        position += 4
    if flexible:
        size, position = read_unsigned_varint(frame, position)
        size -= 1
    else:
        (size,) = _INT32.unpack_from(frame, position)
        position += 4
    end = position + max(size, 0)
    if end > len(frame):
        raise PeerError("records run past the end of the frame")
    records = frame[position:end]
    if flexible:
        end = skip_tagged_fields(frame, end)
    entry = PartitionFetched(
        topic,
        index,
        error_code,
        high_watermark,
        stable,
        log_start_offset,
        aborted,
        preferred,
        records,
    )
    return entry, end


_LAYOUTS: Final = {
    4: struct.Struct(">iqi"),
    5: struct.Struct(">iqqi"),
    9: struct.Struct(">iiqqi"),
    12: struct.Struct(">iiqiqi"),
}


def _partition_layout(version: int) -> struct.Struct:
    return _LAYOUTS[max(since for since in _LAYOUTS if since <= version)]


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


def _read_topic(
    version: int, frame: memoryview, position: int
) -> tuple[str, uuid.UUID | None, int]:
    """(name or "", id or None, next position): a topic goes by one of the two."""
    if version >= TOPIC_IDS_SINCE:
        raw = bytes(frame[position : position + 16])
        if len(raw) < 16:
            raise PeerError("topic id cut short")
        return "", None if raw == NO_TOPIC_ID else uuid.UUID(bytes=raw), position + 16
    topic, position = read_string(frame, position, flexible=version >= 12)
    if topic is None:
        raise PeerError("null topic name in Fetch")
    return topic, None, position


def _read_replica_id(frame: memoryview, position: int) -> int:
    """The replica id in the tagged fields at the end of a request."""
    count, position = read_unsigned_varint(frame, position)
    for _ in range(min(count, len(frame))):
        tag, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        if position + size > len(frame):
            raise PeerError("tagged field runs past the end of the frame")
        if tag == REPLICA_STATE_TAG:
            replica_id, _ = _REPLICA_STATE.unpack_from(frame[position : position + size])
            return int(replica_id)
        position += size
    return CONSUMER


_Entry = TypeVar("_Entry", FetchPartition, ForgottenPartition, PartitionFetched)


def _by_topic(version: int, entries: Sequence[_Entry]) -> list[tuple[bytes, list[_Entry]]]:
    """Runs of one topic, each with the topic as it stands on the wire."""
    groups: list[tuple[bytes, list[_Entry]]] = []
    previous: tuple[str, uuid.UUID | None] | None = None
    for entry in entries:
        topic = (entry.topic, entry.topic_id)
        if topic != previous:
            previous = topic
            if version >= TOPIC_IDS_SINCE:
                name = NO_TOPIC_ID if entry.topic_id is None else entry.topic_id.bytes
            else:
                name = write_string(entry.topic, flexible=version >= 12)
            groups.append((name, []))
        groups[-1][1].append(entry)
    return groups
