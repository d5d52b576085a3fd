"""Each advertised version of each API is requested once, and Java reads each response."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import encode_request_header
from tests.golden.frames import Golden, fields_of, golden
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import run_java

pytestmark = [pytest.mark.real, pytest.mark.oracle]

PROGRAM = str(Path(__file__).parent / "java" / "ReadResponses.java")
ANSWER_SECONDS_MAX = 20.0

# What the golden requests ask for, so that answers have content. By the name of the field.
ASKED: Mapping[str, Any] = {
    "acks": -1,
    "clientSoftwareName": "every-version",
    "clientSoftwareVersion": "1",
    "configOperation": 0,
    "coordinatorKeys": ["g"],
    "count": 2,
    "currentLeaderEpoch": -1,
    "endpointType": 1,
    "fetchOffset": 0,
    "generationId": -1,
    "generationIdOrMemberEpoch": -1,
    "groupId": "g",
    "groupInstanceId": None,
    "groups": ["g"],
    "groupsNames": ["g"],
    "index": 0,
    "isolationLevel": 1,
    "key": "g",
    "keyType": 0,
    "maxBytes": 1_000_000,
    "maxWaitMs": 10,
    "memberId": "",
    "minBytes": 0,
    "name": "t",
    "numPartitions": 1,
    "offset": 0,
    "operation": 3,
    "partition": 0,
    "partitionIndex": 0,
    "partitionIndexes": [0],
    "partitionMaxBytes": 1_000_000,
    "partitions": [0],
    "patternTypeFilter": 1,
    "permissionType": 3,
    "rebalanceTimeoutMs": 10_000,
    "replicaId": -1,
    "replicationFactor": 1,
    "resourceName": "t",
    "resourceType": 2,
    "resourceTypeFilter": 2,
    "sessionEpoch": -1,
    "sessionId": 0,
    "sessionTimeoutMs": 10_000,
    "timeoutMs": 5_000,
    "timestamp": -1,
    "topic": "t",
    "topicName": "t",
    "transactionTimeoutMs": 10_000,
    "transactionalIds": ["x"],
}
ASKED_LAST = (ApiKey.DELETE_RECORDS, ApiKey.DELETE_GROUPS, ApiKey.DELETE_TOPICS)
"""What takes away what the others ask for."""


async def test_java_reads_the_answer_to_every_version(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            assert (await client.create_topics([NewTopic(name="t", partitions=1)]))["t"] is None
            await asyncio.to_thread(run_transactions, broker.bootstrap)
            topic_id = (await client.metadata(["t"])).topics["t"].topic_id
            assert topic_id is not None
        ranges = await advertised(broker)
        answers = []
        for api_key in sorted(ranges, key=lambda key: (key in ASKED_LAST, key)):
            for request in requests(api_key, *ranges[api_key]):
                body = encode(request, base64.urlsafe_b64encode(topic_id.bytes).decode()[:22])
                answers.append((request, await ask(broker, api_key, request.version, body)))
        lines = [f"{int(r.api_key)} {r.version} {frame.hex()}\n" for r, frame in answers]
        told = await run_java(PROGRAM, lines="".join(lines))
        assert len(told.splitlines()) == len(answers)
        for (request, _), line in zip(answers, told.splitlines(), strict=True):
            assert -1 not in set(error_codes(json.loads(line))), f"{request}: {line}"
        assert "Traceback" not in broker.log_text()


def run_transactions(bootstrap: str) -> None:
    """Write aborted transactions and offsets of group "g", so that responses have content."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    at = [confluent_kafka.TopicPartition("t", 0, 1)]
    consumer.assign(at)
    consumer.commit(offsets=at, asynchronous=False)
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), 30)
        producer.abort_transaction(30)
    consumer.close()


async def advertised(broker: BrokerProcess) -> dict[int, tuple[int, int]]:
    """Return the API keys and versions that the broker advertises."""
    async with KafkaClient(broker.bootstrap) as client:
        told = await client.call(ApiKey.API_VERSIONS, {}, version_max=0)
    return {int(e.api_key): (int(e.min_version), int(e.max_version)) for e in told.api_keys}


def requests(api_key: int, min_version: int, max_version: int) -> Iterator[Golden]:
    for line in golden(api_key):
        served = min_version <= line.version <= max_version
        if served and line.kind == "request" and line.variant != "full":
            yield line


def encode(request: Golden, topic_id: str) -> bytes:
    transactional_id = None if request.api_key == ApiKey.PRODUCE else "x"
    asked = {**ASKED, "topicId": topic_id, "transactionalId": transactional_id}
    if request.api_key == ApiKey.JOIN_GROUP:  # a member of another group does not wait for it
        asked["groupId"] = f"joined-{request.version}"

    def override(value: Any, asked: Mapping[str, Any]) -> Any:
        if isinstance(value, list):
            return [override(entry, asked) for entry in value[:1]]
        if isinstance(value, dict):
            if isinstance(value.get("value"), str):
                asked = {**asked, "name": "retention.ms", "value": "1000000"}
            return {
                name: override(inner, asked) if has_fields(inner) else asked.get(name, inner)
                for name, inner in value.items()
            }
        return value

    schema = messages.load_schema(request.api_key, request.version, response=False)
    values = fields_of(schema, override(request.body, asked))
    return messages.encode_request(request.api_key, request.version, values)


def has_fields(value: Any) -> bool:
    """Return whether this is a struct, an array of structs, or an empty array."""
    return isinstance(value, dict) or (
        isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    )


async def ask(broker: BrokerProcess, api_key: int, version: int, body: bytes) -> bytes:
    """Send a request on a new connection; return the frame of the response without its length."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    frame = encode_request_header(api_key, version, 1, "every-version") + body
    try:
        writer.write(struct.pack(">i", len(frame)) + frame)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, TimeoutError, ConnectionError) as error:
        raise AssertionError(f"{ApiKey(api_key).name} v{version} is not answered") from error
    finally:
        writer.close()


def error_codes(answer: Any) -> Iterator[int]:
    """Return all error codes in the response, at any depth."""
    if isinstance(answer, list):
        for entry in answer:
            yield from error_codes(entry)
    elif isinstance(answer, dict):
        for name, value in answer.items():
            if name == "errorCode":
                yield value
            yield from error_codes(value)
