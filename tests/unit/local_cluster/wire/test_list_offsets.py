"""`list_offsets` against bytes that Kafka's Java classes wrote, and against broken ones."""

from __future__ import annotations

import pytest

from local_cluster.wire import list_offsets, messages
from local_cluster.wire.api import FLEXIBLE_SINCE, ApiKey
from local_cluster.wire.errors import PeerError
from local_cluster.wire.list_offsets import AskedPartition, ListedOffset, ListOffsetsRequest
from tests.golden.frames import Golden, check_header, golden

VERSIONS = range(1, 12)


def lines(kind: str) -> pytest.MarkDecorator:
    found = [
        line
        for line in golden(ApiKey.LIST_OFFSETS)
        if line.kind == kind and line.version in VERSIONS
    ]
    assert {line.version for line in found} == set(VERSIONS)
    return pytest.mark.parametrize("line", found, ids=str)


def asked(version: int) -> memoryview:
    """Return the body of a request for two topics, one of them without partitions."""
    fields = {
        "replica_id": -1,
        "isolation_level": 1,
        "topics": [
            {
                "name": "flights",
                "partitions": [{"partition_index": 3, "current_leader_epoch": 5, "timestamp": -1}],
            },
            {"name": "t\u00fc", "partitions": []},
        ],
        "timeout": 1_000,
    }
    return memoryview(messages.encode_request(ApiKey.LIST_OFFSETS, version, fields))


@lines("request")
def test_reads_what_java_writes(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
    request = list_offsets.decode_request(line.version, frame, position)
    assert request == ListOffsetsRequest(
        line.body.get("isolationLevel", 0),
        [
            (
                topic["name"],
                [
                    AskedPartition(
                        entry["partitionIndex"],
                        entry.get("currentLeaderEpoch", -1),
                        entry["timestamp"],
                    )
                    for entry in topic["partitions"]
                ],
            )
            for topic in line.body["topics"]
        ],
    )


@lines("response")
def test_writes_what_java_writes(line: Golden) -> None:
    has_unknown_tags = line.variant == "full"
    if has_unknown_tags and line.version >= FLEXIBLE_SINCE[ApiKey.LIST_OFFSETS]:
        pytest.skip("a broker sends no tagged fields here")
    frame = memoryview(bytearray(line.frame))
    body = bytearray(frame[check_header(line, frame) :])
    if line.version >= list_offsets.ISOLATION_LEVEL_SINCE:
        body[:4] = bytes(4)  # request_time.py writes the throttle time
    topics = [
        (
            topic["name"],
            [
                ListedOffset(
                    entry["partitionIndex"],
                    entry["errorCode"],
                    entry["timestamp"],
                    entry["offset"],
                    entry.get("leaderEpoch", -1),
                )
                for entry in topic["partitions"]
            ],
        )
        for topic in line.body["topics"]
    ]
    assert list_offsets.encode_response(line.version, topics).hex() == body.hex()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_short_is_refused(version: int) -> None:
    body = asked(version)
    assert len(list_offsets.decode_request(version, body, 0).topics) == 2
    for size in range(len(body)):
        with pytest.raises(PeerError):
            list_offsets.decode_request(version, body[:size], 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_in_place_of_topics_is_refused(version: int) -> None:
    flexible = version >= list_offsets.FLEXIBLE_SINCE
    head = bytes(5 if version >= list_offsets.ISOLATION_LEVEL_SINCE else 4)
    body = head + (b"\0" if flexible else b"\xff\xff\xff\xff") + bytes(8)
    with pytest.raises(PeerError, match="null"):
        list_offsets.decode_request(version, memoryview(body), 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_in_place_of_a_name_is_refused(version: int) -> None:
    body = bytes(asked(version))
    flexible = version >= list_offsets.FLEXIBLE_SINCE
    name = b"\x08flights" if flexible else b"\0\x07flights"
    assert body.count(name) == 1
    broken = body.replace(name, b"\0" if flexible else b"\xff\xff")
    with pytest.raises(PeerError, match="name"):
        list_offsets.decode_request(version, memoryview(broken), 0)
