"""The lag of groups at a moment when nothing moves: ours, Kafka's, kafka_exporter's, a client's.

Three brokers share the partitions and the coordinators. So each broker's `/metrics` needs the end
offsets of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import pytest
from prometheus_client.parser import text_string_to_metric_families

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from tests.support.cluster import BrokerProcess
from tests.support.fetched_program import built, finished
from tests.support.heliograph_command import HeliographCommand
from tests.support.java_process import run_java
from tests.support.replicas import bootstrap, running_cluster
from tests.support.scraping import scrape

pytestmark = [pytest.mark.real, pytest.mark.oracle]

GO: Final = Path(__file__).parent / "go"
RUN_SECONDS_MAX: Final = 60.0
WAIT_SECONDS: Final = 60.0
NO_OFFSET: Final = -1

Place = tuple[str, str, int]
"""Group, topic, partition."""

ENDS: Final = {
    ("plain", 0): 10,
    ("plain", 1): 7,
    ("plain", 2): 5,
    ("plain", 3): 0,
    ("tx", 0): 4,
    ("tx", 1): 3,
    ("tx", 2): 1,
}
"""High watermarks. `tx` 0 ends with an aborted transaction, `tx` 1 with an open one."""
POSITIONS: Final[Mapping[str, Mapping[tuple[str, int], int]]] = {
    "active": {("plain", 0): 4, ("plain", 1): 7, ("plain", 3): 0, ("tx", 0): 2, ("tx", 1): 2},
    "active-848": {("plain", 0): 0, ("plain", 2): 5, ("tx", 0): 4},
    "left": {("plain", 0): 9, ("plain", 2): 1, ("tx", 0): 1, ("tx", 1): 0, ("tx", 2): 0},
    "before-the-start": {("plain", 1): 2},
}
"""Committed offsets by group. The first two have a member; records before `plain` 1:3 are gone."""
EXPECTED: Final = {
    (group, *at): (offset, ENDS[at] - offset)
    for group, offsets in POSITIONS.items()
    for at, offset in offsets.items()
}
"""Committed offset and lag by place."""


async def test_every_tool_finds_the_same_lag(zookeeper: str, tmp_path: Path) -> None:
    program = await asyncio.to_thread(_exporter)
    async with _groups(zookeeper, tmp_path) as brokers:
        address = bootstrap(brokers)
        assert await _by_kafkas_tool(address) == EXPECTED
        assert await asyncio.to_thread(_by_our_command, address, tmp_path) == EXPECTED
        assert await asyncio.to_thread(_by_metrics, brokers) == EXPECTED
        assert await asyncio.to_thread(_by_exporter, program, address) == EXPECTED
        assert await asyncio.to_thread(_by_librdkafka, address) == EXPECTED
        assert await _by_aiokafka(address) == EXPECTED
        assert await asyncio.to_thread(_by_metrics, brokers) == EXPECTED, "nothing has moved"


@asynccontextmanager
async def _groups(zookeeper: str, directory: Path) -> AsyncIterator[list[BrokerProcess]]:
    """Brokers with the records and groups of the tables above."""
    fast = {"group.initial.rebalance.delay.ms": "0"}
    async with (
        running_cluster(zookeeper, directory, http_port=0, config=fast) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        topics = {"plain": 4, "tx": 3}
        made = [NewTopic(name=name, partitions=count) for name, count in topics.items()]
        assert set((await client.create_topics(made)).values()) == {None}
        address = bootstrap(brokers)
        with (
            _records(address),
            _member(address, "active", "classic"),
            _member(address, "active-848", "consumer"),
        ):
            for group, offsets in POSITIONS.items():
                if not group.startswith("active"):
                    positions = {
                        TopicPartition(*at): CommittedOffset(offset, -1, "")
                        for at, offset in offsets.items()
                    }
                    await commit_offsets(client, group, positions)
            yield brokers


@contextmanager
def _records(address: str) -> Iterator[None]:
    """Write the records; `tx` 1 has an open transaction until the end."""
    options = {"bootstrap.servers": address, "acks": "all"}
    plain = confluent_kafka.Producer(options)
    for (topic, partition), count in ENDS.items():
        for _ in range(count if topic == "plain" else 0):
            plain.produce(topic, b"v", partition=partition)
    plain.produce("tx", b"v", partition=1)
    plain.produce("tx", b"v", partition=2)
    assert plain.flush(WAIT_SECONDS) == 0
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    deleted = admin.delete_records([confluent_kafka.TopicPartition("plain", 1, 3)])
    assert [each.result().low_watermark for each in deleted.values()] == [3]
    timeout = {"transaction.timeout.ms": 900_000}
    writer = confluent_kafka.Producer({**options, **timeout, "transactional.id": "x"})
    writer.init_transactions()
    for is_kept in (True, False):
        writer.begin_transaction()
        writer.produce("tx", b"v", partition=0)
        writer.flush()
        if is_kept:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
    writer.begin_transaction()
    for _ in range(2):
        writer.produce("tx", b"v", partition=1)
    writer.flush()
    yield
    writer.abort_transaction()


@contextmanager
def _member(address: str, group: str, protocol: str) -> Iterator[None]:
    """The only member of a group, which has every partition and has committed some."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "max.poll.interval.ms": 600_000,
        }
    )
    consumer.subscribe(["plain", "tx"])
    try:
        while len(consumer.assignment()) < len(ENDS):
            consumer.poll(0.1)
        at = [confluent_kafka.TopicPartition(*key) for key in POSITIONS[group]]
        for each in at:
            each.offset = POSITIONS[group][each.topic, each.partition]
        consumer.commit(offsets=at, asynchronous=False)
        yield
    finally:
        consumer.close()


async def _by_kafkas_tool(address: str) -> dict[Place, tuple[int, int]]:
    told = await run_java(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", address, "--describe", "--all-groups"),
    )
    rows = [line.split() for line in told.splitlines() if line.split()[:1]]
    named = [row for row in rows if row[0] in POSITIONS]
    without = {(row[1], int(row[2])) for row in named if row[0] == "active" and row[5] == "-"}
    assert without == ENDS.keys() - POSITIONS["active"].keys(), "partitions without an offset"
    return {
        (row[0], row[1], int(row[2])): (int(row[3]), int(row[5])) for row in named if row[3] != "-"
    }


def _by_our_command(address: str, directory: Path) -> dict[Place, tuple[int, int]]:
    command = HeliographCommand(directory)
    document: Any = command.run("group", "describe", *POSITIONS, "--bootstrap", address)
    found: dict[Place, tuple[int, int]] = {}
    for described in document["groups"]:
        group = described["group"]
        offsets = POSITIONS[group]
        rows = [row for row in described["partitions"] if row["committed"] is not None]
        for row in rows:
            assert row["end"] == row["committed"] + row["lag"]
            found[group, row["topic"], row["partition"]] = (row["committed"], row["lag"])
        is_whole = len(rows) == len(described["partitions"])
        assert described["lag"] == (
            sum(ENDS[at] - offset for at, offset in offsets.items()) if is_whole else None
        )
    return found


def _by_metrics(brokers: list[BrokerProcess]) -> dict[Place, tuple[int, int]]:
    found: dict[Place, tuple[int, int]] = {}
    for broker in brokers:
        samples = scrape(broker.http_url)
        for labels, offset in samples.all("kafka_consumergroup_current_offset"):
            place = (labels["consumergroup"], labels["topic"], int(labels["partition"]))
            assert place not in found, "only the coordinator has a sample"
            found[place] = (int(offset), int(samples.one("kafka_consumergroup_lag", **labels)))
    return found


def _exporter() -> Path:
    fetch = ["go", "mod", "download"]
    build = ["go", "build", "-mod=readonly", "-o", "bin/", "./..."]
    return built(GO, "go", fetch, build) / "bin" / "lag"


def _by_exporter(program: Path, address: str) -> dict[Place, tuple[int, int]]:
    """By kafka_exporter's requests and formula; its -1 says that there is no offset."""
    done = finished([str(program), address.split(",")[0]], program.parent, RUN_SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    samples = _samples(done.stdout)
    offsets = samples["kafka_consumergroup_current_offset"]
    lags = samples["kafka_consumergroup_lag"]
    found = {
        (labels["consumergroup"], labels["topic"], int(labels["partition"])): (offset, lag)
        for labels, offset in offsets
        for _, lag in [next(each for each in lags if each[0] == labels)]
        if offset != NO_OFFSET
    }
    for labels, total in samples["kafka_consumergroup_lag_sum"]:
        at = (labels["consumergroup"], labels["topic"])
        assert total == sum(lag for key, (_, lag) in found.items() if key[:2] == at)
    members = {
        labels["consumergroup"]: count for labels, count in samples["kafka_consumergroup_members"]
    }
    assert (members["active"], members["left"]) == (1, 0)
    return found


def _samples(text: str) -> dict[str, list[tuple[dict[str, str], int]]]:
    found: dict[str, list[tuple[dict[str, str], int]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, int(sample.value)))
    return found


def _by_librdkafka(address: str) -> dict[Place, tuple[int, int]]:
    """What a consumer of the group computes: the end of each partition less its own offset."""
    found: dict[Place, tuple[int, int]] = {}
    for group in POSITIONS:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            every = [confluent_kafka.TopicPartition(*at) for at in ENDS]
            for each in consumer.committed(every, timeout=WAIT_SECONDS):
                assert each.error is None
                if each.offset >= 0:
                    _, end = consumer.get_watermark_offsets(each, timeout=WAIT_SECONDS)
                    place = (group, each.topic, each.partition)
                    found[place] = (each.offset, end - each.offset)
        finally:
            consumer.close()
    return found


async def _by_aiokafka(address: str) -> dict[Place, tuple[int, int]]:
    found: dict[Place, tuple[int, int]] = {}
    for group in POSITIONS:
        every = [aiokafka.TopicPartition(*at) for at in ENDS]
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, group_id=group, enable_auto_commit=False
        )
        async with consumer:
            consumer.assign(every)
            ends = await consumer.end_offsets(every)
            for each in every:
                offset = await consumer.committed(each)
                if offset is not None:
                    place = (group, each.topic, each.partition)
                    found[place] = (offset, ends[each] - offset)
    return found
