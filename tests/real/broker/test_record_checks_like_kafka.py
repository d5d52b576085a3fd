"""The same bytes produced to Apache Kafka and to us: the same errors, the same record errors."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import NewTopic
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import running_broker
from tests.support.compacted_batches import encode_cleaned
from tests.support.kafka_from_maven import running_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]

NOW_MS: Final = int(time.time() * 1000)
DAY_MS: Final = 86_400_000
NOT_YET: Final = {ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition}
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "full": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "narrow": {
        "message.timestamp.before.max.ms": str(DAY_MS),
        "message.timestamp.after.max.ms": str(DAY_MS),
    },
    "small": {"max.message.bytes": "500"},
}


def made(
    count: int = 3,
    *,
    codec: int = 0,
    key: bytes | None = b"k",
    at_ms: int = NOW_MS,
    value: bytes = b"v",
    **fields: int,
) -> bytearray:
    records = [NewRecord(at_ms + index, key, value) for index in range(count)]
    return encode_batch(records, codec=codec, **fields)


def patched(form: str, position: int, value: int, batch: bytearray | None = None) -> bytearray:
    """Return a batch with one field changed and a valid CRC."""
    buffer = batch or made()
    struct.pack_into(form, buffer, position, value)
    h.patch_crc(buffer, 0)
    return buffer


def with_payload(payload: bytes, *, codec: int = 0, count: int = 3) -> bytearray:
    """Return a valid header with any payload, with its CRC and length."""
    buffer = made(count)[: h.HEADER_BYTES] + payload
    struct.pack_into(">i", buffer, 8, len(buffer) - h.LOG_OVERHEAD_BYTES)
    struct.pack_into(">h", buffer, 21, codec)
    h.patch_crc(buffer, 0)
    return buffer


def shifted() -> bytearray:
    """Return a batch whose second record has the offset delta of the first."""
    batch = made(2)
    half = h.HEADER_BYTES + (len(batch) - h.HEADER_BYTES) // 2
    batch[half + 3] = 0
    h.patch_crc(batch, 0)
    return batch


def old_message(magic: int) -> bytes:
    """Return a message set of one message in format 0 or 1."""
    body = struct.pack(">bb", magic, 0)
    if magic:
        body += struct.pack(">q", NOW_MS)
    body += struct.pack(">i1si1s", 1, b"k", 1, b"v")
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def broken_crc() -> bytearray:
    batch = made()
    batch[-1] ^= 1
    return batch


def keyless(*keys: bytes | None) -> bytearray:
    return encode_batch([NewRecord(NOW_MS, key, b"v") for key in keys])


TOMBSTONES: Final = [NewRecord(NOW_MS + at, b"k", None) for at in (3, 0, 2)]
CASES: Final[Mapping[str, tuple[str, bytes | bytearray]]] = {
    **{f"codec {number}": ("full", made(codec=number)) for number in range(5)},
    "broken crc": ("full", broken_crc()),
    "half a header": ("full", made()[:30]),
    "a length that is too large": ("full", patched(">i", 8, 5000)),
    "a length that is too small": ("full", patched(">i", 8, 30)),
    "format 0": ("full", old_message(0)),
    "format 1": ("full", old_message(1)),
    "format 3": ("full", patched(">b", 16, 3)),
    "a base offset": ("full", patched(">q", 0, 5)),
    "count too large": ("full", patched(">i", 57, 4)),
    "count too small": ("full", patched(">i", 57, 2)),
    "count and delta too large": ("full", patched(">i", 23, 3, patched(">i", 57, 4))),
    "count and delta too small": ("full", patched(">i", 23, 1, patched(">i", 57, 2))),
    "no records at all": ("full", with_payload(b"", count=1)),
    "count of zero": ("full", patched(">i", 23, -1, patched(">i", 57, 0))),
    "delta too large": ("full", patched(">i", 23, 5)),
    "largest time too late": ("full", patched(">q", 35, NOW_MS + 50)),
    "largest time too early": ("full", patched(">q", 35, NOW_MS + 1)),
    "an offset delta that repeats": ("full", shifted()),
    "garbage for records": ("full", with_payload(b"\xff" * 40)),
    "garbage behind the records": ("full", with_payload(bytes(made()[h.HEADER_BYTES :]) + b"xx")),
    "garbage for gzip": ("full", with_payload(b"\xff" * 40, codec=1)),
    "garbage in gzip": ("full", with_payload(gzip.compress(b"\xff" * 40), codec=1)),
    "garbage for lz4": ("full", with_payload(b"\xff" * 40, codec=3)),
    "garbage for zstd": ("full", with_payload(b"\xff" * 40, codec=4)),
    "garbage for snappy": ("full", with_payload(b"\xff" * 40, codec=2)),
    "codec 5": ("full", patched(">h", 21, 5)),
    "codec 7": ("full", patched(">h", 21, 7)),
    "two batches": ("full", made() + made()),
    "a control batch": ("full", patched(">h", 21, h.CONTROL_BIT)),
    "a transactional batch without a transaction": (
        "full",
        made(attributes=h.TRANSACTIONAL_BIT, producer_id=1, producer_epoch=0, base_sequence=0),
    ),
    "log append time from a client": ("full", patched(">h", 21, h.TIMESTAMP_TYPE_BIT)),
    "a producer without a sequence": ("full", made(producer_id=1, producer_epoch=0)),
    "no bytes": ("full", b""),
    "keys everywhere": ("compacted", keyless(b"a", b"", b"c")),
    "a key missing": ("compacted", keyless(b"a", None, b"c")),
    "keys missing": ("compacted", keyless(None, b"b", None)),
    "times that the broker sets": ("append-time", made(at_ms=5)),
    "times that lie, but the broker sets them": ("append-time", patched(">q", 35, 7)),
    "young enough": ("narrow", made()),
    "too old": ("narrow", made(at_ms=NOW_MS - 2 * DAY_MS)),
    "too far in the future": ("narrow", made(at_ms=NOW_MS + 2 * DAY_MS)),
    "the last record too far in the future": (
        "narrow",
        encode_batch([NewRecord(NOW_MS, b"k", b"v"), NewRecord(NOW_MS + 2 * DAY_MS, b"k", b"v")]),
    ),
    **{
        f"a base timestamp that is no record's, {topic}, codec {number}": (
            topic,
            encode_cleaned(TOMBSTONES, horizon_ms=base_ms, has_bit=False, codec=number),
        )
        for number in range(5)
        for topic, base_ms in (("full", NOW_MS + 7 * DAY_MS), ("narrow", NOW_MS + 7 * DAY_MS))
    },
    "a base timestamp that is no record's, and a record too old": (
        "narrow",
        encode_cleaned(
            [NewRecord(NOW_MS - 2 * DAY_MS, b"k", None), *TOMBSTONES],
            horizon_ms=NOW_MS + DAY_MS,
            has_bit=False,
        ),
    ),
    "a delete horizon with its bit": ("full", encode_cleaned(TOMBSTONES, horizon_ms=NOW_MS)),
    "small enough": ("small", made(value=b"v")),
    "too large": ("small", made(value=b"v" * 300)),
    "too large before compression": ("small", made(value=b"v" * 3000, codec=1)),
}

_NONE, _UNKNOWN = ErrorCode.none, ErrorCode.unknown_server_error
_RECORD, _TIME = ErrorCode.invalid_record, ErrorCode.invalid_timestamp
DEVIATIONS: Final[Mapping[str, tuple[ErrorCode, ErrorCode]]] = {
    "largest time too late": (_NONE, _TIME),
    "largest time too early": (_NONE, _TIME),
    "log append time from a client": (_NONE, _TIME),
    "a delete horizon with its bit": (_NONE, _RECORD),
    "an offset delta that repeats": (_NONE, _RECORD),
    "garbage for records": (_UNKNOWN, _RECORD),
    "garbage for gzip": (_UNKNOWN, _RECORD),
    "garbage for lz4": (_UNKNOWN, _RECORD),
    "garbage for zstd": (_UNKNOWN, _RECORD),
    "garbage for snappy": (_UNKNOWN, _RECORD),
    "codec 5": (_UNKNOWN, ErrorCode.unsupported_compression_type),
    "codec 7": (_UNKNOWN, ErrorCode.unsupported_compression_type),
}
"""(Kafka, ours), each of them told in log/validate.py."""


class Answer(NamedTuple):
    code: ErrorCode
    blamed: tuple[int, ...]


async def answers(bootstrap: str, configs: Mapping[str, str]) -> dict[str, Answer]:
    async with KafkaClient(bootstrap) as client:
        topics = [
            NewTopic(name=name, partitions=1, replication_factor=1, configs={**own, **configs})
            for name, own in TOPICS.items()
        ]
        created = await client.create_topics(topics)
        assert set(created.values()) == {None}, created
    found = {}
    for name, (topic, records) in CASES.items():
        found[name] = await produce(bootstrap, topic, records)
    return found


async def produce(bootstrap: str, topic: str, records: bytes | bytearray) -> Answer:
    host, port = bootstrap.split(":")
    version = 9
    view = memoryview(records)
    request = codec.ProduceRequest(None, -1, 10_000, [codec.PartitionRecords(topic, 0, view)])
    line = await connect(host, int(port), client_id="t", timeout_ms=10_000)
    try:
        while True:
            frame, position = await line.send(
                ApiKey.PRODUCE, version, codec.encode_request(version, request)
            )
            (answer,) = codec.decode_response(version, frame, position)
            if answer.error_code not in NOT_YET:
                break
    finally:
        await line.close()
    blamed = tuple(index for index, _ in answer.record_errors)
    return Answer(ErrorCode(answer.error_code), blamed)


@pytest.fixture
async def both(
    zookeeper: str, tmp_path: Path
) -> AsyncIterator[tuple[dict[str, Answer], dict[str, Answer]]]:
    async with running_kafka(tmp_path / "kafka") as kafka:
        theirs = await answers(kafka.bootstrap, {})
    async with running_broker(zookeeper, tmp_path) as broker:
        ours = await answers(broker.bootstrap, {"heliograph.record.check": "full"})
    yield theirs, ours


async def test_each_case_has_kafkas_response(
    both: tuple[dict[str, Answer], dict[str, Answer]],
) -> None:
    theirs, ours = both
    different = {
        name: (theirs[name].code, ours[name].code) for name in CASES if theirs[name] != ours[name]
    }
    assert different == dict(DEVIATIONS)
