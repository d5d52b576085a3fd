"""Keys and values of `__consumer_offsets`, byte for byte as Kafka writes them.

Written: offset key v1 with value v3 (v1 where the request set its own retention), group key v2
with value v3. Read: offset keys v0 and v1 with values v0-v4, group key v2 with values v0-v4;
records of other kinds (Kafka's newer group types) are left alone. All integers are big-endian,
strings have an int16 length, bytes an int32 length; the v4 values are flexible (KIP-482).

Source: group-coordinator/src/main/resources/common/message/{OffsetCommitKey, OffsetCommitValue,
GroupMetadataKey, GroupMetadataValue}.json and GroupCoordinatorRecordSerde.java.

Not here: what the records mean (shard.py), batches (local_cluster/records).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    read_unsigned_varint,
    write_string,
)

OFFSET_KEY_VERSIONS: Final = (0, 1)
GROUP_KEY_VERSION: Final = 2
VALUE_VERSION_MAX: Final = 4
VALUE_VERSION_FLEXIBLE: Final = 4
VALUE_VERSION_WRITTEN: Final = 3
VALUE_VERSION_WITH_EXPIRE: Final = 1

STRING_BYTES_MAX: Final = 32_767
"""What an int16 length can say; longer names must be refused before they come here."""

NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_VALUE_HEAD: Final = struct.Struct(">hqi")
_OFFSET_KEY_VERSION: Final = _INT16.pack(1)
_GROUP_KEY_PREFIX: Final = _INT16.pack(GROUP_KEY_VERSION)
_MEMBER_BYTES_MIN: Final = 4
_SHORT: Final = (IndexError, struct.error, PeerError)
"""How the readers of primitives say that the bytes are short or broken."""
_PACK_INT16: Final = _INT16.pack
_PACK_INT32: Final = _INT32.pack


class OffsetKey(NamedTuple):
    """Whose position an offset record is."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Which group a group record describes."""

    group: str


class CommittedOffset(NamedTuple):
    """One committed position; leader epoch and expiry are -1 where the client gave none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP


class StoredMember(NamedTuple):
    """One member as the log keeps it: the metadata is that of the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """One generation of a group as the log keeps it; "" as protocol type means simple consumers."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[StoredMember, ...]


def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Offset key v1."""
    group_bytes = group.encode()
    topic_bytes = topic.encode()
    return b"".join(
        (
            _OFFSET_KEY_VERSION,
            _PACK_INT16(len(group_bytes)),
            group_bytes,
            _PACK_INT16(len(topic_bytes)),
            topic_bytes,
            _PACK_INT32(partition),
        )
    )


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """Offset value v3, or v1 where the position has its own expiry (v1 has no leader epoch)."""
    metadata = committed.metadata.encode()
    timestamp = _INT64.pack(committed.commit_timestamp_ms)
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return (
            _INT16.pack(VALUE_VERSION_WITH_EXPIRE)
            + _INT64.pack(committed.offset)
            + _INT16.pack(len(metadata))
            + metadata
            + timestamp
            + _INT64.pack(committed.expire_timestamp_ms)
        )
    head = _OFFSET_VALUE_HEAD.pack(VALUE_VERSION_WRITTEN, committed.offset, committed.leader_epoch)
    return head + _INT16.pack(len(metadata)) + metadata + timestamp


def encode_group_key(group: str) -> bytes:
    """Group key v2."""
    return _GROUP_KEY_PREFIX + write_string(group, flexible=False)


def encode_group_value(group: StoredGroup) -> bytes:
    """Group value v3."""
    out = bytearray(_INT16.pack(VALUE_VERSION_WRITTEN))
    out += write_string(group.protocol_type, flexible=False)
    out += _INT32.pack(group.generation)
    out += write_string(group.protocol, flexible=False)
    out += write_string(group.leader, flexible=False)
    out += _INT64.pack(group.current_state_timestamp_ms)
    out += _INT32.pack(len(group.members))
    for member in group.members:
        out += write_string(member.member_id, flexible=False)
        out += write_string(member.group_instance_id, flexible=False)
        out += write_string(member.client_id, flexible=False)
        out += write_string(member.client_host, flexible=False)
        out += _INT32.pack(member.rebalance_timeout_ms)
        out += _INT32.pack(member.session_timeout_ms)
        out += _INT32.pack(len(member.subscription))
        out += member.subscription
        out += _INT32.pack(len(member.assignment))
        out += member.assignment
    return bytes(out)


def decode_key(key: bytes) -> OffsetKey | GroupKey | None:
    """What a record is about; None for kinds of records that are not ours to read.

    Raises UnreadableRecordError.
    """
    reader = _Reader(key, flexible=False)
    version = reader.int16()
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return None


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Offset value v0-v4. Raises UnreadableRecordError."""
    version, reader = _open_value(value, "offset")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == VALUE_VERSION_WITH_EXPIRE else NO_TIMESTAMP
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def decode_group_value(value: bytes) -> StoredGroup:
    """Group value v0-v4. Raises UnreadableRecordError."""
    version, reader = _open_value(value, "group")
    return StoredGroup(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        current_state_timestamp_ms=reader.int64() if version >= 2 else NO_TIMESTAMP,
        members=tuple(_read_member(version, reader) for _ in range(reader.array_length())),
    )


def _read_member(version: int, reader: _Reader) -> StoredMember:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = reader.octets()
    assignment = reader.octets()
    reader.skip_tagged_fields_if_flexible()
    return StoredMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        # v0 had one timeout for both.
        session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _open_value(value: bytes, kind: str) -> tuple[int, _Reader]:
    version = _Reader(value, flexible=False).int16()
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise UnreadableRecordError(f"{kind} value of version {version}")
    reader = _Reader(value, flexible=version >= VALUE_VERSION_FLEXIBLE)
    reader.int16()
    return version, reader


class _Reader:
    """Reads one field after another; every way of being short is UnreadableRecordError."""

    __slots__ = ("_buffer", "_flexible", "_position")

    def __init__(self, buffer: bytes, *, flexible: bool) -> None:
        self._buffer = memoryview(buffer)
        self._position = 0
        self._flexible = flexible

    def int16(self) -> int:
        return self._unpack(_INT16)

    def int32(self) -> int:
        return self._unpack(_INT32)

    def int64(self) -> int:
        return self._unpack(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise UnreadableRecordError("null where a string is required")
        return text

    def nullable_string(self) -> str | None:
        try:
            text, self._position = read_string(
                self._buffer, self._position, flexible=self._flexible
            )
        except _SHORT as error:
            raise UnreadableRecordError(f"string at {self._position}: {error}") from error
        return text

    def array_length(self) -> int:
        try:
            length, self._position = read_array_length(
                self._buffer,
                self._position,
                flexible=self._flexible,
                element_bytes_min=_MEMBER_BYTES_MIN,
            )
        except _SHORT as error:
            raise UnreadableRecordError(f"array at {self._position}: {error}") from error
        return max(length, 0)

    def octets(self) -> bytes:
        length = self._varint() - 1 if self._flexible else self.int32()
        end = self._position + length
        if length < 0 or end > len(self._buffer):
            raise UnreadableRecordError(f"{length} bytes at {self._position}")
        out = bytes(self._buffer[self._position : end])
        self._position = end
        return out

    def skip_tagged_fields_if_flexible(self) -> None:
        if not self._flexible:
            return
        for _ in range(self._varint()):
            self._varint()
            self._position += self._varint()

    def _varint(self) -> int:
        try:
            value, self._position = read_unsigned_varint(self._buffer, self._position)
        except _SHORT as error:
            raise UnreadableRecordError(f"varint at {self._position}: {error}") from error
        return value

    def _unpack(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._buffer, self._position)
        except struct.error as error:
            raise UnreadableRecordError(f"integer at {self._position}: {error}") from error
        self._position += layout.size
        number: int = value
        return number
