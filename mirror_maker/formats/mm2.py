"""MirrorMaker 2's own records, byte for byte. Pure.

Offset syncs, checkpoints and heartbeats consist of Kafka's protocol primitives, big-endian; STRING
is an int16 length and UTF-8. They lie in partition 0 of compacted topics of one partition. Source:
OffsetSync.java (apache/kafka, connect/mirror), Checkpoint.java, Heartbeat.java
(connect/mirror-client).

The positions of its source tasks lie in Kafka Connect's offsets topic. Key: JSON `[connector name,
{"cluster": alias, "partition": number, "topic": name}]`. Value: JSON `{"offset": number}`, the last
offset that was copied and flushed, or null for a reset. Source: MirrorUtils.wrapPartition and
wrapOffset (connect/mirror).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from local_cluster.foreign_json import INT32_MAX, integer, parse_json, string

HEARTBEATS_TOPIC: Final = "heartbeats"
SOURCE_CONNECTOR: Final = "MirrorSourceConnector"
_VERSION: Final = 0
_OFFSETS = struct.Struct(">qq")


class Mm2FormatError(Exception):
    """The bytes are not a record of MirrorMaker 2."""


class OffsetSync(NamedTuple):
    """The record at `upstream_offset` of a source partition lies at `downstream_offset`."""

    topic: str
    """Topic of the source."""
    partition: int
    upstream_offset: int
    downstream_offset: int


class Checkpoint(NamedTuple):
    """The position of a group in a copy."""

    group: str
    topic: str
    """Topic of the target."""
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str


class Heartbeat(NamedTuple):
    """A heartbeat of the flow from one cluster to another."""

    source_alias: str
    target_alias: str
    timestamp_ms: int


class SourcePosition(NamedTuple):
    """The position of a source task in a source partition."""

    cluster: str
    """Alias of the source."""
    topic: str
    partition: int
    last_offset: int | None
    """The last copied offset; None after a reset."""


def offset_syncs_topic(other_alias: str) -> str:
    """Return the topic of offset syncs on one side; `other_alias` is the other side's cluster."""
    return f"mm2-offset-syncs.{other_alias}.internal"


def checkpoints_topic(source_alias: str) -> str:
    """Return the topic of checkpoints on the target."""
    return f"{source_alias}.checkpoints.internal"


def is_heartbeats_topic(topic: str) -> bool:
    """Return whether it is `heartbeats` or a copy of it (`A.heartbeats`, `B.A.heartbeats`)."""
    return topic == HEARTBEATS_TOPIC or topic.endswith("." + HEARTBEATS_TOPIC)


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Return (key, value); the value has no version."""
    key = _string(sync.topic) + struct.pack(">i", sync.partition)
    return key, _OFFSETS.pack(sync.upstream_offset, sync.downstream_offset)


def decode_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Read a record. Raises Mm2FormatError."""
    try:
        topic, at = _read_string(key, 0)
        (partition,) = struct.unpack_from(">i", key, at)
        return OffsetSync(topic, partition, *_OFFSETS.unpack_from(value))
    except (struct.error, UnicodeDecodeError) as error:
        raise Mm2FormatError(f"not an offset sync: {error}") from error


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Return (key, value)."""
    key = (
        _string(checkpoint.group)
        + _string(checkpoint.topic)
        + struct.pack(">i", checkpoint.partition)
    )
    value = (
        struct.pack(">h", _VERSION)
        + _OFFSETS.pack(checkpoint.upstream_offset, checkpoint.downstream_offset)
        + _string(checkpoint.metadata)
    )
    return key, value


def decode_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Read a record. Raises Mm2FormatError."""
    try:
        group, at = _read_string(key, 0)
        topic, at = _read_string(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        _check_version(value)
        upstream, downstream = _OFFSETS.unpack_from(value, 2)
        metadata, _ = _read_string(value, 2 + _OFFSETS.size)
    except (struct.error, UnicodeDecodeError) as error:
        raise Mm2FormatError(f"not a checkpoint: {error}") from error
    return Checkpoint(group, topic, partition, upstream, downstream, metadata)


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Return (key, value); the record's own timestamp is the same."""
    key = _string(heartbeat.source_alias) + _string(heartbeat.target_alias)
    return key, struct.pack(">hq", _VERSION, heartbeat.timestamp_ms)


def decode_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """Read a record. Raises Mm2FormatError."""
    try:
        source, at = _read_string(key, 0)
        target, _ = _read_string(key, at)
        _check_version(value)
        (timestamp_ms,) = struct.unpack_from(">q", value, 2)
    except (struct.error, UnicodeDecodeError) as error:
        raise Mm2FormatError(f"not a heartbeat: {error}") from error
    return Heartbeat(source, target, timestamp_ms)


def decode_source_position(key: bytes | None, value: bytes | None) -> SourcePosition | None:
    """Read a record of Connect's offsets topic; None for records of other connectors."""
    try:
        connector, place = parse_json(key or b"null")
        # A dedicated MirrorMaker 2 uses the plain name; Strimzi puts both aliases in front.
        if not string(connector).endswith(SOURCE_CONNECTOR):
            return None
        offset = None if value is None else parse_json(value)
        return SourcePosition(
            string(place["cluster"]),
            string(place["topic"]),
            integer(place["partition"], 0, INT32_MAX),
            None if offset is None else integer(offset["offset"]),
        )
    except (TypeError, ValueError, KeyError):
        return None


def _check_version(value: bytes) -> None:
    (version,) = struct.unpack_from(">h", value)
    if version != _VERSION:
        raise Mm2FormatError(f"record version {version}; this reader knows {_VERSION}")


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    end = at + 2 + length
    if length < 0 or end > len(data):
        raise Mm2FormatError(f"a string of {length} bytes in {len(data)}")
    return data[at + 2 : end].decode(), end
