"""The Fetch response v4-v18, both sides.

The encoder returns a list of parts. The records of a partition are a part as the caller gave it,
such as a `RecordsPart`, whose bytes the connection sends from the file.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final

from local_cluster.wire.current_leader import (
    CurrentLeader,
    NodeEndpoint,
    decode_current_leader,
    encode_current_leader,
    encode_node_endpoints,
)
from local_cluster.wire.errors import PeerError
from local_cluster.wire.fetch.model import (
    NODE_ENDPOINTS_SINCE,
    TOPIC_IDS_SINCE,
    PartitionFetchResponse,
    RecordsPart,
    records_size_bytes,
)
from local_cluster.wire.primitives import (
    read_array_length,
    read_tagged_fields,
    read_unsigned_varint,
    skip_tagged_fields,
    write_array_length,
    write_unsigned_varint,
)
from local_cluster.wire.topics import read_topic, runs_by_topic, write_topic

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_PARTITION_HEAD: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_THROTTLE_MS: Final = struct.Struct(">i")
_RESPONSE_HEAD: Final = struct.Struct(">ihi")
_EPOCH_END: Final = struct.Struct(">iq")
DIVERGING_EPOCH_TAG: Final = 0
CURRENT_LEADER_TAG: Final = 1


def encode_response(
    version: int,
    partitions: Sequence[PartitionFetchResponse],
    *,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> list[bytes | memoryview | RecordsPart]:
    """Encode the body as parts; partitions of one topic must be adjacent."""
    flexible = version >= 12
    parts: list[bytes | memoryview | RecordsPart] = []
    out = bytearray(
        _THROTTLE_MS.pack(throttle_ms)
        if version < 7
        else _RESPONSE_HEAD.pack(throttle_ms, error_code, session_id)
    )
    groups = runs_by_topic(partitions)
    out += write_array_length(len(groups), flexible=flexible)
    for entries in groups:
        out += write_topic(entries[0], flexible=flexible, by_id=version >= TOPIC_IDS_SINCE)
        out += write_array_length(len(entries), flexible=flexible)
        for entry in entries:
            out += _encode_partition(version, entry)
            records = entry.records
            if records is not None and records_size_bytes(records):
                parts += (bytes(out), records)
                out = bytearray()
            if flexible:
                out += _encode_tags(entry)
        if flexible:
            out += b"\0"
    if version >= NODE_ENDPOINTS_SINCE:
        out += encode_node_endpoints(node_endpoints)
    elif flexible:
        out += b"\0"
    if out:
        parts.append(bytes(out))
    return parts


def _encode_partition(version: int, entry: PartitionFetchResponse) -> bytearray:
    """Encode a partition up to and including the size of its records."""
    flexible = version >= 12
    out = bytearray(
        _PARTITION_HEAD.pack(
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


def _encode_tags(entry: PartitionFetchResponse) -> bytes:
    values = []
    if entry.diverging_epoch is not None:
        values.append((DIVERGING_EPOCH_TAG, _EPOCH_END.pack(*entry.diverging_epoch) + b"\0"))
    if entry.current_leader is not None:
        values.append((CURRENT_LEADER_TAG, encode_current_leader(entry.current_leader)))
    return bytes((len(values),)) + b"".join(
        bytes((tag, len(value))) + value for tag, value in values
    )


def decode_response(
    version: int, frame: memoryview, position: int
) -> tuple[int, int, list[PartitionFetchResponse]]:
    """Return (error code, session id, partitions); records are views into the frame.

    Raises PeerError for broken bytes.
    """
    flexible = version >= 12
    error_code, session_id = 0, 0
    partitions: list[PartitionFetchResponse] = []
    try:
        if version >= 7:
            _, error_code, session_id = _RESPONSE_HEAD.unpack_from(frame, position)
            position += _RESPONSE_HEAD.size
        else:
            position += 4
        topics_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=3
        )
        for _ in range(topics_count):
            topic, topic_id, position = read_topic(
                frame, position, flexible=flexible, by_id=version >= TOPIC_IDS_SINCE
            )
            count, position = read_array_length(
                frame, position, flexible=flexible, element_bytes_min=_PARTITION_HEAD.size
            )
            for _ in range(count):
                entry, position = _decode_partition(version, topic, topic_id, frame, position)
                partitions.append(entry)
            if flexible:
                position = skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Fetch response cut short") from error
    return error_code, session_id, partitions


def _decode_partition(
    version: int, topic: str, topic_id: uuid.UUID | None, frame: memoryview, position: int
) -> tuple[PartitionFetchResponse, int]:
    flexible = version >= 12
    index, error_code, high_watermark, stable = _PARTITION_HEAD.unpack_from(frame, position)
    position += _PARTITION_HEAD.size
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
    leader: CurrentLeader | None = None
    diverging: tuple[int, int] | None = None
    if flexible:
        tags, end = read_tagged_fields(frame, end)
        if CURRENT_LEADER_TAG in tags:
            leader = decode_current_leader(tags[CURRENT_LEADER_TAG])
        if DIVERGING_EPOCH_TAG in tags:
            epoch, end_offset = _EPOCH_END.unpack_from(tags[DIVERGING_EPOCH_TAG])
            diverging = epoch, end_offset
    entry = PartitionFetchResponse(
        topic,
        index,
        error_code,
        high_watermark,
        stable,
        log_start_offset,
        aborted,
        preferred,
        records,
        topic_id,
        leader,
        diverging,
    )
    return entry, end
