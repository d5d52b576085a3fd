"""The record formats against the bytes of Kafka's Java classes (tests/golden/generate)."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.coordinator_runtime.partitioning import java_string_hash, partition_of
from local_cluster.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "group_records.txt"


def golden_records() -> dict[str, tuple[bytes, bytes | None]]:
    records = {}
    for line in GOLDEN.read_text().splitlines():
        name, key, *rest = line.split(" ")
        if name != "hash":
            value = None if rest == ["-"] else bytes.fromhex(rest[0])
            records[name] = (bytes.fromhex(key), value)
    return records


def golden_hashes() -> list[tuple[str, int, int]]:
    lines = [line.split(" ") for line in GOLDEN.read_text().splitlines()]
    return [
        (bytes.fromhex(text).decode(), int(value), int(partition))
        for kind, text, value, partition in (x for x in lines if x[0] == "hash")
        if kind == "hash"
    ]


RECORDS = golden_records()
STABLE_GROUP = StoredGroup(
    protocol_type="consumer",
    generation=1,
    protocol="range",
    leader="m-1",
    current_state_timestamp_ms=1_700_000_000_456,
    members=(
        StoredMember("m-1", None, "client", "/127.0.0.1", 300_000, 45_000, b"sub-1", b"assigned-1"),
        StoredMember("m-2", "instance-2", "client", "/127.0.0.1", 60_000, 10_000, b"", b""),
    ),
)


def value_of(name: str) -> bytes:
    value = RECORDS[name][1]
    assert value is not None
    return value


def test_offset_key_is_kafkas() -> None:
    key = encode_offset_key("boards", "flights", 3)
    assert key == RECORDS["offset"][0]
    assert decode_key(key) == OffsetKey("boards", "flights", 3)
    assert encode_offset_key("g\u00fc", "t", 0) == RECORDS["offset_without_epoch"][0]


def test_offset_value_is_kafkas_v3() -> None:
    value = encode_offset_value(CommittedOffset(12, 9, "meta", 99))
    assert value == value_of("offset_value_v3")


def test_offset_value_with_its_own_expiry_is_kafkas_v1() -> None:
    committed = CommittedOffset(4711, -1, "m", 1_700_000_000_123, 1_700_000_600_000)
    assert encode_offset_value(committed) == value_of("offset_with_expire")
    assert decode_offset_value(value_of("offset_with_expire")) == committed


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, CommittedOffset(12, -1, "meta", 99)),
        (1, CommittedOffset(12, -1, "meta", 99, 100)),
        (2, CommittedOffset(12, -1, "meta", 99)),
        (3, CommittedOffset(12, 9, "meta", 99)),
        (4, CommittedOffset(12, 9, "meta", 99)),
    ],
)
def test_offset_values_of_every_version_are_read(version: int, expected: CommittedOffset) -> None:
    assert decode_offset_value(value_of(f"offset_value_v{version}")) == expected


def test_values_of_kafka_4_are_read() -> None:
    assert decode_offset_value(value_of("offset")) == CommittedOffset(
        4711, 5, "m\u00e9ta", 1_700_000_000_123
    )
    assert decode_offset_value(value_of("offset_without_epoch")) == CommittedOffset(
        0, -1, "", 1_700_000_000_123
    )


def test_group_record_is_kafkas() -> None:
    key, value = RECORDS["group"]
    assert encode_group_key("boards") == key
    assert encode_group_value(STABLE_GROUP) == value
    assert decode_key(key) == GroupKey("boards")
    assert decode_group_value(value_of("group")) == STABLE_GROUP


def test_record_of_an_empty_group_is_kafkas() -> None:
    empty = StoredGroup("connect", 8, None, None, 1_700_000_000_456, ())
    assert encode_group_value(empty) == value_of("group_empty")
    assert decode_group_value(value_of("group_empty")) == empty


def test_tombstone_keys_are_kafkas() -> None:
    assert encode_offset_key("boards", "flights", 3) == RECORDS["offset_tombstone"][0]
    assert encode_group_key("boards") == RECORDS["group_tombstone"][0]


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_every_version_are_read(version: int) -> None:
    group = decode_group_value(value_of(f"group_value_v{version}"))
    assert group.protocol_type == "consumer"
    assert (group.generation, group.protocol, group.leader) == (3, "range", "m-1")
    assert group.current_state_timestamp_ms == (77 if version >= 2 else -1)
    first, second = group.members
    assert first == StoredMember(
        "m-1",
        "i-1" if version >= 3 else None,
        "c",
        "/h",
        20_000 if version >= 1 else 10_000,
        10_000,
        b"s",
        b"a",
    )
    # v0 has one timeout for both purposes.
    assert second.rebalance_timeout_ms == (30_000 if version >= 1 else 15_000)


def test_other_kinds_of_groups_are_left_alone() -> None:
    assert decode_key(RECORDS["newer_group_kind"][0]) is None


@pytest.mark.parametrize("name", ["offset", "offset_with_expire", "group", "group_value_v4"])
def test_every_cut_off_record_is_refused(name: str) -> None:
    key, value = RECORDS[name]
    assert value is not None
    is_group = name.startswith("group")
    for length in range(len(value) - (1 if name in ("offset", "group_value_v4") else 0)):
        with pytest.raises(UnreadableRecordError):
            (decode_group_value if is_group else decode_offset_value)(value[:length])
    for length in range(len(key)):
        with pytest.raises(UnreadableRecordError):
            decode_key(key[:length])


def test_values_of_unknown_versions_are_refused() -> None:
    with pytest.raises(UnreadableRecordError):
        decode_offset_value(b"\0\5" + bytes(40))
    with pytest.raises(UnreadableRecordError):
        decode_group_value(b"\xff\xff" + bytes(40))


@pytest.mark.parametrize(("text", "java_hash", "partition"), golden_hashes())
def test_group_to_partition_is_javas(text: str, java_hash: int, partition: int) -> None:
    assert java_string_hash(text) == java_hash
    assert partition_of(text, 50) == partition
