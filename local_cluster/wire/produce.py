"""Produce v3-v13 by hand, both sides: record bytes are views into the frame, never copies.

Schema: ProduceRequest.json and ProduceResponse.json of Apache Kafka (KIP-98, KIP-360, KIP-467,
KIP-482, KIP-516, KIP-951: endpoints of leaders are written, not read). Topics go by name up to v12
and by id from v13. The field that a version lacks is "" or None here.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.wire.current_leader import (
    CurrentLeader,
    NodeEndpoint,
    decode_current_leader,
    encode_current_leader,
    encode_node_endpoints,
)
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    read_tagged_fields,
    read_unsigned_varint,
    skip_tagged_fields,
    write_array_length,
    write_string,
    write_unsigned_varint,
)
from local_cluster.wire.topics import read_topic, runs_by_topic, write_topic

CURRENT_LEADER_SINCE: Final = 10
CURRENT_LEADER_TAG: Final = 0
TOPIC_IDS_SINCE: Final = 13

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_PARTITION_HEAD: Final = struct.Struct(">ihqq")
_INT64: Final = struct.Struct(">q")


class PartitionRecords(NamedTuple):
    """The record bytes for one partition; `records` is None if the client sent null."""

    topic: str
    partition: int
    records: memoryview | None
    topic_id: uuid.UUID | None = None


class ProduceRequest(NamedTuple):
    """A Produce request; partitions are flat, in wire order."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: Sequence[PartitionRecords]


class PartitionProduceResponse(NamedTuple):
    """The result of one partition; record errors are (index in the batch, message)."""

    topic: str
    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    topic_id: uuid.UUID | None = None
    current_leader: CurrentLeader | None = None
    """The leader, if it is another broker (KIP-951); v10 and later."""


def decode_request(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """Decode the request body. Raises PeerError for broken bytes."""
    flexible = version >= 9
    try:
        transactional_id, position = read_string(frame, position, flexible=flexible)
        acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
        position += 6
        partitions: list[PartitionRecords] = []
        topics_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=3
        )
        for _ in range(topics_count):
            topic, topic_id, position = read_topic(
                frame, position, flexible=flexible, by_id=version >= TOPIC_IDS_SINCE
            )
            count, position = read_array_length(
                frame, position, flexible=flexible, element_bytes_min=5
            )
            for _ in range(count):
                (partition,) = _INT32.unpack_from(frame, position)
                position += 4
                if flexible:
                    size, position = read_unsigned_varint(frame, position)
                    size -= 1
                else:
                    (size,) = _INT32.unpack_from(frame, position)
                    position += 4
                if size < 0:
                    partitions.append(PartitionRecords(topic, partition, None, topic_id))
                else:
                    end = position + size
                    if end > len(frame):
                        raise PeerError("records run past the end of the frame")
                    partitions.append(
                        PartitionRecords(topic, partition, frame[position:end], topic_id)
                    )
                    position = end
                if flexible:
                    position = skip_tagged_fields(frame, position)
            if flexible:
                position = skip_tagged_fields(frame, position)
        if flexible:
            skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Produce request cut short") from error
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def encode_request(version: int, request: ProduceRequest) -> list[bytes | memoryview]:
    """Encode the body as a list of buffers, so that records are not copied.

    Partitions of one topic must be adjacent. Raises ValueError if a partition occurs twice: Kafka
    would drop the first of the two.
    """
    _refuse_repeated(request.partitions)
    flexible = version >= 9
    parts: list[bytes | memoryview] = []
    head = write_string(request.transactional_id, flexible=flexible)
    head += _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms)
    groups = runs_by_topic(request.partitions)
    head += write_array_length(len(groups), flexible=flexible)
    for partitions in groups:
        head += write_topic(partitions[0], flexible=flexible, by_id=version >= TOPIC_IDS_SINCE)
        head += write_array_length(len(partitions), flexible=flexible)
        for entry in partitions:
            records = entry.records
            assert records is not None, "a client never sends null records"
            head += _INT32.pack(entry.partition)
            if flexible:
                head += write_unsigned_varint(len(records) + 1)
            else:
                head += _INT32.pack(len(records))
            parts += (head, records)
            head = b"\0" if flexible else b""
        if flexible:
            head += b"\0"
    if flexible:
        head += b"\0"
    if head:
        parts.append(head)
    return parts


def _refuse_repeated(partitions: Sequence[PartitionRecords]) -> None:
    named = {(entry.topic_id or entry.topic, entry.partition) for entry in partitions}
    if len(named) < len(partitions):
        raise ValueError("a Produce request has two batches for the same partition")


def encode_response(
    version: int,
    partitions: Sequence[PartitionProduceResponse],
    *,
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> bytes:
    """Encode the response body; partitions of one topic must be adjacent."""
    flexible = version >= 9
    groups = runs_by_topic(partitions)
    out = bytearray(write_array_length(len(groups), flexible=flexible))
    for entries in groups:
        out += write_topic(entries[0], flexible=flexible, by_id=version >= TOPIC_IDS_SINCE)
        out += write_array_length(len(entries), flexible=flexible)
        for entry in entries:
            out += _PARTITION_HEAD.pack(
                entry.partition, entry.error_code, entry.base_offset, entry.log_append_time_ms
            )
            if version >= 5:
                out += _INT64.pack(entry.log_start_offset)
            if version >= 8:
                out += write_array_length(len(entry.record_errors), flexible=flexible)
                for index, message in entry.record_errors:
                    out += _INT32.pack(index) + write_string(message, flexible=flexible)
                    if flexible:
                        out += b"\0"
                out += write_string(entry.error_message, flexible=flexible)
            if version >= CURRENT_LEADER_SINCE and entry.current_leader is not None:
                leader = encode_current_leader(entry.current_leader)
                out += bytes((1, CURRENT_LEADER_TAG, len(leader))) + leader
            elif flexible:
                out += b"\0"
        if flexible:
            out += b"\0"
    out += _INT32.pack(throttle_ms)
    if version >= CURRENT_LEADER_SINCE:
        out += encode_node_endpoints(node_endpoints)
    elif flexible:
        out += b"\0"
    return bytes(out)


def decode_response(
    version: int, frame: memoryview, position: int
) -> list[PartitionProduceResponse]:
    """Decode the response body. Raises PeerError for broken bytes."""
    flexible = version >= 9
    partitions: list[PartitionProduceResponse] = []
    try:
        topics_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=3
        )
        for _ in range(topics_count):
            topic, topic_id, position = read_topic(
                frame, position, flexible=flexible, by_id=version >= TOPIC_IDS_SINCE
            )
            count, position = read_array_length(
                frame, position, flexible=flexible, element_bytes_min=22
            )
            for _ in range(count):
                entry, position = _decode_partition(version, topic, topic_id, frame, position)
                partitions.append(entry)
            if flexible:
                position = skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Produce response cut short") from error
    return partitions


def _decode_partition(
    version: int, topic: str, topic_id: uuid.UUID | None, frame: memoryview, position: int
) -> tuple[PartitionProduceResponse, int]:
    flexible = version >= 9
    index, error_code, base_offset, time_ms = _PARTITION_HEAD.unpack_from(frame, position)
    position += _PARTITION_HEAD.size
    log_start_offset = -1
    if version >= 5:
        (log_start_offset,) = _INT64.unpack_from(frame, position)
        position += 8
    record_errors: list[tuple[int, str | None]] = []
    message: str | None = None
    if version >= 8:
        errors_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=5
        )
        for _ in range(errors_count):
            (batch_index,) = _INT32.unpack_from(frame, position)
            text, position = read_string(frame, position + 4, flexible=flexible)
            record_errors.append((batch_index, text))
            if flexible:
                position = skip_tagged_fields(frame, position)
        message, position = read_string(frame, position, flexible=flexible)
    leader: CurrentLeader | None = None
    if flexible:
        tags, position = read_tagged_fields(frame, position)
        if CURRENT_LEADER_TAG in tags:
            leader = decode_current_leader(tags[CURRENT_LEADER_TAG])
    entry = PartitionProduceResponse(
        topic,
        index,
        error_code,
        base_offset,
        time_ms,
        log_start_offset,
        tuple(record_errors),
        message,
        topic_id,
        leader,
    )
    return entry, position
