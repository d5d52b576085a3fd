"""A MirrorMaker 2 of Kafka 4.3 stops, cleanly or by kill -9, and our mirror takes over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from tests.compat.test_mirror_maker_2 import cluster
from tests.support.java_process import JavaProcess
from tests.support.mirror_process import mirror, read_map, read_records
from tests.support.producing import produce_to

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.long, pytest.mark.timeout(600)]

WAIT_SECONDS_MAX = 120.0
PARTITIONS = 2
RECORDS_PER_ROUND = 300
CONFIG = {
    "clusters": "a, b",
    "a->b.enabled": "true",
    "a->b.topics": "t",
    "b->a.enabled": "false",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    # A killed worker has copied more than it has committed.
    "offset.flush.interval.ms": "600000",
}


@pytest.mark.parametrize("ends", ["stopped", "killed"])
@pytest.mark.parametrize(
    ("source", "target"),
    [("heliograph", "heliograph"), ("kafka", "heliograph"), ("kafka", "kafka")],
)
async def test_neither_a_gap_nor_a_repetition(
    source: str, target: str, ends: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with (
        cluster(source, "a", request, tmp_path) as a,
        cluster(target, "b", request, tmp_path) as b,
        KafkaClient(a.bootstrap) as from_a,
        KafkaClient(b.bootstrap) as to_b,
    ):
        # The records have old timestamps: retention by time would delete them.
        new = NewTopic(name="t", partitions=PARTITIONS, configs={"retention.ms": "-1"})
        assert (await from_a.create_topics([new]))["t"] is None
        await write(from_a, 0)
        properties = tmp_path / "mm2.properties"
        config = {
            **CONFIG,
            "a.bootstrap.servers": a.bootstrap,
            "b.bootstrap.servers": b.bootstrap,
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        theirs = JavaProcess(
            "org.apache.kafka.connect.mirror.MirrorMaker", (str(properties),), tmp_path / "mm2.log"
        )
        theirs.start()
        try:
            await until_copied(to_b, RECORDS_PER_ROUND, theirs.text)
            if ends == "stopped":
                await theirs.terminate()
        finally:
            await theirs.kill()
        await write(from_a, 1)
        async with mirror(tmp_path, a.bootstrap, b.bootstrap, start="mm2") as ours:
            await until_copied(to_b, 2 * RECORDS_PER_ROUND, ours.log_text)
            await write(from_a, 2)
            await until_copied(to_b, 3 * RECORDS_PER_ROUND, ours.log_text)
            assert await ours.stop() == 0
        for index in range(PARTITIONS):
            at = TopicPartition("t", index)
            originals = await read_records(from_a, at)
            copies = await read_records(to_b, at._replace(topic="a.t"))
            assert contents(copies) == contents(originals)
            offset_map = await read_map(to_b, at)
            mapped = [offset_map.source_of(copy.offset) for copy in copies]
            behind = RECORDS_PER_ROUND // PARTITIONS
            assert mapped[behind:] == [record.offset for record in originals[behind:]]
            assert mapped[:behind] == [None] * behind
            assert offset_map.translate(0).state == "inexact"


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [record[1:] for record in records]


async def write(client: KafkaClient, number: int) -> None:
    """Produce a round of records over the partitions."""
    for index in range(PARTITIONS):
        first = number * RECORDS_PER_ROUND
        records = [
            NewRecord(1_790_000_000_000 + n, b"k%d" % n, b"v%d" % n, (("h", b"x"),))
            for n in range(first + index, first + RECORDS_PER_ROUND, PARTITIONS)
        ]
        at = TopicPartition("t", index)
        await produce_to(client, at, encode_batch(records))


async def until_copied(client: KafkaClient, count: int, log_text: object) -> None:
    """Wait until the copies have a number of records."""
    found = 0
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while found < count:
                await asyncio.sleep(0.5)
                copies = [
                    await read_records(client, TopicPartition("a.t", index))
                    for index in range(PARTITIONS)
                ]
                found = sum(map(len, copies))
    except TimeoutError:
        assert callable(log_text)
        raise AssertionError(f"{found} of {count}\n{log_text()[-6000:]}") from None
