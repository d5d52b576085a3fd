"""Tools of Kafka 2.8.2 write into ZooKeeper, and our controller acts on it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import running_broker
from tests.support.kafka_in_zookeeper_mode import (
    OLDEST_VERSION,
    run_old_tool,
    zookeeper_mode_command,
)
from tests.support.producing import produce_once
from tests.support.replicas import eventually, leader_of

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]

TOPICS = "kafka.admin.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = "kafka.admin.PreferredReplicaLeaderElectionCommand"


async def test_what_tools_write_into_zookeeper_is_acted_on(zookeeper: str, tmp_path: Path) -> None:
    zookeeper_mode_command(OLDEST_VERSION, TOPICS)  # skips the test if it is unavailable
    connect = f"{zookeeper}/t{uuid.uuid4().hex[:8]}"
    config = {"auto.leader.rebalance.enable": "false"}
    async with (
        running_broker(connect, tmp_path, broker_id=1, config=config) as one,
        running_broker(connect, tmp_path, broker_id=2, config=config) as two,
        KafkaClient(f"{one.bootstrap},{two.bootstrap}") as client,
    ):

        async def leaders() -> list[int]:
            topic = (await client.metadata(["a"])).topics["a"]
            return [p.leader for _, p in sorted(topic.partitions.items())]

        # kafka-topics.sh --create
        await run_old_tool(
            TOPICS, "--zookeeper", connect, "--create", "--topic", "a",
            "--replica-assignment", "1:2,2:1", "--config", "retention.ms=100000",
        )  # fmt: skip
        await eventually(lambda: _is(leaders, [1, 2]))
        found = (await client.describe_topic_configs(["a"]))["a"]
        assert found["retention.ms"] == ("100000", False)
        at = TopicPartition("a", 1)
        batch = encode_batch([NewRecord(0, None, b"v")])
        assert (await produce_once(client, 2, at, batch)).error == ErrorCode.none
        # kafka-topics.sh --alter
        await run_old_tool(
            TOPICS, "--zookeeper", connect, "--alter", "--topic", "a", "--partitions", "3",
            "--replica-assignment", "1:2,2:1,2:1",
        )  # fmt: skip
        await eventually(lambda: _is(leaders, [1, 2, 2]))
        # kafka-configs.sh --alter
        await run_old_tool(
            CONFIGS, "--zookeeper", connect, "--alter", "--entity-type", "topics",
            "--entity-name", "a", "--add-config", "retention.ms=7000,cleanup.policy=compact",
        )  # fmt: skip

        async def is_configured() -> bool:
            found = (await client.describe_topic_configs(["a"]))["a"]
            return (found["retention.ms"][0], found["cleanup.policy"][0]) == ("7000", "compact")

        await eventually(is_configured)
        # kafka-preferred-replica-election.sh
        await two.stop()
        await eventually(lambda: _is(leaders, [1, 1, 1]))
        await two.start()

        async def all_in_sync() -> bool:
            topic = (await client.metadata(["a"])).topics["a"]
            return all(len(p.isr) == 2 for p in topic.partitions.values())

        await eventually(all_in_sync)
        assert await leaders() == [1, 1, 1]
        await run_old_tool(ELECTION, "--zookeeper", connect)
        await eventually(lambda: _is(leaders, [1, 2, 2]))
        leader = await leader_of([one, two], client, "a", 1)
        fetched = await client.fetch(leader.settings.broker_id, {at: FetchPosition(0)})
        assert fetched[at].high_watermark == 1
        # kafka-topics.sh --delete
        await run_old_tool(TOPICS, "--zookeeper", connect, "--delete", "--topic", "a")

        async def is_gone() -> bool:
            topic = (await client.metadata(["a"])).topics["a"]
            return topic.error is ErrorCode.unknown_topic_or_partition

        await eventually(is_gone)
        await eventually(lambda: not [*one.log_dir.glob("a-?"), *two.log_dir.glob("a-?")])


async def _is(leaders: Callable[[], Awaitable[list[int]]], wanted: list[int]) -> bool:
    return await leaders() == wanted
