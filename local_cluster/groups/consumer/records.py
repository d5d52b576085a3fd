"""Records of KIP-848 groups in `__consumer_offsets`, byte for byte as Kafka writes them.

    key (version, fields)                                value v0, all flexible
    3  ConsumerGroupMetadata: group                      epoch; tag 0 hash of the topics' metadata
    5  ConsumerGroupMemberMetadata: group, member        the member's metadata
    6  ConsumerGroupTargetAssignmentMetadata: group      epoch; tag 0 timestamp
    7  ConsumerGroupTargetAssignmentMember: group, member  topic partitions
    8  ConsumerGroupCurrentMemberAssignment: group, member  epochs, state, topic partitions
    16 ConsumerGroupRegularExpression: group, regex      topics, version, timestamp

Key 4 (ConsumerGroupPartitionMetadata), written by Kafka before 4.1, is not read: the hash replaces
it. Tag 0 of the member's value has the session timeout and the protocols of a classic member.
Source: group-coordinator/src/main/resources/common/message/ConsumerGroup*.json.
"""

from __future__ import annotations

import struct
import uuid
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import StoredRecord, UnreadableRecordError
from local_cluster.groups.consumer.model import (
    Assignment,
    ClassicMetadata,
    EpochedAssignment,
    MemberState,
    ResolvedRegex,
)
from local_cluster.groups.record_reader import RecordReader
from local_cluster.wire.primitives import write_string, write_unsigned_varint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_VERSION: Final = _INT16.pack(0)
_NO_TAGS: Final = b"\0"
_NO_CLASSIC_METADATA: Final = b"\1\0\1\0"
"""Tagged field 0 with one byte that means null; without it the field would be empty."""


class GroupEpochKey(NamedTuple):
    """The key of the group epoch."""

    group: str


class MemberKey(NamedTuple):
    """The key of a member's metadata."""

    group: str
    member: str


class TargetEpochKey(NamedTuple):
    """The key of the target epoch."""

    group: str


class TargetKey(NamedTuple):
    """The key of a member's target assignment."""

    group: str
    member: str


class CurrentKey(NamedTuple):
    """The key of a member's current assignment."""

    group: str
    member: str


class RegexKey(NamedTuple):
    """The key of a resolved regular expression."""

    group: str
    regex: str


class GroupEpoch(NamedTuple):
    """The value of GroupEpochKey."""

    epoch: int
    metadata_hash: int = 0


class MemberMetadata(NamedTuple):
    """The value of MemberKey."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMetadata | None = None


class TargetEpoch(NamedTuple):
    """The value of TargetEpochKey."""

    epoch: int
    timestamp_ms: int = 0


class Current(NamedTuple):
    """The value of CurrentKey."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: EpochedAssignment
    pending_revocation: EpochedAssignment


Key = GroupEpochKey | MemberKey | TargetEpochKey | TargetKey | CurrentKey | RegexKey
Value = GroupEpoch | MemberMetadata | TargetEpoch | Assignment | Current | ResolvedRegex

_KEY_VERSIONS: Final[dict[type[Key], int]] = {
    GroupEpochKey: 3,
    MemberKey: 5,
    TargetEpochKey: 6,
    TargetKey: 7,
    CurrentKey: 8,
    RegexKey: 16,
}
_KEY_TYPES: Final = {version: key_type for key_type, version in _KEY_VERSIONS.items()}


def encode(key: Key, value: Value | None) -> StoredRecord:
    """Encode one record; None as value is a tombstone."""
    key_bytes = _INT16.pack(_KEY_VERSIONS[type(key)]) + b"".join(
        write_string(field, flexible=False) for field in key
    )
    return StoredRecord(key_bytes, None if value is None else _VERSION + _encode_value(value))


def decode_key(version: int, reader: RecordReader) -> Key | None:
    """Decode a key whose version was read already; None for other kinds."""
    key_type = _KEY_TYPES.get(version)
    if key_type is None:
        return None
    return key_type(*(reader.string() for _ in key_type._fields))


def decode_value(key: Key, value: bytes) -> Value:
    """Decode the value of a key. Raises UnreadableRecordError."""
    reader = RecordReader(value, flexible=True)
    version = reader.int16()
    if version != 0:
        raise UnreadableRecordError(f"unknown version {version} of a value of {type(key).__name__}")
    match key:
        case GroupEpochKey():
            epoch = reader.int32()
            return GroupEpoch(epoch, _tagged_int64(reader))
        case MemberKey():
            metadata = MemberMetadata(
                reader.nullable_string(),
                reader.nullable_string(),
                reader.string(),
                reader.string(),
                tuple(reader.string() for _ in range(reader.array_length(1))),
                reader.nullable_string(),
                reader.int32(),
                reader.nullable_string(),
            )
            return metadata._replace(classic=_read_classic(reader.tagged_fields().get(0)))
        case TargetEpochKey():
            epoch = reader.int32()
            return TargetEpoch(epoch, _tagged_int64(reader))
        case TargetKey():
            return {
                topic_id: frozenset(partitions)
                for topic_id, partitions in _read_assignment(reader, -1).items()
            }
        case CurrentKey():
            member_epoch = reader.int32()
            previous = reader.int32()
            number = reader.int8()
            known = {state.value for state in MemberState}
            return Current(
                member_epoch,
                previous,
                MemberState(number) if number in known else MemberState.UNKNOWN,
                _read_assignment(reader, member_epoch),
                _read_assignment(reader, member_epoch),
            )
        case RegexKey():
            topics = tuple(reader.string() for _ in range(reader.array_length(1)))
            return ResolvedRegex(topics, reader.int64(), reader.int64())


def _encode_value(value: Value) -> bytes:
    match value:
        case GroupEpoch(epoch, metadata_hash):
            return _INT32.pack(epoch) + _tagged(metadata_hash)
        case TargetEpoch(epoch, timestamp_ms):
            return _INT32.pack(epoch) + _tagged(timestamp_ms)
        case MemberMetadata():
            return b"".join(
                (
                    _string(value.instance_id),
                    _string(value.rack_id),
                    _string(value.client_id),
                    _string(value.client_host),
                    _strings(value.topic_names),
                    _string(value.topic_regex),
                    _INT32.pack(value.rebalance_timeout_ms),
                    _string(value.server_assignor),
                    _classic(value.classic),
                )
            )
        case Current():
            return b"".join(
                (
                    _INT32.pack(value.member_epoch),
                    _INT32.pack(value.previous_member_epoch),
                    bytes((value.state.value,)),
                    _epoched(value.assigned),
                    _epoched(value.pending_revocation),
                    _NO_TAGS,
                )
            )
        case ResolvedRegex():
            times = _INT64.pack(value.version) + _INT64.pack(value.timestamp_ms)
            return _strings(value.topics) + times + _NO_TAGS
        case _:
            topics = [
                topic_id.bytes + _int32s(sorted(value[topic_id])) + _NO_TAGS
                for topic_id in sorted(value)
            ]
            return _count(len(topics)) + b"".join(topics) + _NO_TAGS


def _classic(classic: ClassicMetadata | None) -> bytes:
    """Encode tagged fields with the metadata of a classic member."""
    if classic is None:
        return _NO_CLASSIC_METADATA
    protocols = b"".join(
        _string(name) + _count(len(metadata)) + metadata + _NO_TAGS
        for name, metadata in classic.protocols
    )
    timeout = _INT32.pack(classic.session_timeout_ms)
    # The first byte says that the field is not null.
    fields = b"\1" + timeout + _count(len(classic.protocols)) + protocols + _NO_TAGS
    return b"\1\0" + write_unsigned_varint(len(fields)) + fields


def _read_classic(tag: memoryview | None) -> ClassicMetadata | None:
    if tag is None:
        return None
    reader = RecordReader(tag, flexible=True)
    if reader.int8() < 1:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.array_length(3)):
        protocols.append((reader.string(), reader.octets()))
        reader.tagged_fields()
    return ClassicMetadata(session_timeout_ms, tuple(protocols))


def _epoched(assignment: EpochedAssignment) -> bytes:
    out = bytearray(_count(len(assignment)))
    for topic_id in sorted(assignment):
        partitions = sorted(assignment[topic_id])
        epochs = _int32s([assignment[topic_id][partition] for partition in partitions])
        out += topic_id.bytes + _int32s(partitions)
        out += b"\1\0" + write_unsigned_varint(len(epochs)) + epochs
    return bytes(out)


def _read_assignment(reader: RecordReader, default_epoch: int) -> dict[uuid.UUID, dict[int, int]]:
    found: dict[uuid.UUID, dict[int, int]] = {}
    for _ in range(reader.array_length(18)):
        topic_id = reader.uuid()
        partitions = [reader.int32() for _ in range(reader.array_length(4))]
        epochs = [default_epoch] * len(partitions)
        tag = reader.tagged_fields().get(0)
        if tag is not None:
            tagged = RecordReader(tag, flexible=True)
            epochs = [tagged.int32() for _ in range(tagged.array_length(4))]
            if len(epochs) != len(partitions):
                raise UnreadableRecordError(
                    f"{len(epochs)} epochs for {len(partitions)} partitions"
                )
        found[topic_id] = dict(zip(partitions, epochs, strict=True))
    return found


def _tagged(number: int) -> bytes:
    """Encode tagged fields with an int64 of tag 0, or without it if it is 0."""
    return _NO_TAGS if number == 0 else b"\1\0\x08" + _INT64.pack(number)


def _tagged_int64(reader: RecordReader) -> int:
    tag = reader.tagged_fields().get(0)
    return 0 if tag is None else RecordReader(tag, flexible=True).int64()


def _string(text: str | None) -> bytes:
    return write_string(text, flexible=True)


def _strings(texts: tuple[str, ...]) -> bytes:
    return _count(len(texts)) + b"".join(_string(text) for text in texts)


def _int32s(numbers: list[int]) -> bytes:
    return _count(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers)


def _count(count: int) -> bytes:
    return write_unsigned_varint(count + 1)
