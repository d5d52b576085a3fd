"""Kafka's own command line tools of 4.3 (Java clients) against our broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster import BrokerProcess, running_broker
from tests.java_process import run_java

pytestmark = pytest.mark.real

RECORDS = 1_000


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


async def tool(broker: BrokerProcess, name: str, *arguments: str, lines: str = "") -> str:
    """Run a tool; what it printed. A failure shows its errors."""
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


async def test_topics_are_described(broker: BrokerProcess) -> None:
    await tool(
        broker,
        "TopicCommand",
        *("--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=77"),
    )
    told = await tool(broker, "TopicCommand", "--describe", "--topic", "t")
    assert "PartitionCount: 2" in told
    assert "retention.ms=77" in told
