"""`produce` and `fetch` against bytes that Kafka's Java classes wrote.

Fields that we never send are only read: throttle times and some tagged fields of responses.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from local_cluster.wire import fetch, produce
from local_cluster.wire.api import FLEXIBLE_SINCE, ApiKey
from local_cluster.wire.constants import CONSUMER_REPLICA_ID
from local_cluster.wire.current_leader import CurrentLeader
from tests.golden.frames import Golden, Json, check_header, golden, uuid_of

PRODUCE_TAGGED_SINCE = 10
"""From here on answers may name a new leader (KIP-951)."""


def lines(api_key: ApiKey, kind: str) -> pytest.MarkDecorator:
    found = [line for line in golden(api_key) if line.kind == kind]
    return pytest.mark.parametrize("line", found, ids=str)


def leader_of(entry: Json) -> CurrentLeader | None:
    leader = entry.get("currentLeader")
    return leader and CurrentLeader(leader["leaderId"], leader["leaderEpoch"])


def diverging_of(entry: Json) -> tuple[int, int] | None:
    diverging = entry.get("divergingEpoch")
    return diverging and (diverging["epoch"], diverging["endOffset"])


def topic_of(topic: Json, name: str) -> dict[str, Any]:
    """Return the topic by name or by id, as the version has it."""
    if "topicId" in topic:
        return {"topic": "", "topic_id": uuid_of(topic["topicId"])}
    return {"topic": topic[name]}


@lines(ApiKey.PRODUCE, "request")
def test_produce_request(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
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


@lines(ApiKey.PRODUCE, "response")
def test_produce_response(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
    partitions = [
        produce.PartitionProduceResponse(
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
            current_leader=leader_of(entry),
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


@lines(ApiKey.FETCH, "request")
def test_fetch_request(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
    body = line.body
    request = fetch.FetchRequest(
        replica_id=body.get("replicaState", body).get("replicaId", CONSUMER_REPLICA_ID),
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
        replica_epoch=body.get("replicaState", {}).get("replicaEpoch", -1),
    )
    assert fetch.decode_request(line.version, frame, position) == request
    if line.variant != "full" or line.version < FLEXIBLE_SINCE[ApiKey.FETCH]:
        assert fetch.encode_request(line.version, request).hex() == frame[position:].hex()


@lines(ApiKey.FETCH, "response")
def test_fetch_response(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
    partitions = [
        fetch.PartitionFetchResponse(
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
            current_leader=leader_of(entry),
            diverging_epoch=diverging_of(entry),
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
