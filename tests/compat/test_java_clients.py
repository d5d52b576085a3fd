"""Kafka 4.3's own test clients: transactional copiers, verifiable producer and consumers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.support.java_process import JavaProcess, run_java
from tests.support.replicas import eventually

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = [pytest.mark.real, pytest.mark.oracle]

TOOLS = "org.apache.kafka.tools."
STICKY = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
WAIT_SECONDS_MAX = 90.0
PARTITIONS = 4
RECORDS = 4_000
SESSION_MS = "60000"
"""A static member that is killed is back before: also a JVM on a machine with other work."""


async def create_topics(broker: Broker, *names: str) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        new = [NewTopic(name=name, partitions=PARTITIONS) for name in names]
        assert set((await client.create_topics(new)).values()) == {None}


async def produce(broker: Broker, topic: str, count: int) -> list[str]:
    """Return the values (0, 1, 2...) that a VerifiableProducer reports as acknowledged."""
    told = await run_java(
        TOOLS + "VerifiableProducer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--max-messages", str(count), "--repeating-keys", "97"),
    )
    events = [json.loads(line) for line in told.splitlines()]
    acknowledged = [e["value"] for e in events if e["name"] == "producer_send_success"]
    assert sorted(acknowledged, key=int) == [str(number) for number in range(count)]
    return acknowledged


class Copier(JavaProcess):
    """TransactionalMessageCopier in a group: copies, aborts at random, continues from commits."""

    def __init__(self, broker: Broker, number: int, directory: Path) -> None:
        arguments = (
            *("--broker-list", broker.bootstrap),
            *("--input-topic", "in", "--input-partition", "-1", "--output-topic", "out"),
            *("--transactional-id", f"copier-{number}", "--consumer-group", "copiers"),
            *("--transaction-size", "100", "--transaction-timeout", "10000"),
            *("--enable-random-aborts", "--group-mode", "--use-group-metadata"),
        )
        output = directory / f"copier-{number}.log"
        super().__init__(TOOLS + "TransactionalMessageCopier", arguments, output)


async def test_transactional_copiers_copy_each_record_once(
    either_broker: Broker, tmp_path: Path
) -> None:
    """Two copiers with random aborts; one is killed, then the broker, and both restart."""
    broker = either_broker
    await create_topics(broker, "in", "out")
    values = await produce(broker, "in", RECORDS)
    copiers = [Copier(broker, number, tmp_path) for number in range(2)]
    try:
        for copier in copiers:
            copier.start()
        await copied(copiers, 300)
        await copiers[0].kill()
        copiers[0].start()
        await copied(copiers, 1_000)
        await broker.kill()
        await broker.start()
        # They stop by themselves when everything is copied.
        for copier in copiers:
            assert copier.process is not None
            await asyncio.wait_for(asyncio.to_thread(copier.process.wait), WAIT_SECONDS_MAX)
    finally:
        for copier in copiers:
            await copier.kill()
    found: Counter[str] = Counter()

    async def is_whole() -> bool:
        # The last markers may follow the end of the copiers.
        found.clear()
        found.update(await asyncio.to_thread(read_committed, broker.bootstrap, "out"))
        return found.total() >= len(values)

    await eventually(is_whole)
    assert found == Counter(values)


def read_committed(bootstrap: str, topic: str) -> list[str]:
    """Return the committed values of all partitions."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    values: list[str] = []
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(WAIT_SECONDS_MAX)
        assert message is not None
        if (error := message.error()) is None:
            values.append((message.value() or b"").decode())
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ends += 1
    consumer.close()
    return values


async def copied(copiers: list[Copier], count: int) -> None:
    """Wait until the copiers report a number of copied records."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            progress = [event.get("consumed", 0) for each in copiers for event in events_of(each)]
            if sum(progress) >= count:
                return
            await asyncio.sleep(0.05)


def events_of(process: JavaProcess) -> list[dict[str, Any]]:
    lines = process.text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


class Consumer(JavaProcess):
    """VerifiableConsumer: reports its assignment, its records and its commits."""

    def __init__(self, broker: Broker, instance: str, directory: Path) -> None:
        arguments = (
            *("--bootstrap-server", broker.bootstrap, "--topic", "in", "--group-id", "readers"),
            *("--group-instance-id", instance, "--session-timeout", SESSION_MS),
            *("--assignment-strategy", STICKY),
        )
        super().__init__(TOOLS + "VerifiableConsumer", arguments, directory / f"{instance}.log")

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in events_of(self) if event["name"] == name]

    def assigned(self) -> set[int]:
        """Return its partitions: a cooperative consumer gets differences."""
        held: set[int] = set()
        for event in events_of(self):
            moved = {each["partition"] for each in event.get("partitions", ())}
            if event["name"] == "startup_complete":
                held = set()
            elif event["name"] == "partitions_assigned":
                held |= moved
            elif event["name"] == "partitions_revoked":
                held -= moved
        return held

    def rebalances(self) -> int:
        return len(self.events("partitions_assigned")) + len(self.events("partitions_revoked"))


async def test_cooperative_static_members_share_and_come_back(
    either_broker: Broker, tmp_path: Path
) -> None:
    broker = either_broker
    await create_topics(broker, "in")
    first, second = (Consumer(broker, name, tmp_path) for name in ("first", "second"))
    everything = set(range(PARTITIONS))
    try:
        first.start()
        await until(lambda: first.assigned() == everything)
        second.start()
        await until(lambda: len(first.assigned()) == len(second.assigned()) == PARTITIONS // 2)
        assert first.assigned() | second.assigned() == everything
        await produce(broker, "in", 1_000)
        await until(lambda: consumed(first, second) == 1_000)
        held, rebalances = second.assigned(), first.rebalances()
        await second.kill()
        second.start()
        await until(lambda: len(second.events("startup_complete")) == 2)
        await until(lambda: second.assigned() == held)
        await produce(broker, "in", 1_000)
        await until(lambda: consumed(first, second) >= 2_000)
        assert first.rebalances() == rebalances, "a static member that returns moves nothing"
        # A static member does not leave when it is stopped: its partitions wait for it.
        assert await first.terminate() in (0, 143)
        assert len(first.events("shutdown_complete")) == 1
        errors = [e for each in (first, second) for e in each.events("offsets_committed")]
        assert {event["success"] for event in errors} == {True}
    finally:
        await first.kill()
        await second.kill()


def consumed(*consumers: Consumer) -> int:
    """Return the records of all consumers; a killed one may repeat uncommitted records."""
    return sum(e["count"] for each in consumers for e in each.events("records_consumed"))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.1)
