"""kafka-reassign-partitions of Kafka 4.3 moves replicas, unchanged: throttled, under load, and
between log directories."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.replication.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS
from local_cluster.wire.api import ApiKey
from tests.support.java_process import run_java
from tests.support.producing import produce_to
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    end_offset,
    eventually,
    partition_of,
    replica_directory,
    replicas_are_equal,
    running_cluster,
)

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(600)]

TOPIC, BROKER = 2, 4
BATCHES = 40
BATCH_BYTES = 50_000
CRAWL = "1"
"""Bytes per second: after the first answer nothing moves for eleven seconds."""
HURRY = "1000000000"


async def reassign(servers: str, *arguments: str) -> str:
    program = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    return await run_java(program, "--bootstrap-server", servers, *arguments)


async def throttles(client: KafkaClient, node_ids: list[int]) -> dict[str, str]:
    """Return all throttles that are set, by "broker 1 name" or name."""
    told = {}
    for node_id in node_ids:
        resources = [
            {"resource_type": BROKER, "resource_name": str(node_id)},
            {"resource_type": TOPIC, "resource_name": "t"},
        ]
        fields = {"resources": resources}
        answer = await client.call(ApiKey.DESCRIBE_CONFIGS, fields, node_id=node_id)
        of_broker, of_topic = answer.results
        for config in of_broker.configs:
            if "throttled" in config.name:
                told[f"broker {node_id} {config.name}"] = config.value
        for config in of_topic.configs:
            if "throttled" in config.name and config.value:
                told[config.name] = config.value
    return told


async def fill(client: KafkaClient, partition: int) -> None:
    """Produce more than the throttle lets through during the test."""
    at = TopicPartition("t", partition)
    for index in range(BATCHES):
        records = [NewRecord(index, None, b"%d" % index + b"x" * BATCH_BYTES)]
        await produce_to(client, at, encode_batch(records))


async def test_replicas_are_moved_with_a_throttle_under_load(
    zookeeper: str, tmp_path: Path
) -> None:
    # A response has about one batch, so that little passes before the quota applies.
    config = {"replica.fetch.max.bytes": str(BATCH_BYTES)}
    async with (
        running_cluster(zookeeper, tmp_path, config=config) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        servers = bootstrap(brokers)
        await client.create_topics([NewTopic(name="t", assignments={0: (1, 2), 1: (2, 1)})])
        for partition in (0, 1):
            await fill(client, partition)
        asked, plan = tmp_path / "topics.json", tmp_path / "plan.json"
        asked.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
        told = await reassign(
            servers,
            *("--generate", "--topics-to-move-json-file", str(asked), "--broker-list", "2,3"),
        )
        proposed = next(
            line for line in reversed(told.splitlines()) if line.startswith('{"version":1')
        )
        plan.write_text(proposed)
        target = {
            each["partition"]: each["replicas"] for each in json.loads(proposed)["partitions"]
        }
        assert {index: sorted(ids) for index, ids in target.items()} == {0: [2, 3], 1: [2, 3]}

        producers = [IdempotentProducer(servers, "t", index) for index in (0, 1)]
        file = ("--reassignment-json-file", str(plan))
        told = await reassign(servers, *file, "--execute", "--throttle", CRAWL)
        assert "Successfully started partition reassignments for t-0,t-1" in told
        said: dict[str, str] = {}

        async def throttled() -> bool:
            # Each broker hears of it by itself: three with two rates, a topic with two lists.
            said.update(await throttles(client, [1, 2, 3]))
            return len(said) == 8

        await eventually(throttled)
        rates = [f"{side}.replication.throttled.rate" for side in ("follower", "leader")]
        assert {name: value for name, value in said.items() if name.startswith("broker")} == {
            f"broker {node_id} {name}": CRAWL for node_id in (1, 2, 3) for name in rates
        }
        assert sorted(said[LEADER_REPLICAS].split(",")) == ["0:1", "0:2", "1:1", "1:2"]
        assert sorted(said[FOLLOWER_REPLICAS].split(",")) == ["0:3", "1:3"]

        # Producers do not wait for the reassignment.
        await asyncio.gather(*(producer.advance(30) for producer in producers))
        assert "Reassignment of partition t-0 is still in progress." in await reassign(
            servers, *file, "--verify"
        )
        behind = [end_offset(brokers[2], "t", index) for index in (0, 1)]
        assert max(behind) < BATCHES, "broker 3 would have everything without the throttle"

        await reassign(servers, *file, "--execute", "--additional", "--throttle", HURRY)

        async def moved() -> bool:
            found = [await partition_of(client, "t", index) for index in (0, 1)]
            return all(list(each.replicas) == target[i] for i, each in enumerate(found))

        await eventually(moved)
        told = await reassign(servers, *file, "--verify")
        assert "Reassignment of partition t-0 is completed." in told
        assert "Reassignment of partition t-1 is completed." in told

        async def is_free() -> bool:
            return await throttles(client, [1, 2, 3]) == {}

        await eventually(is_free)
        await asyncio.gather(*(producer.advance(10) for producer in producers))
        for producer in producers:
            await producer.stop()
        for index, producer in enumerate(producers):
            await replicas_are_equal(brokers[1:], "t", index)
            read = [each.value async for each in read_topic(client, "t", partition=index)]
            assert [len(value or b"") > BATCH_BYTES for value in read[:BATCHES]] == [True] * BATCHES
            assert read[BATCHES:] == producer.acknowledged


async def test_replicas_are_moved_between_log_directories(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path, brokers=2, log_dirs=("one", "two")) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        servers = bootstrap(brokers)
        await client.create_topics([NewTopic(name="t", assignments={0: (1,)})])
        producer = IdempotentProducer(servers, "t")
        await producer.advance(20)
        before = replica_directory(brokers[0], "t")
        assert before is not None
        (target,) = {Path(each) for each in brokers[0].settings.log_dirs} - {before.parent}
        # One replica changes its directory; another is created in the requested one.
        second = Path(brokers[1].settings.log_dirs[1])
        move = {
            "topic": "t",
            "partition": 0,
            "replicas": [1, 2],
            "log_dirs": [str(target), str(second)],
        }
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
        file = ("--reassignment-json-file", str(plan))
        told = await reassign(servers, *file, "--execute")
        for broker_id, path in ((1, target), (2, second)):
            assert (
                f"Successfully started moving log directory to {path} for replica t-0"
                f" with broker {broker_id}"
            ) in told, told

        def is_moved() -> bool:
            return replica_directory(brokers[0], "t") == target / "t-0"

        await eventually(is_moved)
        await eventually(lambda: all_in_sync(client, "t"))
        told = await reassign(servers, *file, "--verify")
        for replica in ("t-0-1", "t-0-2"):
            assert f"Reassignment of replica {replica} completed successfully." in told
        assert replica_directory(brokers[1], "t") == second / "t-0"
        await producer.advance(10)
        await producer.stop()
        await replicas_are_equal(brokers, "t")
        read = [each.value async for each in read_topic(client, "t")]
        assert read == producer.acknowledged
