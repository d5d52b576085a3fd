"""Our client, and the batches we encode, against Apache Kafka: from Maven here, in a container
where Docker is. The scenario is the same."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.compress import Codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.kafka_container import running_kafka_container
from tests.support.kafka_from_maven import running_kafka
from tests.support.producing import produce_once, produce_to
from tests.support.session_scenario import fetch_in_a_session

pytestmark = [pytest.mark.real, pytest.mark.oracle]


@contextlib.asynccontextmanager
async def from_maven(directory: Path) -> AsyncIterator[str]:
    async with running_kafka(directory) as kafka:
        yield kafka.bootstrap


@contextlib.asynccontextmanager
async def from_container(_: Path) -> AsyncIterator[str]:
    async with running_kafka_container() as kafka:
        yield kafka.bootstrap


@pytest.mark.parametrize(
    "kafka", [from_maven, pytest.param(from_container, marks=pytest.mark.docker)]
)
async def test_client_and_batches_against_kafka(
    kafka: Callable[[Path], AbstractAsyncContextManager[str]], tmp_path: Path
) -> None:
    async with kafka(tmp_path) as bootstrap, KafkaClient(bootstrap) as client:
        await topics(client)
        await fetch_in_a_session(client)
        for codec in Codec:
            await records(client, codec)
        await group_offsets(client)


async def topics(client: KafkaClient) -> None:
    new = NewTopic(name="a", partitions=3, replication_factor=1, configs={"retention.ms": "-1"})
    assert (await client.create_topics([new]))["a"] is None
    again = (await client.create_topics([new]))["a"]
    assert again is not None
    assert again.code == ErrorCode.topic_already_exists
    await leader_of(client, "a")
    cluster = await client.metadata(["a", "absent"])
    assert sorted(cluster.topics["a"].partitions) == [0, 1, 2]
    assert cluster.topics["absent"].error == ErrorCode.unknown_topic_or_partition
    configs = (await client.describe_topic_configs(["a"]))["a"]
    assert configs["retention.ms"] == ("-1", False)
    assert configs["cleanup.policy"] == ("delete", True)
    assert await client.create_partitions({"a": 5}) == {"a": None}
    missing = await client.delete_topics(["absent"])
    assert missing["absent"] is not None


async def leader_of(client: KafkaClient, topic: str) -> int:
    """Return the leader of partition 0, when the brokers know the topic."""
    async with asyncio.timeout(30):
        while True:
            partitions = (await client.metadata([topic])).topics[topic].partitions
            if partitions and all(entry.leader >= 0 for entry in partitions.values()):
                return partitions[0].leader
            await asyncio.sleep(0.05)


async def records(client: KafkaClient, codec: Codec) -> None:
    topic = f"r-{uuid.uuid4().hex[:8]}"
    at = TopicPartition(topic, 0)
    forever = {"retention.ms": "-1"}  # the records are of 1970
    new = NewTopic(name=topic, partitions=1, replication_factor=1, configs=forever)
    await client.create_topics([new])
    leader = await leader_of(client, topic)
    producer_id, epoch = await client.init_producer_id()
    sent: list[NewRecord] = []
    for index in range(3):
        batch = [
            NewRecord(1000 * index + n, None if n % 3 else b"k", b"v" * n, (("h", b"%d" % n),))
            for n in range(1, 50)
        ]
        data = encode_batch(
            batch,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=len(sent),
        )
        # The metadata name a leader a moment before that broker leads.
        assert await produce_to(client, at, data) == len(sent)
        again = await produce_once(client, leader, at, data)
        assert again.base_offset == len(sent), "a retry gets the same offset"
        sent += batch
    read = [NewRecord(*record[1:]) async for record in read_topic(client, topic)]
    assert read == sent
    assert (await client.list_offsets({at: -1}))[at].offset == len(sent)
    assert (await client.list_offsets({at: 1001}))[at].offset == 49
    beyond = (await client.fetch(leader, {at: FetchPosition(10**6)}, wait_ms_max=0))[at]
    assert beyond.error == ErrorCode.offset_out_of_range


async def group_offsets(client: KafkaClient) -> None:
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "m"}
    committed = await client.call_coordinator(
        "g",
        ApiKey.OFFSET_COMMIT,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "a", "partitions": [partition]}],
        },
    )
    assert committed.topics[0].partitions[0].error_code == ErrorCode.none
    fetched = await client.call_coordinator(
        "g",
        ApiKey.OFFSET_FETCH,
        {
            "group_id": "g",
            "topics": [{"name": "a", "partition_indexes": [0, 1]}],
            "require_stable": False,
        },
    )
    offsets = [
        (int(entry.committed_offset), entry.metadata) for entry in fetched.topics[0].partitions
    ]
    assert offsets == [(2, "m"), (-1, "")]
