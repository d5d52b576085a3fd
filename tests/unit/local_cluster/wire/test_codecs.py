"""`produce`, `fetch` and `header` against kio, whose classes are generated from Kafka's schemas."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local_cluster.wire import fetch, messages, produce
from local_cluster.wire.api import ApiKey
from local_cluster.wire.current_leader import CurrentLeader, NodeEndpoint
from local_cluster.wire.errors import ErrorCode, PeerError
from local_cluster.wire.header import (
    CLIENT_ID_BYTES_MAX,
    encode_request_header,
    encode_response_header,
    read_request_header,
    read_response_header,
)

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
TOPIC_ID = uuid.UUID(int=0x1234)
NO_ID: uuid.UUID | None = None


def named_topics(version: int) -> tuple[tuple[str, uuid.UUID | None], ...]:
    """Return two topics, by name or by id."""
    if version >= 13:
        return ("", TOPIC_ID), ("", NO_ID)
    return ("t", None), ("u", None)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "tx-\u00fc"])
def test_produce_request_bytes_equal_kios(version: int, transactional_id: str | None) -> None:
    first, second = named_topics(version)
    partitions = [(first, 0, b"abc"), (first, 1, b"x" * 300), (second, 7, b"")]
    request = produce.ProduceRequest(
        transactional_id,
        -1,
        1000,
        [produce.PartitionRecords(t, p, memoryview(r), i) for (t, i), p, r in partitions],
    )
    ours = b"".join(produce.encode_request(version, request))
    kios = messages.encode_request(
        ApiKey.PRODUCE,
        version,
        {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 1000,
            "topic_data": [
                {
                    "name": first[0],
                    "topic_id": first[1],
                    "partition_data": [
                        {"index": 0, "records": b"abc"},
                        {"index": 1, "records": b"x" * 300},
                    ],
                },
                {
                    "name": second[0],
                    "topic_id": second[1],
                    "partition_data": [{"index": 7, "records": b""}],
                },
            ],
        },
    )
    assert ours == kios
    decoded = produce.decode_request(version, memoryview(kios), 0)
    assert decoded.transactional_id == transactional_id
    assert [
        ((e.topic, e.topic_id), e.partition, bytes(e.records or b"")) for e in decoded.partitions
    ] == partitions


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_response_is_readable_by_kio_and_back(version: int) -> None:
    (name, topic_id), _ = named_topics(version)
    answers = [
        produce.PartitionProduceResponse(
            name, 0, 0, 5, 6, 7 if version >= 5 else -1, topic_id=topic_id
        ),
        produce.PartitionProduceResponse(
            name,
            1,
            ErrorCode.invalid_record,
            -1,
            -1,
            -1,
            ((3, "no key"),) if version >= 8 else (),
            "bad" if version >= 8 else None,
            topic_id,
        ),
    ]
    body = produce.encode_response(version, answers)
    assert produce.decode_response(version, memoryview(body), 0) == answers
    kios = messages.decode_response(ApiKey.PRODUCE, version, memoryview(body), 0)
    first, second = kios.responses[0].partition_responses
    assert (first.index, first.base_offset) == (0, 5)
    assert second.error_code == ErrorCode.invalid_record
    if version >= 8:
        assert second.record_errors[0].batch_index == 3


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("replica_id", [-1, 7])
def test_fetch_request_bytes_equal_kios(version: int, replica_id: int) -> None:
    topics = named_topics(version)
    asked = [
        fetch.FetchPartition(
            name,
            index,
            5 if version >= 9 else -1,
            77,
            4 if version >= 12 else -1,
            9 if version >= 5 else -1,
            100,
            topic_id,
        )
        for (name, topic_id), index in ((topics[0], 3), (topics[0], 4), (topics[1], 3))
    ]
    gone = [fetch.ForgottenPartition(topics[0][0], index, topics[0][1]) for index in (1, 2)]
    request = fetch.FetchRequest(
        replica_id,
        500,
        1,
        1_000_000,
        1,
        8 if version >= 7 else 0,
        9 if version >= 7 else -1,
        asked,
        gone if version >= 7 else [],
        "r1" if version >= 11 else "",
    )
    ours = fetch.encode_request(version, request)
    partition = {
        "current_leader_epoch": 5,
        "fetch_offset": 77,
        "last_fetched_epoch": 4,
        "log_start_offset": 9,
        "partition_max_bytes": 100,
    }
    named = [{"topic": name, "topic_id": topic_id} for name, topic_id in topics]
    fields: dict[str, Any] = {
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": -1},
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "isolation_level": 1,
        "session_id": 8,
        "session_epoch": 9,
        "topics": [
            named[0] | {"partitions": [partition | {"partition": index} for index in (3, 4)]},
            named[1] | {"partitions": [partition | {"partition": 3}]},
        ],
        "forgotten_topics_data": [named[0] | {"partitions": [1, 2]}],
        "rack_id": "r1",
    }
    assert ours == messages.encode_request(ApiKey.FETCH, version, fields)
    assert fetch.decode_request(version, memoryview(ours), 0) == request


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_response_bytes_equal_kios_and_back(version: int) -> None:
    start = 1 if version >= 5 else -1
    (name, topic_id), (other, other_id) = named_topics(version)
    answers = [
        fetch.PartitionFetchResponse(
            name, 3, 0, 9, 8, start, [(1, 2)], -1, memoryview(b"recs"), topic_id
        ),
        fetch.PartitionFetchResponse(name, 4, 1, 9, 8, start, [], -1, b"more", topic_id),
        fetch.PartitionFetchResponse(other, 4, 1, 9, 8, start, None, -1, memoryview(b""), other_id),
    ]
    parts = fetch.encode_response(version, answers, error_code=6, session_id=5)
    body = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    error, session_id, partitions = fetch.decode_response(version, memoryview(body), 0)
    assert (error, session_id) == ((6, 5) if version >= 7 else (0, 0))
    assert partitions == answers
    common: dict[str, Any] = {
        "high_watermark": 9,
        "last_stable_offset": 8,
        "log_start_offset": start,
    }
    fields = {
        "error_code": 6,
        "session_id": 5,
        "responses": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [
                    common
                    | {
                        "partition_index": 3,
                        "error_code": 0,
                        "aborted_transactions": [{"producer_id": 1, "first_offset": 2}],
                        "records": b"recs",
                    },
                    common
                    | {
                        "partition_index": 4,
                        "error_code": 1,
                        "aborted_transactions": [],
                        "records": b"more",
                    },
                ],
            },
            {
                "topic": other,
                "topic_id": other_id,
                "partitions": [
                    common
                    | {
                        "partition_index": 4,
                        "error_code": 1,
                        "aborted_transactions": None,
                        "records": b"",
                    }
                ],
            },
        ],
    }
    assert body == messages.encode_response(ApiKey.FETCH, version, fields)


@pytest.mark.parametrize("version", range(12, 19))
def test_fetch_response_has_the_leader_and_the_diverging_epoch(version: int) -> None:
    (name, topic_id), _ = named_topics(version)
    refused = fetch.PartitionFetchResponse(
        name,
        3,
        ErrorCode.fenced_leader_epoch,
        records=memoryview(b""),
        topic_id=topic_id,
        current_leader=CurrentLeader(7, 12),
        diverging_epoch=(5, 99),
    )
    endpoints = [NodeEndpoint(7, "h\u00f6st", 9092, None), NodeEndpoint(8, "b", 1, "r2")]
    body = b"".join(
        bytes(part)  # type: ignore[arg-type]
        for part in fetch.encode_response(version, [refused], node_endpoints=endpoints)
    )
    _, _, (decoded,) = fetch.decode_response(version, memoryview(body), 0)
    assert decoded == refused
    fields: dict[str, Any] = {
        "error_code": 0,
        "responses": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": 3,
                        "error_code": ErrorCode.fenced_leader_epoch,
                        "high_watermark": -1,
                        "aborted_transactions": None,
                        "records": b"",
                        "current_leader": {"leader_id": 7, "leader_epoch": 12},
                        "diverging_epoch": {"epoch": 5, "end_offset": 99},
                    }
                ],
            }
        ],
        "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
    }
    assert body == messages.encode_response(ApiKey.FETCH, version, fields)


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_every_cut_of_a_fetch_request_is_a_peer_error(version: int) -> None:
    (name, topic_id), _ = named_topics(version)
    entry = fetch.FetchPartition(name, 1, -1, 0, -1, -1, 100, topic_id)
    gone = fetch.ForgottenPartition(name, 2, topic_id)
    request = fetch.FetchRequest(7, 1, 1, 1, 0, 3, 4, [entry], [gone], "r")
    body = fetch.encode_request(version, request)
    # Older versions skip the tagged fields at the end without reading them.
    for cut in range(len(body) - (1 if version in (12, 13) else 0)):
        with pytest.raises(PeerError):
            fetch.decode_request(version, memoryview(body[:cut]), 0)


@pytest.mark.parametrize("version", [3, 9])
def test_every_cut_of_a_produce_request_is_a_peer_error(version: int) -> None:
    request = produce.ProduceRequest(
        "t", 1, 5, [produce.PartitionRecords("topic", 0, memoryview(b"abcdef"))]
    )
    body = b"".join(produce.encode_request(version, request))
    for cut in range(len(body) - (1 if version >= 9 else 0)):
        with pytest.raises(PeerError):
            produce.decode_request(version, memoryview(body[:cut]), 0)


def test_array_longer_than_the_frame_is_refused_before_allocating() -> None:
    body = b"\xff\xff" + b"\x00\x01\x00\x00\x00\x05" + b"\x7f\xff\xff\xff"
    with pytest.raises(PeerError, match="array of 2147483647"):
        produce.decode_request(3, memoryview(body), 0)


@pytest.mark.parametrize(
    ("api", "version"), [(ApiKey.METADATA, 5), (ApiKey.METADATA, 9), (ApiKey.API_VERSIONS, 3)]
)
@pytest.mark.parametrize("client_id", [None, "", "rdkafka"])
def test_headers_round_trip(api: ApiKey, version: int, client_id: str | None) -> None:
    encoded = encode_request_header(api, version, 77, client_id)
    header = read_request_header(memoryview(encoded + b"body"))
    assert header[:4] == (api, version, 77, client_id)
    assert header.body_position == len(encoded)
    answer = encode_response_header(api, version, 77)
    assert read_response_header(api, version, memoryview(answer)) == (77, len(answer))


def test_api_versions_response_always_has_header_v0() -> None:
    assert len(encode_response_header(ApiKey.API_VERSIONS, 4, 1)) == 4
    assert len(encode_response_header(ApiKey.METADATA, 9, 1)) == 5


def test_a_client_id_has_so_many_bytes_and_no_more() -> None:
    longest = "c" * CLIENT_ID_BYTES_MAX
    frame = memoryview(bytearray(encode_request_header(ApiKey.METADATA, 0, 1, longest)))
    assert read_request_header(frame).client_id == longest
    frame = memoryview(bytearray(encode_request_header(ApiKey.METADATA, 0, 1, longest + "c")))
    with pytest.raises(PeerError, match=f"client id of {CLIENT_ID_BYTES_MAX + 1} bytes"):
        read_request_header(frame)
