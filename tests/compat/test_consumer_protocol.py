"""Clients of the consumer protocol (KIP-848): Kafka's Java consumer 4.3 and librdkafka."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.compat.test_java_tools import tool
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.replicas import bootstrap, leader_of, running_cluster

pytestmark = pytest.mark.real

PARTITIONS = 6
WAIT_SECONDS_MAX = 60.0
FAST = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path, config=FAST) as broker:
        yield broker


def name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


async def create(broker: BrokerProcess, topic: str) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        results = await client.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
    assert results[topic] is None


def produce(broker: BrokerProcess, topic: str, first: int, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


class Members:
    """Consumers of librdkafka in one group, polled in turn."""

    def __init__(self, broker: BrokerProcess, group: str) -> None:
        self._broker = broker
        self._group = group
        self.consumers: list[Any] = []
        self.seen: list[int] = []

    def add(self, *topics: str, **options: Any) -> Any:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": self._group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **options,
            }
        )
        consumer.subscribe(list(topics))
        self.consumers.append(consumer)
        return consumer

    def close(self, consumer: Any) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def poll_until(self, condition: Any) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, (self.shares(), len(self.seen))
            for consumer in self.consumers:
                message = consumer.poll(0.05)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.seen.append(int(message.value()))
                    consumer.commit(message, asynchronous=False)

    def shares(self) -> list[int]:
        return sorted(len(consumer.assignment()) for consumer in self.consumers)


async def test_librdkafka_members_come_go_and_resume(broker: BrokerProcess) -> None:
    topic, group = name("t"), name("g")
    await create(broker, topic)
    await asyncio.to_thread(produce, broker, topic, 0, 300)
    await asyncio.to_thread(_come_go_and_resume, broker, topic, group)
    described = await tool(
        broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group
    )
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sum(int(row[3]) for row in rows) == 600
    listed = await tool(
        broker, "consumer.group.ConsumerGroupCommand", "--list", "--type", "consumer"
    )
    assert group in listed.split()


def _come_go_and_resume(broker: BrokerProcess, topic: str, group: str) -> None:
    members = Members(broker, group)
    first = members.add(topic)
    members.poll_until(lambda: len(members.seen) == 300)
    assert members.shares() == [PARTITIONS]
    second, third = members.add(topic), members.add(topic)
    members.poll_until(lambda: members.shares() == [2, 2, 2])
    held = [str(p) for consumer in members.consumers for p in consumer.assignment()]
    assert len(set(held)) == PARTITIONS, "no partition has two owners"
    produce(broker, topic, 300, 300)
    members.poll_until(lambda: len(members.seen) == 600)
    members.close(second)
    members.poll_until(lambda: members.shares() == [3, 3])
    members.close(first)
    members.close(third)
    assert sorted(members.seen) == list(range(600)), "each once: committed offsets are taken over"
    again = Members(broker, group)
    again.add(topic)
    again.poll_until(lambda: again.shares() == [PARTITIONS])
    again.close(again.consumers[0])
    assert again.seen == []


async def test_librdkafka_regular_expression(broker: BrokerProcess) -> None:
    prefix, group = name("r"), name("g")
    await create(broker, f"{prefix}.a")
    await asyncio.to_thread(_follow_regex, broker, prefix, group)


def _follow_regex(broker: BrokerProcess, prefix: str, group: str) -> None:
    members = Members(broker, group)
    members.add(f"^{prefix}\\..*$")
    members.poll_until(lambda: members.shares() == [PARTITIONS])
    asyncio.run(create(broker, f"{prefix}.b"))
    members.poll_until(lambda: members.shares() == [2 * PARTITIONS])
    members.close(members.consumers[0])


async def test_a_group_survives_kill_9(broker: BrokerProcess) -> None:
    topic, group = name("t"), name("g")
    await create(broker, topic)
    await asyncio.to_thread(produce, broker, topic, 0, 120)
    members = Members(broker, group)
    for _ in range(2):
        members.add(topic)
    await asyncio.to_thread(
        members.poll_until, lambda: len(members.seen) == 120 and members.shares() == [3, 3]
    )
    held = [consumer.assignment() for consumer in members.consumers]
    ids = [consumer.memberid() for consumer in members.consumers]
    os.kill(broker.pid, signal.SIGKILL)
    await broker.start()
    await asyncio.to_thread(produce, broker, topic, 120, 120)
    await asyncio.to_thread(members.poll_until, lambda: len(members.seen) >= 240)
    assert sorted(members.seen) == list(range(240))
    # The members are known again: none rejoined, nothing moved.
    assert [consumer.assignment() for consumer in members.consumers] == held
    assert [consumer.memberid() for consumer in members.consumers] == ids
    for consumer in tuple(members.consumers):
        members.close(consumer)


async def test_a_group_goes_on_where_its_coordinator_moves(zookeeper: str, tmp_path: Path) -> None:
    config = {**FAST, "offsets.topic.num.partitions": "1"}
    async with (
        running_cluster(zookeeper, tmp_path, config=config) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=PARTITIONS)])
        producing, servers = brokers[0], bootstrap(brokers)
        await asyncio.to_thread(produce, producing, "t", 0, 120)
        members = Members(producing, "g")
        for _ in range(2):
            members.add("t", **{"bootstrap.servers": servers})
        await asyncio.to_thread(
            members.poll_until, lambda: len(members.seen) == 120 and members.shares() == [3, 3]
        )
        held = [consumer.assignment() for consumer in members.consumers]
        killed = await leader_of(brokers, client, "__consumer_offsets")
        await killed.kill()
        alive = next(broker for broker in brokers if broker is not killed)
        await asyncio.to_thread(produce, alive, "t", 120, 120)
        await asyncio.to_thread(members.poll_until, lambda: len(members.seen) >= 240)
        assert sorted(members.seen) == list(range(240)), "nothing is read twice"
        assert [consumer.assignment() for consumer in members.consumers] == held
        for consumer in tuple(members.consumers):
            members.close(consumer)


async def test_javas_console_consumer(broker: BrokerProcess) -> None:
    topic, group = name("t"), name("g")
    await create(broker, topic)
    await asyncio.to_thread(produce, broker, topic, 0, 500)
    await _consume(broker, group, "--topic", topic, count=500)
    described = await tool(
        broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group
    )
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sum(int(row[3]) for row in rows) == 500
    state = await tool(
        broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group, "--state"
    )
    assert "Empty" in state
    await asyncio.to_thread(produce, broker, topic, 500, 10)
    await _consume(broker, group, "--include", f"{topic}", count=10, first=500)
    # Without members it may be a group of the classic protocol again, and back.
    await asyncio.to_thread(produce, broker, topic, 510, 10)
    await _consume(broker, group, "--topic", topic, count=10, first=510, protocol="classic")
    await asyncio.to_thread(produce, broker, topic, 520, 10)
    await _consume(broker, group, "--topic", topic, count=10, first=520)
    told = await tool(broker, "consumer.group.ConsumerGroupCommand", "--delete", "--group", group)
    assert "successful" in told


async def _consume(
    broker: BrokerProcess,
    group: str,
    *what: str,
    count: int,
    first: int = 0,
    protocol: str = "consumer",
) -> None:
    told = await tool(
        broker,
        "consumer.ConsoleConsumer",
        *what,
        *("--group", group, "--from-beginning", "--max-messages", str(count)),
        *("--command-property", f"group.protocol={protocol}", "--timeout-ms", "30000"),
    )
    assert sorted(map(int, told.split())) == list(range(first, first + count))
