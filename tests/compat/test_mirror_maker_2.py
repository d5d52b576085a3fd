"""MirrorMaker 2 of Kafka 4.3, exactly once, between two of our clusters and with Apache Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.api import ApiKey
from tests.support.cluster import running_broker
from tests.support.java_process import JavaProcess
from tests.support.kafka_from_maven import properties_text, running_kafka
from tests.support.quiet_ports import quiet_port

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(400)]

WAIT_SECONDS_MAX = 90.0
PARTITIONS = 3
RECORDS_PER_ROUND = 1_000
ROUNDS = 3
KEYS = 50
LOOKS_MAX = 10
GROUP = "readers"
CONFIG: Mapping[str, str] = {
    "clusters": "east, west",
    "east->west.enabled": "true",
    "east->west.topics": "orders.*",
    "east->west.groups": GROUP,
    "west->east.enabled": "false",
    "west.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "tasks.max": "2",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.lag.max": "0",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    # Do not wait for a killed worker's session.
    "west.session.timeout.ms": "6000",
    "west.heartbeat.interval.ms": "1000",
    "west.scheduled.rebalance.max.delay.ms": "0",
}


SLOW_STOPS = ("Graceful stop of task", "failed to properly shut down")
"""What it says, of Kafka's brokers as well, where its target is killed while its tasks wait."""


def errors_of(mirror: JavaProcess) -> list[str]:
    """What it has told of as an error, and was none of its own machine's pace."""
    lines = mirror.text().splitlines()
    return [
        line for line in lines if " ERROR " in line and not any(each in line for each in SLOW_STOPS)
    ]


@contextlib.asynccontextmanager
async def cluster(
    kind: str, name: str, request: pytest.FixtureRequest, directory: Path
) -> AsyncIterator[Broker]:
    if kind == "kafka":
        async with running_kafka(directory / name) as kafka:
            yield kafka
    else:
        connect = request.getfixturevalue("zookeeper")
        async with running_broker(connect, directory / name, cluster=name) as broker:
            yield broker


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("heliograph", "heliograph"),
        pytest.param("heliograph", "kafka", marks=pytest.mark.long),
        pytest.param("kafka", "heliograph", marks=pytest.mark.long),
        pytest.param("kafka", "kafka", marks=pytest.mark.long),
    ],
)
async def test_topics_groups_and_configs_are_mirrored(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with (
        cluster(source, "east", request, tmp_path) as east,
        cluster(target, "west", request, tmp_path) as west,
    ):
        async with KafkaClient(east.bootstrap) as client:
            new = NewTopic(
                name="orders", partitions=PARTITIONS, configs={"retention.ms": "1234567890"}
            )
            assert (await client.create_topics([new]))["orders"] is None
        produced = await asyncio.to_thread(produce, east.bootstrap, 0)
        mirror = mirror_maker(east, west, tmp_path)
        mirrored = Mirrored(west.bootstrap)
        try:
            mirror.start()
            await mirrored.until(mirror, RECORDS_PER_ROUND)
            produced += await asyncio.to_thread(produce, east.bootstrap, 1)
            await mirror.kill()
            mirror.start()
            await mirrored.until(mirror, 2 * RECORDS_PER_ROUND)
            await west.kill()
            await west.start()
            produced += await asyncio.to_thread(produce, east.bootstrap, 2)
            await mirrored.until(mirror, 3 * RECORDS_PER_ROUND)
            produced += await syncs_arrive(mirror, east, west, mirrored, len(produced))
            assert not errors_of(mirror), "our responses cause no error in it"
        finally:
            await mirror.kill()
            mirrored.close()
        got = [value for values in mirrored.by_partition.values() for value in values]
        assert sorted(got) == sorted(produced), "every record once"
        for values in mirrored.by_partition.values():
            assert values == sorted(values), "in order"


def mirror_maker(
    east: Broker, west: Broker, directory: Path, more: Mapping[str, str] | None = None
) -> JavaProcess:
    """Return it, not yet started; `more` are more of its configs."""
    port = quiet_port()
    config = {
        **CONFIG,
        "east.bootstrap.servers": east.bootstrap,
        "west.bootstrap.servers": west.bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        **(more or {}),
    }
    properties = directory / "mm2.properties"
    properties.write_text(properties_text(config))
    return JavaProcess(
        "org.apache.kafka.connect.mirror.MirrorMaker", (str(properties),), directory / "mm2.log"
    )


def produce(bootstrap: str, number: int, count: int = RECORDS_PER_ROUND) -> list[bytes]:
    """Produce a round of records; the key decides the partition."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": ("lz4", "zstd", "gzip")[number % 3],
        }
    )
    first = number * RECORDS_PER_ROUND
    values = [b"order-%06d" % index for index in range(first, first + count)]
    for index, value in enumerate(values):
        producer.produce("orders", value, b"key-%d" % (index % KEYS))
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    return values


def commit_all(bootstrap: str) -> list[int]:
    """Read everything in a group and commit; return the offsets."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    partitions = [confluent_kafka.TopicPartition("orders", each) for each in range(PARTITIONS)]
    try:
        ends = [consumer.get_watermark_offsets(partition, 30)[1] for partition in partitions]
        for partition, end in zip(partitions, ends, strict=True):
            partition.offset = end
        consumer.commit(offsets=partitions, asynchronous=False)
    finally:
        consumer.close()
    return ends


async def syncs_arrive(
    mirror: JavaProcess, east: Broker, west: Broker, mirrored: Mirrored, count: int
) -> list[bytes]:
    """Wait for the group's position, the topic's configs, checkpoints and heartbeats.

    MirrorMaker 2 keeps an offset sync back while ten are on their way (OffsetSyncWriter), and sends
    it when the next records are copied. So more come until the group is where it should be; they
    are returned.
    """
    more: list[bytes] = []
    async with asyncio.timeout(WAIT_SECONDS_MAX), KafkaClient(west.bootstrap) as client:
        for number in itertools.count(ROUNDS):
            read = await asyncio.to_thread(commit_all, east.bootstrap)
            assert sum(read) == count + len(more)
            ends = [mirrored.last_offset[partition] + 1 for partition in range(PARTITIONS)]
            if await group_arrives(client, mirror, ends):
                break
            more += await asyncio.to_thread(produce, east.bootstrap, number, KEYS)
            await mirrored.until(mirror, count + len(more))
        configs = (await client.describe_topic_configs(["east.orders"]))["east.orders"]
        assert configs["retention.ms"][0] == "1234567890"
        for topic in ("east.checkpoints.internal", "heartbeats"):
            at = TopicPartition(topic, 0)
            assert (await client.list_offsets({at: -1}))[at].offset > 0
    return more


async def group_arrives(client: KafkaClient, mirror: JavaProcess, ends: list[int]) -> bool:
    """Return whether the group reaches these offsets within a few syncs of MirrorMaker 2."""
    for _ in range(LOOKS_MAX):
        mirror.check_running()
        position = await group_position(client)
        if position == ends:
            return True
        assert all(at <= end for at, end in zip(position, ends, strict=True)), "never beyond"
        await asyncio.sleep(0.5)
    return False


async def group_position(client: KafkaClient) -> list[int]:
    fetched = await client.call_coordinator(
        GROUP,
        ApiKey.OFFSET_FETCH,
        {
            "group_id": GROUP,
            "topics": [{"name": "east.orders", "partition_indexes": list(range(PARTITIONS))}],
            "require_stable": False,
        },
    )
    return [int(entry.committed_offset) for entry in fetched.topics[0].partitions]


class Mirrored:
    """What a read_committed consumer sees of the mirrored topic during all faults."""

    def __init__(self, bootstrap: str) -> None:
        self.by_partition: defaultdict[int, list[bytes]] = defaultdict(list)
        self.last_offset: dict[int, int] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "audit",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._consumer.assign(
            [confluent_kafka.TopicPartition("east.orders", each, 0) for each in range(PARTITIONS)]
        )

    async def until(self, mirror: JavaProcess, count: int) -> None:
        """Read until a number of records was seen."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while sum(len(values) for values in self.by_partition.values()) < count:
                mirror.check_running()
                for message in await asyncio.to_thread(self._consumer.consume, 500, 0.5):
                    if message.error() is None:
                        partition, offset = message.partition(), message.offset()
                        assert partition is not None
                        assert offset is not None
                        self.by_partition[partition].append(message.value() or b"")
                        self.last_offset[partition] = offset

    def close(self) -> None:
        self._consumer.close()
