"""A topic gets more partitions while librdkafka writes and reads it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.replicas import all_in_sync, bootstrap, eventually, running_cluster

pytestmark = pytest.mark.real

BEFORE, AFTER = 2, 6
REFRESH_MS = 500
WRITES_AHEAD_MAX = 200
"""Records that are written and not yet acknowledged."""


class Writing:
    """Writes numbered records, into the partitions that librdkafka chooses."""

    def __init__(self, servers: str) -> None:
        self.delivered: dict[int, list[bytes]] = {}
        """Acknowledged values by partition, in order."""
        self.errors: list[str] = []
        self._written = 0
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "topic.metadata.refresh.interval.ms": REFRESH_MS,
                "sticky.partitioning.linger.ms": 0,
            }
        )

    def run(self) -> None:
        """Write until stopped; return when all records are acknowledged."""
        while not self._stop.is_set():
            if len(self._producer) < WRITES_AHEAD_MAX:
                self._producer.produce("t", b"%d" % self._written, on_delivery=self._told)
                self._written += 1
            self._producer.poll(0.005)
        assert self._producer.flush(60) == 0

    def stop(self) -> None:
        self._stop.set()

    def _told(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        partition, value = message.partition(), message.value()
        if error is not None or partition is None or value is None:
            self.errors.append(str(error))
        else:
            self.delivered.setdefault(partition, []).append(value)


class Reading:
    """Reads all records of the topic, as the only member of a group."""

    def __init__(self, servers: str) -> None:
        self.values: set[bytes] = set()
        self._stop = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": REFRESH_MS,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe(["t"])
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            value = None if message is None or message.error() else message.value()
            if value is not None:
                self.values.add(value)
        self._consumer.close()

    def stop(self) -> None:
        self._stop.set()


@contextlib.contextmanager
def in_thread(run: Callable[[], None], stop: Callable[[], None]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        stop()
        thread.join()


async def test_partitions_are_added_under_load(zookeeper: str, tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}
    async with (
        running_cluster(zookeeper, tmp_path, config=config) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        servers = bootstrap(brokers)
        await client.create_topics([NewTopic(name="t", partitions=BEFORE)])
        writing, reading = Writing(servers), Reading(servers)
        with in_thread(reading.run, reading.stop):
            with in_thread(writing.run, writing.stop) as writer:
                await eventually(lambda: len(writing.delivered) == BEFORE)
                assert await client.create_partitions({"t": AFTER}) == {"t": None}
                await eventually(lambda: len(writing.delivered) == AFTER)
                writing.stop()
                await asyncio.to_thread(writer.join)
            assert writing.errors == []
            written = {value for values in writing.delivered.values() for value in values}
            await eventually(lambda: written <= reading.values)
        # A follower that was slow under the load may have left the ISR for a moment.
        await eventually(lambda: all_in_sync(client, "t"))
        for index in range(AFTER):
            values = [record.value async for record in read_topic(client, "t", partition=index)]
            assert values == writing.delivered[index]
