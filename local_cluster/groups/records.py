"""Keys and values of `__consumer_offsets`, byte for byte as Kafka writes them.

Written: offset key v1 with value v3 (v1 if the request set its own retention), group key v2 with
value v3. Read: offset keys v0 and v1 with values v0-v4, group key v2 with values v0-v4. The records
of KIP-848 groups are in `consumer/records.py`; those of share and streams groups are skipped. All
integers are big-endian, strings have an int16 length, bytes an int32 length; the v4 values are
flexible (KIP-482).

Source: group-coordinator/src/main/resources/common/message/{OffsetCommitKey, OffsetCommitValue,
GroupMetadataKey, GroupMetadataValue}.json and GroupCoordinatorRecordSerde.java.

Not here: the meaning of the records (shard.py), batches (local_cluster/records).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.groups.consumer import records as consumer_records
from local_cluster.groups.record_reader import RecordReader
from local_cluster.records.header import NO_TIMESTAMP
from local_cluster.wire.primitives import write_string

OFFSET_KEY_VERSIONS: Final = (0, 1)
GROUP_KEY_VERSION: Final = 2
VALUE_VERSION_MAX: Final = 4
VALUE_VERSION_FLEXIBLE: Final = 4
VALUE_VERSION_WRITTEN: Final = 3
VALUE_VERSION_WITH_EXPIRE: Final = 1

STRING_BYTES_MAX: Final = 32_767
"""The maximum of an int16 length; longer names must be refused earlier."""

NO_LEADER_EPOCH: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_VALUE_HEAD: Final = struct.Struct(">hqi")
_OFFSET_KEY_VERSION: Final = _INT16.pack(1)
_OFFSET_VALUE_VERSION_WRITTEN: Final = _INT16.pack(VALUE_VERSION_WRITTEN)
_GROUP_KEY_PREFIX: Final = _INT16.pack(GROUP_KEY_VERSION)
_MEMBER_BYTES_MIN: Final = 4
_PACK_INT16: Final = _INT16.pack
_PACK_INT32: Final = _INT32.pack


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """The key of a group record."""

    group: str


class CommittedOffset(NamedTuple):
    """One committed offset; leader epoch and expiry are -1 if the client gave none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP


class StoredMember(NamedTuple):
    """One member as the log stores it, with its metadata of the selected protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """One generation of a group as the log stores it; simple consumers have protocol type ""."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[StoredMember, ...]

    def with_instance(self, group_instance_id: str, member_id: str) -> StoredGroup:
        """Return the generation with a new member id for a static member, if it has that member."""
        for index, member in enumerate(self.members):
            if member.group_instance_id == group_instance_id:
                members = list(self.members)
                members[index] = member._replace(member_id=member_id)
                leader = member_id if self.leader == member.member_id else self.leader
                return self._replace(leader=leader, members=tuple(members))
        return self


def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Encode offset key v1."""
    return offset_key_of(encode_offset_key_prefix(group, topic), partition)


def encode_offset_key_prefix(group: str, topic: str) -> bytes:
    """Encode the common prefix of the keys of a topic's partitions."""
    group_bytes = group.encode()
    topic_bytes = topic.encode()
    return b"".join(
        (
            _OFFSET_KEY_VERSION,
            _PACK_INT16(len(group_bytes)),
            group_bytes,
            _PACK_INT16(len(topic_bytes)),
            topic_bytes,
        )
    )


def offset_key_of(prefix: bytes, partition: int) -> bytes:
    """Return the key of one partition."""
    return prefix + _PACK_INT32(partition)


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """Encode offset value v3, or v1 with an expiry of its own (v1 has no leader epoch)."""
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
    """Encode group key v2."""
    return _GROUP_KEY_PREFIX + write_string(group, flexible=False)


def encode_group_value(group: StoredGroup) -> bytes:
    """Encode group value v3."""
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


def decode_key(key: bytes) -> OffsetKey | GroupKey | consumer_records.Key | None:
    """Decode the key of a record; None for unknown kinds of records.

    Raises UnreadableRecordError.
    """
    if key.startswith(_OFFSET_KEY_VERSION):
        return _decode_offset_key(key)
    reader = RecordReader(key, flexible=False)
    version = reader.int16()
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return consumer_records.decode_key(version, reader)


def _decode_offset_key(key: bytes) -> OffsetKey:
    """Decode key v1 without a reader: a log is mostly offsets, and a load reads all of them."""
    try:
        (group_bytes,) = _INT16.unpack_from(key, 2)
        topic_at = 4 + group_bytes
        (topic_bytes,) = _INT16.unpack_from(key, topic_at)
        partition_at = topic_at + 2 + topic_bytes
        (partition,) = _INT32.unpack_from(key, partition_at)
        if group_bytes < 0 or topic_bytes < 0:
            raise UnreadableRecordError("the group or topic of an offset key is null")
        group, topic = key[4:topic_at].decode(), key[topic_at + 2 : partition_at].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreadableRecordError(f"offset key: {error}") from error
    return OffsetKey(group, topic, partition)


def _decode_offset_value_v3(value: bytes) -> CommittedOffset:
    """Decode value v3 without a reader: this broker writes it."""
    try:
        _, offset, leader_epoch = _OFFSET_VALUE_HEAD.unpack_from(value, 0)
        (metadata_bytes,) = _INT16.unpack_from(value, _OFFSET_VALUE_HEAD.size)
        metadata_at = _OFFSET_VALUE_HEAD.size + 2
        timestamp_at = metadata_at + metadata_bytes
        (timestamp_ms,) = _INT64.unpack_from(value, timestamp_at)
        if metadata_bytes < 0:
            raise UnreadableRecordError("the metadata of an offset value is null")
        metadata = value[metadata_at:timestamp_at].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreadableRecordError(f"offset value: {error}") from error
    return CommittedOffset(offset, leader_epoch, metadata, timestamp_ms)


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Decode offset value v0-v4. Raises UnreadableRecordError."""
    if value.startswith(_OFFSET_VALUE_VERSION_WRITTEN):
        return _decode_offset_value_v3(value)
    version, reader = _open_value(value, "offset")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == VALUE_VERSION_WITH_EXPIRE else NO_TIMESTAMP
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def decode_group_value(value: bytes) -> StoredGroup:
    """Decode group value v0-v4. Raises UnreadableRecordError."""
    version, reader = _open_value(value, "group")
    return StoredGroup(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        current_state_timestamp_ms=reader.int64() if version >= 2 else NO_TIMESTAMP,
        members=tuple(
            _read_member(version, reader) for _ in range(reader.array_length(_MEMBER_BYTES_MIN))
        ),
    )


def _read_member(version: int, reader: RecordReader) -> StoredMember:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = reader.octets()
    assignment = reader.octets()
    reader.tagged_fields()
    return StoredMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        # v0 has one timeout for both.
        session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _open_value(value: bytes, kind: str) -> tuple[int, RecordReader]:
    version = RecordReader(value, flexible=False).int16()
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise UnreadableRecordError(f"unknown version {version} of a value of kind {kind}")
    reader = RecordReader(value, flexible=version >= VALUE_VERSION_FLEXIBLE)
    reader.int16()
    return version, reader
