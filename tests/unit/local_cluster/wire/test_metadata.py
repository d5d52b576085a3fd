"""`metadata` against kio, whose classes are generated from Kafka's schemas."""

from __future__ import annotations

import uuid

import pytest

from local_cluster.wire import messages, metadata
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, PeerError

VERSIONS = range(metadata.VERSION_MIN, 14)
TOPIC_ID = uuid.UUID(int=0x1234)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topics", [None, [], ["t", "\u00fc"]])
def test_request_bytes_equal_kios(version: int, topics: list[str] | None) -> None:
    kios = messages.encode_request(
        ApiKey.METADATA,
        version,
        {
            "topics": None
            if topics is None
            else [{"name": name, "topic_id": None} for name in topics],
            "allow_auto_topic_creation": True,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        },
    )
    ours = metadata.encode_request(version, topics, allow_auto_topic_creation=True)
    assert ours == kios


def response(version: int, *, controller_id: int = 1, isr: tuple[int, ...] = (1, 2)) -> memoryview:
    """Return kio's bytes of a response about two topics, one of which does not exist."""
    partitions = [
        {
            "error_code": 0,
            "partition_index": index,
            "leader_id": 1,
            "leader_epoch": 5,
            "replica_nodes": (1, 2),
            "isr_nodes": isr,
            "offline_replicas": (7,),
        }
        for index in range(2)
    ]
    found = {"error_code": 0, "name": "t", "topic_id": TOPIC_ID, "is_internal": True}
    absent = {"error_code": 3, "name": "absent", "topic_id": None, "is_internal": False}
    body = messages.encode_response(
        ApiKey.METADATA,
        version,
        {
            "throttle_time": 3,
            "brokers": [
                {"node_id": 1, "host": "h1", "port": 9092, "rack": None},
                {"node_id": 2, "host": "h2", "port": 9093, "rack": "r"},
            ],
            "cluster_id": "c",
            "controller_id": controller_id,
            "topics": [{**found, "partitions": partitions}, {**absent, "partitions": ()}],
            "error_code": 0,
        },
    )
    return memoryview(b"head" + body)


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_what_kio_writes(version: int) -> None:
    frame = response(version, isr=(2,))
    head = metadata.decode_head(version, frame, 4)
    assert list(head.brokers) == [
        metadata.BrokerAddress(1, "h1", 9092),
        metadata.BrokerAddress(2, "h2", 9093, "r"),
    ]
    assert (head.cluster_id, head.controller_id) == ("c" if version >= 2 else None, 1)
    error, topics = metadata.decode_topics(version, frame[head.topics_position :])
    assert not error
    epoch = 5 if version >= 7 else -1
    entries = {
        index: metadata.PartitionMetadata(index, 1, epoch, (1, 2), (2,), ErrorCode.none)
        for index in range(2)
    }
    topic_id = TOPIC_ID if version >= 10 else None
    unknown = ErrorCode.unknown_topic_or_partition
    assert topics == {
        "t": metadata.TopicMetadata("t", topic_id, ErrorCode.none, True, entries),
        "absent": metadata.TopicMetadata("absent", None, unknown, False, {}),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bytes_of_topics_change_only_with_the_topics(version: int) -> None:
    def about_topics(frame: memoryview) -> bytes:
        return bytes(frame[metadata.decode_head(version, frame, 4).topics_position :])

    first = about_topics(response(version))
    assert about_topics(response(version, controller_id=2)) == first
    assert about_topics(response(version, isr=(1,))) != first


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_a_peer_error(version: int) -> None:
    frame = response(version)
    position = metadata.decode_head(version, frame, 4).topics_position
    for end in range(4, len(frame)):
        with pytest.raises(PeerError):
            metadata.decode_head(version, frame[:end], 4)
            metadata.decode_topics(version, frame[position:end])
