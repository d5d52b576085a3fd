"""Every message of every version that we serve, byte for byte as Kafka's Java classes write it.

The frames and what is in them as JSON come from `tests/golden/generate/Messages.java`: the names
and values of the JSON go through our encoder and must give Java's bytes; Java's bytes go through
our decoder and must give the JSON's values.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import pytest
from kio.index import load_request_schema, load_response_schema

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import advertised_apis
from local_cluster.wire import fetch, messages, produce, shape
from local_cluster.wire.api import FLEXIBLE_SINCE, ApiKey
from local_cluster.wire.header import (
    encode_request_header,
    encode_response_header,
    read_request_header,
    read_response_header,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "messages"
CORRELATION_ID = 4711
CLIENT_ID = "golden-cl\u00efent"
PRODUCE_TAGGED_SINCE = 10
"""From here on answers may name a new leader (KIP-951)."""
Json = Mapping[str, Any]


class Golden(NamedTuple):
    """One line of a golden file."""

    api_key: int
    kind: str
    version: int
    variant: str
    frame: bytes
    body: Json

    def __str__(self) -> str:
        return f"{ApiKey(self.api_key).name}-{self.kind}-v{self.version}-{self.variant}"


@lru_cache
def golden(api_key: int) -> list[Golden]:
    (path,) = GOLDEN.glob(f"{api_key:02d}_*.txt")
    lines = (line.split(" ", 4) for line in path.read_text("utf-8").splitlines())
    return [
        Golden(api_key, kind, int(version), variant, bytes.fromhex(frame), json.loads(body))
        for kind, version, variant, frame, body in lines
    ]


def served() -> Iterator[Golden]:
    for handler in advertised_apis():
        for line in golden(handler.api_key):
            if handler.min_version <= line.version <= handler.max_version:
                yield line


def test_every_version_that_is_served_has_golden_frames() -> None:
    for handler in advertised_apis():
        for kind in ("request", "response"):
            known = {line.version for line in golden(handler.api_key) if line.kind == kind}
            assert set(range(handler.min_version, handler.max_version + 1)) <= known


@pytest.mark.parametrize("line", list(served()), ids=str)
def test_as_java_writes_it(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
    body = bytes(frame[position:])
    if (line.api_key, line.kind) in BY_HAND:
        BY_HAND[line.api_key, line.kind](line, frame, position)
        return
    request = line.kind == "request"
    schema = (load_request_schema if request else load_response_schema)(line.api_key, line.version)
    encode = messages.encode_request if request else messages.encode_response
    decode = messages.decode_request if request else messages.decode_response
    values = fields_of(schema, line.body)
    assert encode(line.api_key, line.version, values).hex() == body.hex()
    check_values(decode(line.api_key, line.version, frame, position), values)


def check_header(line: Golden, frame: memoryview) -> int:
    """The header's bytes are ours too; where the body starts."""
    if line.kind == "response":
        correlation_id, position = read_response_header(line.api_key, line.version, frame)
        assert correlation_id == CORRELATION_ID
        ours = encode_response_header(line.api_key, line.version, CORRELATION_ID)
    else:
        header = read_request_header(frame)
        position = header.body_position
        assert header == (line.api_key, line.version, CORRELATION_ID, CLIENT_ID, position)
        ours = encode_request_header(line.api_key, line.version, CORRELATION_ID, CLIENT_ID)
    assert ours == bytes(frame[:position])
    return position


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match[1].lower(), name)


def fields_of(schema: Any, body: Json) -> dict[str, Any]:
    """Kafka's JSON as the mapping of field names that our encoder takes."""
    left = {snake(name).removesuffix("_ms"): value for name, value in body.items()}
    hints = get_type_hints(schema)
    values = {}
    for field in fields(schema):
        name = field.name.removesuffix("_ms")
        if name in left:
            values[field.name] = value_of(
                left.pop(name), hints[field.name], field.metadata.get("kafka_type", "")
            )
    assert not left, f"{schema.__module__} has no such field"
    return values


def value_of(value: Any, hint: Any, kafka_type: str) -> Any:
    nested = shape.nested_schema(hint)
    if isinstance(value, list):
        element = nested or kafka_type
        return [
            fields_of(element, entry) if nested else value_of(entry, None, kafka_type)
            for entry in value
        ]
    if nested and value is not None:
        return fields_of(nested, value)
    if value is not None and kafka_type in ("bytes", "records"):
        return base64.b64decode(value)
    if kafka_type == "uuid":
        found = uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
        return found if found.int else None
    return value


def check_values(told: Any, values: Any) -> None:
    """What was decoded has these values; it may have more fields (tagged ones at their default)."""
    if is_dataclass(told):
        for name, value in values.items():
            check_values(getattr(told, name), value)
    elif isinstance(told, tuple):
        assert len(told) == len(values)
        for entry, value in zip(told, values, strict=True):
            check_values(entry, value)
    elif isinstance(told, datetime.timedelta | datetime.datetime):
        assert messages.ms(told) == values
    else:
        assert told == values


def topic_of(topic: Json, name: str) -> dict[str, Any]:
    """The topic as it is named in this version: by name or by id."""
    if "topicId" in topic:
        return {"topic": "", "topic_id": value_of(topic["topicId"], None, "uuid")}
    return {"topic": topic[name]}


def produce_request(line: Golden, frame: memoryview, position: int) -> None:
    request = produce.ProduceRequest(
        line.body["transactionalId"],
        line.body["acks"],
        line.body["timeoutMs"],
        [
            produce.PartitionRecords(
                **topic_of(topic, "name"),
                partition=entry["index"],
                records=memoryview(base64.b64decode(entry["records"])),
            )
            for topic in line.body["topicData"]
            for entry in topic["partitionData"]
        ],
    )
    assert produce.decode_request(line.version, frame, position) == request
    assert b"".join(produce.encode_request(line.version, request)) == bytes(frame[position:])


def produce_response(line: Golden, frame: memoryview, position: int) -> None:
    partitions = [
        produce.PartitionProduced(
            **topic_of(topic, "name"),
            partition=entry["index"],
            error_code=entry["errorCode"],
            base_offset=entry["baseOffset"],
            log_append_time_ms=entry["logAppendTimeMs"],
            log_start_offset=entry.get("logStartOffset", -1),
            record_errors=tuple(
                (error["batchIndex"], error["batchIndexErrorMessage"])
                for error in entry.get("recordErrors", ())
            ),
            error_message=entry.get("errorMessage"),
        )
        for topic in line.body["responses"]
        for entry in topic["partitionResponses"]
    ]
    told = produce.decode_response(line.version, frame, position)
    assert told == partitions
    if line.variant != "full" or line.version < PRODUCE_TAGGED_SINCE:
        body = bytearray(frame[position:])
        end = len(body) - (1 if line.version >= FLEXIBLE_SINCE[ApiKey.PRODUCE] else 0)
        body[end - 4 : end] = bytes(4)  # we never throttle
        assert produce.encode_response(line.version, partitions).hex() == body.hex()


def fetch_request(line: Golden, frame: memoryview, position: int) -> None:
    body = line.body
    request = fetch.FetchRequest(
        replica_id=body.get("replicaState", body).get("replicaId", fetch.CONSUMER),
        wait_ms_max=body["maxWaitMs"],
        bytes_min=body["minBytes"],
        bytes_max=body["maxBytes"],
        isolation_level=body["isolationLevel"],
        session_id=body.get("sessionId", 0),
        session_epoch=body.get("sessionEpoch", -1),
        partitions=[
            fetch.FetchPartition(
                **topic_of(topic, "topic"),
                partition=entry["partition"],
                current_leader_epoch=entry.get("currentLeaderEpoch", -1),
                fetch_offset=entry["fetchOffset"],
                last_fetched_epoch=entry.get("lastFetchedEpoch", -1),
                log_start_offset=entry.get("logStartOffset", -1),
                partition_bytes_max=entry["partitionMaxBytes"],
            )
            for topic in body["topics"]
            for entry in topic["partitions"]
        ],
        forgotten=[
            fetch.ForgottenPartition(**topic_of(topic, "topic"), partition=partition)
            for topic in body.get("forgottenTopicsData", ())
            for partition in topic["partitions"]
        ],
        rack_id=body.get("rackId", ""),
    )
    assert fetch.decode_request(line.version, frame, position) == request
    if line.variant != "full" or line.version < FLEXIBLE_SINCE[ApiKey.FETCH]:
        assert fetch.encode_request(line.version, request).hex() == frame[position:].hex()


def fetch_response(line: Golden, frame: memoryview, position: int) -> None:
    partitions = [
        fetch.PartitionFetched(
            **topic_of(topic, "topic"),
            partition=entry["partitionIndex"],
            error_code=entry["errorCode"],
            high_watermark=entry["highWatermark"],
            last_stable_offset=entry["lastStableOffset"],
            log_start_offset=entry.get("logStartOffset", -1),
            aborted_transactions=[
                (aborted["producerId"], aborted["firstOffset"])
                for aborted in entry["abortedTransactions"]
            ],
            preferred_read_replica=entry.get("preferredReadReplica", -1),
            records=memoryview(base64.b64decode(entry["records"])),
        )
        for topic in line.body["responses"]
        for entry in topic["partitions"]
    ]
    error_code, session_id = line.body.get("errorCode", 0), line.body.get("sessionId", 0)
    told = fetch.decode_response(line.version, frame, position)
    assert told == (error_code, session_id, partitions)
    if line.variant != "full" or line.version < FLEXIBLE_SINCE[ApiKey.FETCH]:
        body = bytearray(frame[position:])
        body[:4] = bytes(4)  # we never throttle
        ours = fetch.encode_response(
            line.version, partitions, error_code=error_code, session_id=session_id
        )
        parts = [bytes(part) for part in ours if isinstance(part, bytes | memoryview)]
        assert b"".join(parts).hex() == body.hex()


BY_HAND = {
    (ApiKey.PRODUCE, "request"): produce_request,
    (ApiKey.PRODUCE, "response"): produce_response,
    (ApiKey.FETCH, "request"): fetch_request,
    (ApiKey.FETCH, "response"): fetch_response,
}
