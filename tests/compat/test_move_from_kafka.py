"""An Apache Kafka is moved onto our brokers while a producer and a group work.

The steps are those of docs/operations/move-from-kafka.md: a mirror with identical names and group
positions, then the group, then the producers, then the old cluster goes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.compat.test_mirror_maker_2 import cluster
from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(400)]

WAIT_SECONDS_MAX = 120.0
PARTITIONS = 2
MOVING = """\
name: moved
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - {{name: old, external: "{2}"}}
  - {{name: new, brokers: [{{id: 1, port: {1}}}]}}
links:
  - source: old
    target: new
    topics: [orders]
    names: identity
    groups: {{include: [billing], sync: true}}
"""
MOVED = """\
name: moved
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - {{name: new, brokers: [{{id: 1, port: {1}}}]}}
"""


class Producing:
    """Numbers each record of a partition, on one cluster after the other."""

    def __init__(self) -> None:
        self.counts = [0] * PARTITIONS

    @contextlib.asynccontextmanager
    async def on(self, bootstrap: str) -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        stopping = asyncio.Event()
        task = asyncio.create_task(self._produce(producer, stopping))
        try:
            yield
        finally:
            stopping.set()
            await task
            await producer.stop()

    async def _produce(self, producer: AIOKafkaProducer, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            for partition in range(PARTITIONS):
                value = b"%d" % self.counts[partition]
                await producer.send_and_wait("orders", value, partition=partition)
                self.counts[partition] += 1
            await asyncio.sleep(0.005)

    async def go_on(self, count: int = 30) -> None:
        """Wait until every partition has some records more."""
        wanted = [each + count for each in self.counts]
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while any(have < want for have, want in zip(self.counts, wanted, strict=True)):
                await asyncio.sleep(0.02)


class Consuming:
    """The group `billing`: one member, which commits what it has read."""

    def __init__(self) -> None:
        self.values: dict[int, list[int]] = defaultdict(list)
        self.committed: dict[int, int] = {}

    @contextlib.asynccontextmanager
    async def on(self, bootstrap: str, reset: str) -> Any:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset=reset,
        )
        await consumer.start()
        stopping = asyncio.Event()
        task = asyncio.create_task(self._consume(consumer, stopping))
        try:
            yield
        finally:
            stopping.set()
            await task
            await consumer.stop()

    async def _consume(self, consumer: AIOKafkaConsumer, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            for at, batch in (await consumer.getmany(timeout_ms=100)).items():
                self.values[at.partition] += [int(each.value) for each in batch]
                self.committed[at.partition] = batch[-1].offset + 1
                await consumer.commit({TopicPartition(*at): batch[-1].offset + 1})

    async def catch_up(self, producing: Producing) -> None:
        """Wait until it has read what was produced until now."""
        wanted = list(producing.counts)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while any(len(self.values[each]) < wanted[each] for each in range(PARTITIONS)):
                await asyncio.sleep(0.05)


async def worker_of(command: HeliographCommand) -> dict[str, Any]:
    found = await asyncio.to_thread(command.run, "link", "describe", "old-new")
    worker: dict[str, Any] = found["worker"]
    return worker


async def until_positions_are_there(command: HeliographCommand, committed: dict[int, int]) -> None:
    """Wait until the group has the exact translations of its last commits on the target."""
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            seen = (await worker_of(command))["groups"]["positions"]
            at_source = {each["partition"]: each["source_offset"] for each in seen}
            if at_source == committed and all(each["target_offset"] is not None for each in seen):
                break
            await asyncio.sleep(0.3)
        described = await asyncio.to_thread(
            command.run, "group", "describe", "billing", "-c", "new"
        )
    (group,) = described["groups"]
    offsets = {each["partition"]: each["committed"] for each in group["partitions"]}
    assert offsets == {each["partition"]: each["target_offset"] for each in seen}
    assert not any(each["reread_records"] for each in seen), seen


async def until_everything_is_copied(command: HeliographCommand, old: KafkaClient) -> None:
    places = [TopicPartition("orders", each) for each in range(PARTITIONS)]
    ends = {
        at.partition: each.offset
        for at, each in (await old.list_offsets(dict.fromkeys(places, -1))).items()
    }
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            flows = [
                each for each in (await worker_of(command))["flows"] if each["topic"] == "orders"
            ]
            if {each["partition"]: each["source_next"] for each in flows} == ends:
                return
            await asyncio.sleep(0.3)


async def test_a_kafka_is_moved_with_a_producer_and_a_group_at_work(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    command = HeliographCommand(tmp_path)
    zookeeper, port = quiet_ports(2)
    new = f"127.0.0.1:{port}"
    producing, consuming = Producing(), Consuming()
    try:
        async with cluster("kafka", "old", request, tmp_path) as kafka:
            old = kafka.bootstrap
            async with KafkaClient(old) as client:
                made = await client.create_topics([NewTopic(name="orders", partitions=PARTITIONS)])
                assert made["orders"] is None
                async with producing.on(old):
                    async with consuming.on(old, "earliest"):
                        await producing.go_on()
                        command.file.write_text(MOVING.format(zookeeper, port, old))
                        await asyncio.to_thread(command.up)
                        await producing.go_on()
                        await consuming.catch_up(producing)
                    # The group moves first: producers still write to the old cluster.
                    await until_positions_are_there(command, consuming.committed)
                    async with consuming.on(new, "none"):
                        await producing.go_on()
                        await consuming.catch_up(producing)
                await until_everything_is_copied(command, client)
            async with producing.on(new), consuming.on(new, "none"):
                await producing.go_on()
                command.file.write_text(MOVED.format(zookeeper, port))
                await asyncio.to_thread(command.up)
                await producing.go_on()
                await consuming.catch_up(producing)
        # The old cluster is gone.
        async with producing.on(new):
            await producing.go_on()
        async with consuming.on(new, "none"):
            await consuming.catch_up(producing)
    finally:
        if command.state_dir.exists():
            await asyncio.to_thread(command.run, "down", "--purge")
    for partition in range(PARTITIONS):
        count = producing.counts[partition]
        assert consuming.values[partition] == [*range(count)], "each once, and in order"
