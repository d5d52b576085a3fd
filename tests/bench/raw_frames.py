"""Whole request frames, built once and sent many times, so that the client costs little.

The versions are the newest that name topics by name: the frames are the same for both systems.
The correlation id is always 0: answers of one connection come in order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Final

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import fetch as fetch_codec
from local_cluster.wire import header as headers
from local_cluster.wire import messages
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import CONSUMER_REPLICA_ID
from local_cluster.wire.errors import ErrorCode

PRODUCE_VERSION: Final = 11
FETCH_VERSION: Final = 12
OFFSET_COMMIT_VERSION: Final = 8
FIND_COORDINATOR_VERSION: Final = 3
METADATA_VERSION: Final = 12
SASL_HANDSHAKE_VERSION: Final = 1
SASL_AUTHENTICATE_VERSION: Final = 1
"""The newest whose header and fields have no tags."""
CLIENT_ID: Final = "bench"
RECORD_BYTES: Final = 1_000
FETCH_BYTES_MAX: Final = 52_428_800
NONE, LZ4 = 0, 3


def make_batch(records: int, *, codec: int = NONE, record_bytes: int = RECORD_BYTES) -> bytes:
    """A batch of records that compress to about half, as JSON of measurements does."""
    rng = random.Random(1)
    # Of today, else retention takes them away while they are read.
    first_ms = int(time.time() * 1000)
    values = [rng.randbytes(record_bytes // 2).hex().encode() for _ in range(records)]
    return bytes(
        encode_batch(
            [NewRecord(first_ms + i, None, value) for i, value in enumerate(values)],
            codec=codec,
        )
    )


def batch_of(record: NewRecord) -> bytes:
    """A batch of one record, lz4."""
    return bytes(encode_batch([record], codec=LZ4))


def records_that_fit(batch_bytes: int) -> int:
    """How many records of RECORD_BYTES a producer puts into a batch of that size."""
    one, two = len(make_batch(1)), len(make_batch(2))
    return 1 + (batch_bytes - one) // (two - one + 2)


def produce_frame(topic: str, batches: Mapping[int, bytes], *, acks: int = -1) -> bytes:
    """A Produce of one batch per partition."""
    request = produce_codec.ProduceRequest(
        None,
        acks,
        30_000,
        [
            produce_codec.PartitionRecords(topic, partition, memoryview(batch))
            for partition, batch in batches.items()
        ],
    )
    body = produce_codec.encode_request(PRODUCE_VERSION, request)
    return _frame(ApiKey.PRODUCE, PRODUCE_VERSION, b"".join(body))


def fetch_frame(
    topic: str,
    positions: Mapping[int, int],
    *,
    partition_bytes_max: int,
    bytes_min: int = 1,
    wait_ms_max: int = 500,
) -> bytes:
    """A Fetch outside of sessions: partition -> offset."""
    request = fetch_codec.FetchRequest(
        CONSUMER_REPLICA_ID,
        wait_ms_max,
        bytes_min,
        FETCH_BYTES_MAX,
        0,
        0,
        -1,
        [
            fetch_codec.FetchPartition(topic, partition, -1, offset, -1, -1, partition_bytes_max)
            for partition, offset in positions.items()
        ],
        (),
        "",
    )
    body = fetch_codec.encode_request(FETCH_VERSION, request)
    return _frame(ApiKey.FETCH, FETCH_VERSION, body)


def offset_commit_frame(group: str, topic: str, offsets: Mapping[int, int]) -> bytes:
    """An OffsetCommit from outside of the group protocol, as a consumer with `assign` sends."""
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for partition, offset in offsets.items()
                ],
            }
        ],
    }
    body = messages.encode_request(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, fields)
    return _frame(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, body)


def find_coordinator_frame(group: str) -> bytes:
    """FindCoordinator: the first one has the broker make __consumer_offsets."""
    fields = {"key": group, "key_type": 0}
    api, version = ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION
    return _frame(api, version, messages.encode_request(api, version, fields))


def api_versions_frame() -> bytes:
    """ApiVersions v0, which every broker answers."""
    return _frame(ApiKey.API_VERSIONS, 0, b"")


def sasl_handshake_frame(mechanism: str) -> bytes:
    """SaslHandshake, after which messages of SASL have headers."""
    api, version = ApiKey.SASL_HANDSHAKE, SASL_HANDSHAKE_VERSION
    return _frame(api, version, messages.encode_request(api, version, {"mechanism": mechanism}))


def sasl_authenticate_frame(message: bytes) -> bytes:
    """SaslAuthenticate with one message of the client."""
    api, version = ApiKey.SASL_AUTHENTICATE, SASL_AUTHENTICATE_VERSION
    return _frame(api, version, len(message).to_bytes(4, "big") + message)


def sasl_message(answer: memoryview) -> bytes:
    """The broker's message in an answer to SaslAuthenticate. Raises RuntimeError."""
    # Header (correlation id), error code, nullable message of the error.
    _refuse(int.from_bytes(answer[4:6], "big", signed=True), "SaslAuthenticate")
    at = 8 + max(int.from_bytes(answer[6:8], "big", signed=True), 0)
    size = int.from_bytes(answer[at : at + 4], "big")
    return bytes(answer[at + 4 : at + 4 + size])


def metadata_frame() -> bytes:
    """Metadata of the brokers alone."""
    return _metadata_frame([])


def all_topics_frame() -> bytes:
    """Metadata of every topic."""
    return _metadata_frame(None)


def _metadata_frame(topics: Sequence[str] | None) -> bytes:
    fields = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    body = messages.encode_request(ApiKey.METADATA, METADATA_VERSION, fields)
    return _frame(ApiKey.METADATA, METADATA_VERSION, body)


def produced(answer: memoryview) -> Sequence[produce_codec.PartitionProduceResponse]:
    """The partitions of a Produce answer. Raises RuntimeError on an error code."""
    _, position = headers.read_response_header(ApiKey.PRODUCE, PRODUCE_VERSION, answer)
    partitions = produce_codec.decode_response(PRODUCE_VERSION, answer, position)
    for entry in partitions:
        _refuse(entry.error_code, "Produce")
    return partitions


def produce_error_position(topic: str) -> int:
    """Where in a Produce answer of one partition its error code lies; 0 is the good one.

    Header (correlation id, no tags), one topic, its name, one partition, its index.
    """
    assert len(topic) < 127, "a length of one byte"
    return 4 + 1 + 1 + 1 + len(topic) + 1 + 4


def fetched(answer: memoryview) -> Sequence[fetch_codec.PartitionFetchResponse]:
    """The partitions of a Fetch answer. Raises RuntimeError on an error code."""
    _, position = headers.read_response_header(ApiKey.FETCH, FETCH_VERSION, answer)
    error, _, partitions = fetch_codec.decode_response(FETCH_VERSION, answer, position)
    _refuse(error, "Fetch")
    for entry in partitions:
        _refuse(entry.error_code, "Fetch")
    return partitions


def check_committed(answer: memoryview) -> None:
    """Raises RuntimeError unless the OffsetCommit was accepted for each partition."""
    api, version = ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION
    _, position = headers.read_response_header(api, version, answer)
    response = messages.decode_response(api, version, answer, position)
    for topic in response.topics:
        for partition in topic.partitions:
            _refuse(partition.error_code, "OffsetCommit")


def brokers_named(answer: memoryview) -> int:
    """How many brokers a Metadata answer names."""
    _, position = headers.read_response_header(ApiKey.METADATA, METADATA_VERSION, answer)
    response = messages.decode_response(ApiKey.METADATA, METADATA_VERSION, answer, position)
    return len(response.brokers)


def check_topics(answer: memoryview) -> None:
    """Raises RuntimeError if a topic or a partition of a Metadata answer has an error."""
    _, position = headers.read_response_header(ApiKey.METADATA, METADATA_VERSION, answer)
    response = messages.decode_response(ApiKey.METADATA, METADATA_VERSION, answer, position)
    for topic in response.topics:
        _refuse(topic.error_code, "Metadata")
        for partition in topic.partitions:
            _refuse(partition.error_code, "Metadata")


def _frame(api: ApiKey, version: int, body: bytes) -> bytes:
    header = headers.encode_request_header(api, version, 0, CLIENT_ID)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def _refuse(error_code: int, what: str) -> None:
    if error_code:
        raise RuntimeError(f"{what} was answered with {ErrorCode(error_code).name}")
