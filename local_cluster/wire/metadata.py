"""Metadata v1-v13 by hand, a client's side: responses about thousands of partitions.

`decode_head` leaves the topics as bytes. So a client that polls can compare them with those of the
last response, and decode them only if they differ. The controller id is in the head: a Kafka broker
in KRaft mode names a random live broker in each response.

Schema: MetadataRequest.json and MetadataResponse.json of Apache Kafka (KIP-4, KIP-112, KIP-320,
KIP-430, KIP-516, KIP-526, KIP-1102). The lists of authorized operations are not asked for.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.wire.errors import ErrorCode, PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    read_unsigned_varint,
    skip_tagged_fields,
    write_array_length,
    write_string,
)

VERSION_MIN: Final = 1
TOPIC_IDS_SINCE: Final = 10
_FLEXIBLE_SINCE: Final = 9
_NO_TOPIC_ID: Final = bytes(16)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">hii")
_PARTITION_WITH_EPOCH: Final = struct.Struct(">hiii")


class BrokerAddress(NamedTuple):
    """The advertised endpoint of a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """One partition; leader -1 means no leader, leader epoch -1 that the version has none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ErrorCode


class TopicMetadata(NamedTuple):
    """One topic; `topic_id` is None before v10."""

    name: str
    topic_id: uuid.UUID | None
    error: ErrorCode
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


class MetadataHead(NamedTuple):
    """A response up to its topics."""

    brokers: Sequence[BrokerAddress]
    cluster_id: str | None
    controller_id: int
    topics_position: int
    """The position of the topics in the frame."""


def encode_request(
    version: int, topics: Sequence[str] | None, *, allow_auto_topic_creation: bool
) -> bytes:
    """Encode the request body; `topics` of None asks for all topics."""
    flexible = version >= _FLEXIBLE_SINCE
    before = _NO_TOPIC_ID if version >= TOPIC_IDS_SINCE else b""
    after = b"\0" if flexible else b""
    if topics is None:
        out = bytearray(b"\0" if flexible else b"\xff\xff\xff\xff")
    else:
        out = bytearray(write_array_length(len(topics), flexible=flexible))
        for name in topics:
            out += before + write_string(name, flexible=flexible) + after
    if version >= 4:
        out.append(allow_auto_topic_creation)
    if 8 <= version <= 10:
        out.append(False)  # authorized operations of the cluster
    if version >= 8:
        out.append(False)  # and of the topics
    return bytes(out + after)


def decode_head(version: int, frame: memoryview, position: int) -> MetadataHead:
    """Decode brokers, cluster id and controller. Raises PeerError for broken bytes."""
    flexible = version >= _FLEXIBLE_SINCE
    try:
        if version >= 3:
            position += 4  # throttle time: the broker delays the response itself
        count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=10
        )
        brokers = []
        for _ in range(count):
            (node_id,) = _INT32.unpack_from(frame, position)
            host, position = read_string(frame, position + 4, flexible=flexible)
            (port,) = _INT32.unpack_from(frame, position)
            rack, position = read_string(frame, position + 4, flexible=flexible)
            if flexible:
                position = skip_tagged_fields(frame, position)
            brokers.append(BrokerAddress(node_id, host or "", port, rack))
        cluster_id = None
        if version >= 2:
            cluster_id, position = read_string(frame, position, flexible=flexible)
        (controller_id,) = _INT32.unpack_from(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Metadata response cut short") from error
    return MetadataHead(brokers, cluster_id, controller_id, position + 4)


def decode_topics(
    version: int, body: bytes | memoryview
) -> tuple[ErrorCode, dict[str, TopicMetadata]]:
    """Return (error of the response, topics by name) from the bytes after the head.

    Raises PeerError for broken bytes.
    """
    body = memoryview(body)
    flexible = version >= _FLEXIBLE_SINCE
    topics: dict[str, TopicMetadata] = {}
    error_code = 0
    try:
        count, position = read_array_length(body, 0, flexible=flexible, element_bytes_min=5)
        for _ in range(count):
            topic, position = _decode_topic(version, body, position)
            topics[topic.name] = topic
        if 8 <= version <= 10:
            position += 4
        if version >= 13:
            (error_code,) = _INT16.unpack_from(body, position)
            position += 2
        if flexible:
            position = skip_tagged_fields(body, position)
    except (struct.error, IndexError) as error:
        raise PeerError("Metadata response cut short") from error
    if position > len(body):
        raise PeerError("Metadata response cut short")
    return _error(error_code), topics


def _decode_topic(version: int, body: memoryview, position: int) -> tuple[TopicMetadata, int]:
    flexible = version >= _FLEXIBLE_SINCE
    (error_code,) = _INT16.unpack_from(body, position)
    name, position = read_string(body, position + 2, flexible=flexible)
    topic_id = None
    if version >= TOPIC_IDS_SINCE:
        raw = bytes(body[position : position + 16])
        topic_id = uuid.UUID(bytes=raw) if len(raw) == 16 and raw != _NO_TOPIC_ID else None
        position += 16
    is_internal = body[position] != 0
    count, position = read_array_length(
        body, position + 1, flexible=flexible, element_bytes_min=_PARTITION.size + 2
    )
    partitions: dict[int, PartitionMetadata] = {}
    read_brokers = _read_compact_brokers if flexible else _read_brokers
    for _ in range(count):
        entry, position = _decode_partition(version, body, position, read_brokers)
        partitions[entry.partition] = entry
    if version >= 8:
        position += 4
    if flexible:
        position = skip_tagged_fields(body, position)
    return TopicMetadata(
        name or "", topic_id, _error(error_code), is_internal, partitions
    ), position


_ReadBrokers = Callable[[memoryview, int], tuple[tuple[int, ...], int]]


def _decode_partition(
    version: int, body: memoryview, position: int, read_brokers: _ReadBrokers
) -> tuple[PartitionMetadata, int]:
    if version >= 7:
        error_code, index, leader, epoch = _PARTITION_WITH_EPOCH.unpack_from(body, position)
        position += _PARTITION_WITH_EPOCH.size
    else:
        error_code, index, leader = _PARTITION.unpack_from(body, position)
        epoch = -1
        position += _PARTITION.size
    replicas, position = read_brokers(body, position)
    isr, position = read_brokers(body, position)
    if version >= 5:
        _, position = read_brokers(body, position)
    if version >= _FLEXIBLE_SINCE:
        position = skip_tagged_fields(body, position)
    entry = PartitionMetadata(
        # Almost always equal: keep one tuple for both.
        *(index, leader, epoch, replicas, replicas if isr == replicas else isr),
        _error(error_code),
    )
    return entry, position


def _read_compact_brokers(body: memoryview, position: int) -> tuple[tuple[int, ...], int]:
    length, position = read_unsigned_varint(body, position)
    return _read_broker_ids(body, position, length - 1)


def _read_brokers(body: memoryview, position: int) -> tuple[tuple[int, ...], int]:
    (length,) = _INT32.unpack_from(body, position)
    return _read_broker_ids(body, position + 4, length)


def _read_broker_ids(body: memoryview, position: int, count: int) -> tuple[tuple[int, ...], int]:
    if count <= 0:
        return (), position
    end = position + 4 * count
    if end > len(body):
        raise PeerError("broker ids run past the end of the frame")
    return struct.unpack_from(f">{count}i", body, position), end


def _error(code: int) -> ErrorCode:
    if not code:
        return ErrorCode.none
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.unknown_server_error  # a newer broker's; the rest is still valid
