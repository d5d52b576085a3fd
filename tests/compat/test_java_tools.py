"""Kafka's own command line tools of 4.3 (Java clients) against our broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import confluent_kafka
import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import find_handler
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import run_java

pytestmark = [pytest.mark.real, pytest.mark.oracle]

RECORDS = 1_000
DESCRIBE_ACLS = 29


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


async def plain_tool(name: str, *arguments: str) -> str:
    """Run a tool with its own option for the broker; return its output."""
    return await run_java(f"org.apache.kafka.tools.{name}", *arguments)


async def tool(broker: BrokerProcess, name: str, *arguments: str, lines: str = "") -> str:
    """Run a tool; return its output. A failure shows its errors."""
    program = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
    return await run_java(program, "--bootstrap-server", broker.bootstrap, *arguments, lines=lines)


async def test_console_producer_and_consumer(broker: BrokerProcess) -> None:
    await tool(broker, "TopicCommand", "--create", "--topic", "numbers", "--partitions", "3")
    numbers = [str(number) for number in range(RECORDS)]
    await tool(
        broker, "ConsoleProducer", "--topic", "numbers", lines="".join(f"{n}\n" for n in numbers)
    )
    arguments = ["--topic", "numbers", "--group", "g", "--max-messages", str(RECORDS)]
    told = await tool(broker, "consumer.ConsoleConsumer", *arguments, "--from-beginning")
    assert sorted(told.split(), key=int) == numbers
    described = await tool(
        broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "g"
    )
    rows = [line.split() for line in described.splitlines() if line.startswith("g ")]
    assert sorted(row[2] for row in rows) == ["0", "1", "2"]
    assert sum(int(row[3]) for row in rows) == RECORDS, "committed when it was closed"
    deleted = await tool(
        broker,
        "consumer.group.ConsumerGroupCommand",
        *("--delete-offsets", "--group", "g", "--topic", "numbers:1"),
    )
    assert "Successful" in deleted
    described = await tool(
        broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "g"
    )
    rows = [line.split() for line in described.splitlines() if line.startswith("g ")]
    assert sorted(row[2] for row in rows) == ["0", "2"]


async def test_delete_records_and_log_dirs(broker: BrokerProcess, tmp_path: Path) -> None:
    await tool(broker, "TopicCommand", "--create", "--topic", "t", "--partitions", "1")
    await tool(broker, "ConsoleProducer", "--topic", "t", lines="1\n2\n3\n")
    offsets = tmp_path / "offsets.json"
    asked = {"topic": "t", "partition": 0, "offset": 2}
    offsets.write_text(json.dumps({"version": 1, "partitions": [asked]}))
    told = await tool(broker, "DeleteRecordsCommand", "--offset-json-file", str(offsets))
    assert "low_watermark: 2" in told
    told = await tool(broker, "GetOffsetShell", "--topic", "t", "--time", "earliest")
    assert told.split() == ["t:0:2"]
    told = await tool(broker, "LogDirsCommand", "--describe", "--topic-list", "t")
    described = json.loads(next(line for line in told.splitlines() if line.startswith("{")))
    (directory,) = described["brokers"][0]["logDirs"]
    assert [each["partition"] for each in directory["partitions"]] == ["t-0"]
    assert directory["partitions"][0]["size"] > 0


async def test_configs_are_altered(broker: BrokerProcess) -> None:
    await tool(broker, "TopicCommand", "--create", "--topic", "t", "--partitions", "1")
    resource = ["--entity-type", "topics", "--entity-name", "t"]
    command = "kafka.admin.ConfigCommand"
    await tool(broker, command, "--alter", *resource, "--add-config", "retention.ms=7,segment.ms=9")
    await tool(broker, command, "--alter", *resource, "--delete-config", "segment.ms")
    told = await tool(broker, command, "--describe", *resource)
    assert "retention.ms=7" in told
    assert "segment.ms" not in told


async def test_dynamic_broker_configs(broker: BrokerProcess) -> None:
    name = "kafka.admin.ConfigCommand"
    of_all = ("--entity-type", "brokers", "--entity-default")
    retention = "log.retention.ms=3600000"
    altered = await tool(broker, name, "--alter", *of_all, "--add-config", retention)
    assert "Completed updating default config for brokers in the cluster" in altered
    described = await tool(broker, name, "--describe", *of_all)
    assert f"{retention} sensitive=false" in described
    assert f"DYNAMIC_DEFAULT_BROKER_CONFIG:{retention}" in described


async def test_topics_are_described(broker: BrokerProcess) -> None:
    await tool(
        broker,
        "TopicCommand",
        *("--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=77"),
    )
    told = await tool(broker, "TopicCommand", "--describe", "--topic", "t")
    assert "PartitionCount: 2" in told
    assert "retention.ms=77" in told
    await tool(broker, "TopicCommand", "--alter", "--topic", "t", "--partitions", "5")
    assert "PartitionCount: 5" in await tool(broker, "TopicCommand", "--describe", "--topic", "t")


async def test_client_compatibility_test(broker: BrokerProcess) -> None:
    """Kafka's check of a broker's features for its newest clients."""
    await tool(broker, "TopicCommand", "--create", "--topic", "t", "--partitions", "1")
    supported = ["offsets-for-times", "cluster-id", "create-topics", "describe-configs"]
    told = await tool(
        broker,
        "ClientCompatibilityTest",
        *("--topic", "t", "--num-cluster-nodes", "1", "--idempotent-producer-supported", "True"),
        *("--expect-record-too-large-exception", "False"),
        *("--describe-acls-supported", str(find_handler(DESCRIBE_ACLS) is not None)),
        *(word for name in supported for word in (f"--{name}-supported", "True")),
    )
    assert "SUCCESS" in told


async def test_the_cluster_is_described(broker: BrokerProcess) -> None:
    bootstrap = ("--bootstrap-server", broker.bootstrap)
    told = await tool(broker, "BrokerApiVersionsCommand")
    assert "Metadata(3): 0 to 13 [usable: 13]" in told
    assert "UNKNOWN" not in told, "Java knows each advertised API"
    assert "Cluster ID: " in await plain_tool("ClusterTool", "cluster-id", *bootstrap)
    told = await plain_tool("ClusterTool", "list-endpoints", *bootstrap)
    assert told.splitlines()[1].split()[:3] == ["1", "127.0.0.1", str(broker.port)]
    told = await tool(broker, "FeatureCommand", "describe")
    assert {line.split()[1] for line in told.splitlines()} == {
        "group.version",
        "transaction.version",
    }
    told = await tool(broker, "reassign.ReassignPartitionsCommand", "--list")
    assert "No partition reassignments found." in told


async def test_groups_are_reset_and_deleted(broker: BrokerProcess) -> None:
    command = "consumer.group.ConsumerGroupCommand"
    await tool(broker, "TopicCommand", "--create", "--topic", "t", "--partitions", "1")
    await tool(broker, "ConsoleProducer", "--topic", "t", lines="1\n2\n3\n")
    reset = ["--reset-offsets", "--group", "g", "--topic", "t", "--execute"]
    assert (await tool(broker, command, *reset, "--to-latest")).split()[-4:] == ["g", "t", "0", "3"]
    assert (await tool(broker, command, *reset, "--shift-by", "-2")).split()[-1] == "1"
    assert (await tool(broker, command, "--list", "--state")).split()[-2:] == ["g", "Empty"]
    assert (await tool(broker, "GroupsCommand", "--list")).split()[-2:] == ["g", "Classic"]
    assert "successful" in await tool(broker, command, "--delete", "--group", "g")
    assert (await tool(broker, command, "--list")).split() == []


async def test_a_hanging_transaction_is_seen_and_aborted(broker: BrokerProcess) -> None:
    await tool(broker, "TopicCommand", "--create", "--topic", "t", "--partitions", "1")
    command = "TransactionsCommand"
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "hangs"}
    )
    await asyncio.to_thread(producer.init_transactions, 30)
    producer.begin_transaction()
    producer.produce("t", b"never committed")
    assert await asyncio.to_thread(producer.flush, 30) == 0
    listed = (await tool(broker, command, "list")).split()
    assert (listed[-4], listed[-1]) == ("hangs", "Ongoing")
    described = await tool(broker, command, "describe", "--transactional-id", "hangs")
    assert described.split()[-1] == "t-0"
    partition = ("--topic", "t", "--partition", "0")
    open_at = await tool(broker, command, "describe-producers", *partition)
    assert open_at.split()[-1] == "0"
    assert await committed_end(broker) == 0
    await tool(broker, command, "abort", *partition, "--start-offset", "0")
    assert await committed_end(broker) == 2, "the record and the marker"
    await tool(broker, command, "forceTerminateTransaction", "--transactionalId", "hangs")
    listed = (await tool(broker, command, "list")).split()
    assert (listed[-4], listed[-1]) == ("hangs", "Empty")


async def committed_end(broker: BrokerProcess) -> int:
    """Return the last stable offset."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    partition = confluent_kafka.TopicPartition("t", 0)
    try:
        ends = await asyncio.to_thread(consumer.get_watermark_offsets, partition, 30)
        return int(ends[1])
    finally:
        consumer.close()
