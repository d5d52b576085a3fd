"""`orders` of two datacenters in one topic of the aggregate: the mirror, its maps, Spark."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats.naming import TopicNames
from mirror_maker.settings import LinkSettings, MirrorSettings
from spark_global.links import MirrorLink
from spark_global.source.tables import RECORDS_TABLE
from spark_global.views import Aggregate, load_table
from tests.real.mirror.test_mirror_kill import create
from tests.support.cluster import running_clusters
from tests.support.mirror_process import MirrorProcess, read_map, read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 240.0
PARTITIONS = {"east": 1, "west": 2}
PER_BATCH = 20
BATCHES = 10


async def produce(
    client: KafkaClient, name: str, start: int, born: dict[TopicPartition, int]
) -> None:
    """Write some batches into every partition of a datacenter's topic."""
    for index in range(PARTITIONS[name]):
        at = TopicPartition("orders", index)
        for batch in range(BATCHES):
            records = [
                NewRecord(1_000, None, f"{name} {index} {start + batch * PER_BATCH + n}".encode())
                for n in range(PER_BATCH)
            ]
            await produce_to(client, at, encode_batch(records))
            born[at] = born.get(at, 0) + PER_BATCH


async def test_two_datacenters_in_one_topic(
    zookeeper: str, tmp_path: Path, spark: SparkSession
) -> None:
    async with (
        running_clusters(zookeeper, tmp_path, "east", "west", "all") as (bootstraps, clients),
        contextlib.AsyncExitStack() as stack,
    ):
        born: dict[str, dict[TopicPartition, int]] = {"east": {}, "west": {}}
        for name, partitions in PARTITIONS.items():
            await create(clients[name], "orders", partitions)
            await produce(clients[name], name, 0, born[name])
        worker = MirrorProcess(_settings(tmp_path, bootstraps), tmp_path / "mirror")
        worker.directory.mkdir()
        await worker.start()
        stack.push_async_callback(worker.kill)
        total = 2 * BATCHES * PER_BATCH * sum(PARTITIONS.values())
        await _until_copied(clients["all"], total // 8, worker)
        await worker.kill()
        for name in PARTITIONS:
            await produce(clients[name], name, BATCHES * PER_BATCH, born[name])
        await worker.start()
        await _until_copied(clients["all"], total, worker)
        assert await worker.stop() == 0
        for name, parts in born.items():
            for at, count in parts.items():
                copies = {r.offset: r.value or b"" for r in await read_records(clients["all"], at)}
                offset_map = await read_map(clients["all"], at, f"{name}-all")
                own = [value for value in copies.values() if value.startswith(name.encode())]
                originals = await read_records(clients[name], at)
                assert own == [record.value for record in originals]
                assert len(own) == count
                sources = {record.offset: record.value for record in originals}
                for target, value in copies.items():
                    source = offset_map.source_of(target)
                    assert (source is not None) == value.startswith(name.encode())
                    assert source is None or sources[source] == value
        await asyncio.to_thread(_check_spark, spark, bootstraps, total)


def _check_spark(spark: SparkSession, bootstraps: dict[str, str], total: int) -> None:
    """Check each row once, with the datacenter that its value names, at its offset there."""
    aggregate = Aggregate(
        name="all",
        bootstrap=bootstraps["all"],
        links=tuple(
            MirrorLink(name=f"{name}-all", source=name, datacenter=name.upper())
            for name in PARTITIONS
        ),
    )
    rows = load_table(spark, aggregate, RECORDS_TABLE, topic="orders").collect()
    assert len(rows) == total
    assert len({(row.partition, row.aggregate_offset) for row in rows}) == total
    for row in rows:
        name, partition, number = bytes(row.value).decode().split()
        assert row.datacenter == name.upper()
        assert (row.topic, row.partition, row.offset) == ("orders", int(partition), int(number))


def _settings(directory: Path, bootstraps: dict[str, str]) -> MirrorSettings:
    return MirrorSettings(
        worker_id="w1",
        target_alias="all",
        target_bootstrap=bootstraps["all"],
        links=tuple(
            LinkSettings(
                name=f"{name}-all",
                source_alias=name,
                source_bootstrap=bootstraps[name],
                names=TopicNames(merge=("orders",)),
                origin="local",
            )
            for name in PARTITIONS
        ),
        ready_file=str(directory / "mirror" / "ready.json"),
        session_timeout_ms=6_000,
    )


async def _until_copied(client: KafkaClient, count: int, worker: MirrorProcess) -> None:
    """Wait until the merged topic has this many records; there are never more than there should
    be.
    """
    copied = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while copied < count:
                copied = 0
                for index in range(max(PARTITIONS.values())):
                    copied += len(await read_records(client, TopicPartition("orders", index)))
                await asyncio.sleep(0.1)
    assert copied >= count, worker.log_text()[-4000:]
