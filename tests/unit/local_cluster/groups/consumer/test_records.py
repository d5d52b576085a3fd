"""Records of KIP-848 groups, byte for byte those of Kafka's Java classes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.groups.consumer import records
from local_cluster.groups.consumer.model import ClassicMetadata, MemberState, ResolvedRegex
from local_cluster.groups.records import GroupKey, OffsetKey, decode_key

GOLDEN = Path(__file__).parents[4] / "golden" / "consumer_group_records.txt"
FLIGHTS = uuid.UUID(bytes=(1).to_bytes(8, "big") + (2).to_bytes(8, "big"))


def read_golden() -> dict[str, tuple[bytes, bytes | None]]:
    """Return (key, value) by name."""
    found: dict[str, tuple[bytes, bytes | None]] = {}
    for line in GOLDEN.read_text().splitlines():
        name, key, value = line.split()
        found[name] = (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
    return found


RECORDS = read_golden()
FULL = records.MemberMetadata("i", "r", "c", "/h", (), "fl.*", 1000, "range")
EXPECTED: dict[str, tuple[records.Key, records.Value | None]] = {
    "epoch": (records.GroupEpochKey("boards"), records.GroupEpoch(7, -12345678901)),
    "epoch_without_hash": (records.GroupEpochKey("boards"), records.GroupEpoch(7, 0)),
    "epoch_tombstone": (records.GroupEpochKey("boards"), None),
    "member": (
        records.MemberKey("boards", "m-1"),
        records.MemberMetadata(None, None, "c", "/h", ("a", "b"), "", 300_000, None),
    ),
    "member_full": (records.MemberKey("boards", "m-2"), FULL),
    "member_classic": (
        records.MemberKey("boards", "m-2"),
        FULL._replace(classic=ClassicMetadata(5, ())),
    ),
    "member_classic_protocols": (
        records.MemberKey("boards", "m-1"),
        records.MemberMetadata(
            None,
            None,
            "c",
            "/h",
            ("a", "b"),
            "",
            300_000,
            None,
            ClassicMetadata(45_000, (("range", b"\0\1\2"), ("cooperative-sticky", bytes(200)))),
        ),
    ),
    "member_tombstone": (records.MemberKey("boards", "m-1"), None),
    "target_epoch": (records.TargetEpochKey("boards"), records.TargetEpoch(7, 99)),
    "target": (records.TargetKey("boards", "m-1"), {FLIGHTS: frozenset({0, 1, 200})}),
    "target_of_nothing": (records.TargetKey("boards", "m-1"), {}),
    "current": (
        records.CurrentKey("boards", "m-1"),
        records.Current(
            6, 5, MemberState.UNREVOKED_PARTITIONS, {FLIGHTS: {0: 3, 1: 6}}, {FLIGHTS: {2: 4}}
        ),
    ),
    "current_of_nothing": (
        records.CurrentKey("boards", "m-2"),
        records.Current(-2, 9, MemberState.STABLE, {}, {}),
    ),
    "regex": (
        records.RegexKey("boards", "fl.*"),
        ResolvedRegex(("flights", "flocks"), 17, 1_700_000_000_000),
    ),
    "regex_tombstone": (records.RegexKey("boards", "fl.*"), None),
}


def key_of(key: bytes) -> records.Key:
    decoded = decode_key(key)
    assert decoded is not None
    assert not isinstance(decoded, OffsetKey | GroupKey)
    return decoded


@pytest.mark.parametrize("name", EXPECTED)
def test_written_as_kafka_writes_it(name: str) -> None:
    assert records.encode(*EXPECTED[name]) == RECORDS[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_read_as_kafka_wrote_it(name: str) -> None:
    key, value = RECORDS[name]
    decoded = key_of(key)
    assert decoded == EXPECTED[name][0]
    if value is not None:
        assert records.decode_value(decoded, value) == EXPECTED[name][1]


@pytest.mark.parametrize("name", [name for name, (_, value) in EXPECTED.items() if value])
def test_every_cut_off_record_is_refused(name: str) -> None:
    key, value = RECORDS[name]
    assert value is not None
    # Reading stops before the final tagged fields.
    for size in range(len(value) - 1):
        with pytest.raises(UnreadableRecordError):
            records.decode_value(key_of(key), value[:size])


def test_partitions_without_epochs_get_the_member_epoch() -> None:
    # The format of Kafka before 4.3.
    value = b"\0\0" + b"\0\0\0\5\0\0\0\4\0" + b"\2" + FLIGHTS.bytes + b"\2\0\0\0\7\0" + b"\1\0"
    current = records.decode_value(records.CurrentKey("g", "m"), value)
    assert isinstance(current, records.Current)
    assert current.assigned == {FLIGHTS: {7: 5}}
