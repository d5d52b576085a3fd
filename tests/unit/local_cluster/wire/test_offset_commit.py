"""`offset_commit` against kio, whose classes are generated from Kafka's schemas."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local_cluster.wire import messages, offset_commit
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import PeerError

VERSIONS = range(2, 11)
TOPIC_ID = uuid.UUID(int=0x1234)


def named(version: int, name: str, topic_id: uuid.UUID | None) -> dict[str, Any]:
    return {"topic_id": topic_id} if version >= 10 else {"name": name}


def kios_request(version: int) -> memoryview:
    """Return a request for two topics: with metadata, with empty metadata, with null."""
    entries = [
        {
            "partition_index": index,
            "committed_offset": 2**40 + index,
            "committed_leader_epoch": 7 + index,
            "committed_metadata": metadata,
        }
        for index, metadata in enumerate(["m\u00e9ta", "", None])
    ]
    fields = {
        "group_id": "gr\u00fcppe",
        "generation_id_or_member_epoch": 3,
        "member_id": "m",
        "group_instance_id": "i",
        "retention_time": 5_000,
        "topics": [
            {**named(version, "t", TOPIC_ID), "partitions": entries},
            {**named(version, "u", None), "partitions": []},
        ],
    }
    frame = messages.encode_request(ApiKey.OFFSET_COMMIT, version, fields)
    return memoryview(bytearray(frame))


def decoded(version: int) -> offset_commit.OffsetCommitRequest:
    return offset_commit.decode_request(version, kios_request(version), 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_what_kio_writes(version: int) -> None:
    request = decoded(version)
    assert request[:4] == ("gr\u00fcppe", 3, "m", "i" if version >= 7 else None)
    assert request.retention_ms == (5_000 if version <= 4 else -1)
    first, second = request.topics
    assert first[:2] == (("", TOPIC_ID) if version >= 10 else ("t", None))
    assert second == (("", None, []) if version >= 10 else ("u", None, []))
    assert [tuple(entry) for entry in first.partitions] == [
        (0, 2**40, 7 if version >= 6 else -1, "m\u00e9ta"),
        (1, 2**40 + 1, 8 if version >= 6 else -1, ""),
        (2, 2**40 + 2, 9 if version >= 6 else -1, None),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_response_bytes_equal_kios(version: int) -> None:
    ours = offset_commit.encode_response(version, decoded(version), (0, 16, -1))
    entries = [
        {"partition_index": index, "error_code": code} for index, code in enumerate((0, 16, -1))
    ]
    fields = {
        "topics": [
            {**named(version, "t", TOPIC_ID), "partitions": entries},
            {**named(version, "u", None), "partitions": []},
        ]
    }
    assert ours == messages.encode_response(ApiKey.OFFSET_COMMIT, version, fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_a_peer_error(version: int) -> None:
    frame = kios_request(version)
    for size in range(len(frame)):
        with pytest.raises(PeerError):
            offset_commit.decode_request(version, frame[:size], 0)


def test_a_missing_group_is_a_peer_error() -> None:
    with pytest.raises(PeerError):
        offset_commit.decode_request(8, memoryview(b"\0" + b"\0" * 4 + b"\1\0\1\0"), 0)
