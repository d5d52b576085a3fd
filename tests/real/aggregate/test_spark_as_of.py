"""A question as of a time has the same answer while records arrive, or is refused by name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from mirror_maker.settings import LinkSettings, MirrorSettings
from spark_global.cut.offsets import Cut, CutRefusedError, time_text
from spark_global.cut.samples import read_vectors
from spark_global.links import MirrorLink
from spark_global.source.options import ReadOptions
from spark_global.source.planning import plan_cut, plan_read
from spark_global.sql import run_sql
from spark_global.views import Aggregate, load_table, read_past
from tests.support.cluster import running_broker
from tests.support.mirror_process import MirrorProcess
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

PARTITIONS = 2
PLANTED = 10
"""Records of each partition before the time that is asked for."""
SAMPLES_WAITED_FOR = 10
"""Looks for the sample after a time, half a second each."""
SECONDS_MAX = 120.0
WRITE_SECONDS = 0.2

Place = tuple[str, int, int]
"""Datacenter, partition and source offset of a record."""


@dataclass
class Cluster:
    """Two sources and their aggregate, with a mirror between them."""

    aggregate: Aggregate
    sources: dict[str, KafkaClient]
    written: dict[tuple[str, int], int] = field(default_factory=dict)
    """Records by datacenter and partition."""

    async def write(self) -> None:
        """Append one record to each partition of each source."""
        for datacenter, client in self.sources.items():
            for partition in range(PARTITIONS):
                at = TopicPartition("flights", partition)
                await produce_to(client, at, encode_batch([NewRecord(1_000, b"k", b"landed")]))
                key = datacenter, partition
                self.written[key] = self.written.get(key, 0) + 1

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write all the time."""

        is_over = asyncio.Event()

        async def until_over() -> None:
            while not is_over.is_set():
                await self.write()
                await asyncio.sleep(WRITE_SECONDS)

        task = asyncio.create_task(until_over())
        try:
            yield
        finally:
            is_over.set()  # a cancelled write may have been appended, and was not counted
            await task

    def options(self, as_of_ms: int, since_ms: int | None = None) -> ReadOptions:
        return ReadOptions(
            bootstrap=self.aggregate.bootstrap,
            links=self.aggregate.links,
            topic="flights",
            as_of=as_of_ms,
            since=since_ms,
        )

    async def cut_of_all_written(self) -> Cut:
        """Return a cut that has every record so far, as soon as one is published."""
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                options = self.options(time.time_ns() // 1_000_000)
                # A time is answered once each source gave a sample after it, and one before.
                for _ in range(SAMPLES_WAITED_FOR):
                    cut = await plan_cut(options, await read_vectors(options))
                    if not cut.left_out:
                        break
                    await asyncio.sleep(0.5)
                ends = {(str(p.datacenter), p.key.partition): p.source_end for p in cut.partitions}
                if ends == self.written and not cut.left_out:
                    return cut

    def places(self) -> set[Place]:
        return {(*key, offset) for key, count in self.written.items() for offset in range(count)}


@pytest.fixture
async def cluster(zookeeper: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with contextlib.AsyncExitStack() as stack:
        jfk, ewr, nyc = [
            await stack.enter_async_context(
                running_broker(zookeeper, tmp_path / name, cluster=name)
            )
            for name in ("jfk", "ewr", "nyc")
        ]
        bootstraps = {"jfk": jfk.bootstrap, "ewr": ewr.bootstrap}
        clients = {}
        for name, bootstrap in bootstraps.items():
            clients[name.upper()] = await stack.enter_async_context(KafkaClient(bootstrap))
            flights = NewTopic(
                name="flights",
                partitions=PARTITIONS,
                replication_factor=1,
                configs={"retention.ms": "-1"},
            )
            await clients[name.upper()].create_topics([flights])
        mirror = MirrorSettings(
            worker_id="w",
            target_alias="nyc",
            target_bootstrap=nyc.bootstrap,
            links=tuple(
                LinkSettings(name=f"{name}-nyc", source_alias=name, source_bootstrap=bootstrap)
                for name, bootstrap in bootstraps.items()
            ),
            ready_file=str(tmp_path / "mirror" / "ready.json"),
        )
        worker = MirrorProcess(mirror, tmp_path / "mirror")
        worker.directory.mkdir()
        await worker.start()
        stack.push_async_callback(worker.kill)
        links = tuple(
            MirrorLink(name=f"{name}-nyc", source=name, datacenter=name.upper())
            for name in bootstraps
        )
        yield Cluster(Aggregate(name="nyc", bootstrap=nyc.bootstrap, links=links), clients)


BOUNDS: Mapping[str, Callable[[Place], bool]] = {
    "datacenter = 'JFK'": lambda place: place[0] == "JFK",
    "partition = 1 AND `offset` >= 3": lambda place: place[1] == 1 and place[2] >= 3,
    "`offset` BETWEEN 2 AND 25 AND datacenter <> 'JFK'": lambda place: (
        2 <= place[2] <= 25 and place[0] != "JFK"
    ),
    "timestamp > TIMESTAMP '2000-01-01'": lambda place: False,
}
"""Conditions that bound what a query reads, and the places that they leave over."""


def ask_as_of(aggregate: Aggregate, as_of_ms: int, condition: str) -> int:
    """Ask for the places of all records of a cut that satisfy a condition."""
    query = f"SELECT datacenter, partition, `offset` FROM global_flights WHERE {condition}"
    past = read_past(aggregate, as_of_ms, allow_missing=False)
    return run_sql(f"{query} ORDER BY 1, 2, 3", aggregate=aggregate, output="json", past=past)


async def test_a_cut_is_the_same_while_records_arrive_or_is_refused(
    cluster: Cluster, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(as_of: str) -> list[Place]:
        frame = load_table(spark, cluster.aggregate, "records", topic="flights", as_of=as_of)
        rows = frame.select("datacenter", "partition", "offset").collect()
        return sorted((row.datacenter, row.partition, row.offset) for row in rows)

    for _ in range(PLANTED):
        await cluster.write()
    planted = sorted(cluster.places())
    first = await cluster.cut_of_all_written()
    async with cluster.writing():
        for _ in range(2):
            assert await asyncio.to_thread(read, time_text(first.as_of_ms)) == planted
        for condition, is_wanted in BOUNDS.items():
            asked = partial(ask_as_of, cluster.aggregate, first.as_of_ms, condition)
            assert await asyncio.to_thread(asked) == 0
            document = json.loads(capsys.readouterr().out)
            assert [tuple(row) for row in document["rows"]] == list(filter(is_wanted, planted))
            assert document["reads"]["global_flights"], "the condition bounds what is read"
    later = await cluster.cut_of_all_written()
    plan = await plan_read(cluster.options(later.as_of_ms, first.as_of_ms))
    more = [each.end - each.start for each in plan.ranges]
    assert more == [count - PLANTED for count in cluster.written.values()]

    await _delete_records(cluster.aggregate.bootstrap, TopicPartition("jfk.flights", 1), 3)
    refusal = "JFK flights-1: jfk.flights begins at offset 3, and the cut at 0"
    with pytest.raises(CutRefusedError, match=refusal):
        await plan_read(cluster.options(first.as_of_ms))

    def ask(*, allow_missing: bool) -> int:
        past = read_past(cluster.aggregate, first.as_of_ms, allow_missing=allow_missing)
        query = "SELECT count(*) AS n FROM global_flights"
        return run_sql(query, aggregate=cluster.aggregate, output="json", past=past)

    assert await asyncio.to_thread(lambda: ask(allow_missing=False)) == 1
    assert refusal in " ".join(capsys.readouterr().err.split())
    assert await asyncio.to_thread(lambda: ask(allow_missing=True)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == [[len(planted) - PLANTED]]
    assert [each["source_end"] for each in document["as_of"]["partitions"]] == [PLANTED] * 3
    (left_out,) = document["as_of"]["left_out"]
    assert (left_out["datacenter"], left_out["partition"]) == ("JFK", 1)


async def _delete_records(bootstrap: str, at: TopicPartition, before_offset: int) -> None:
    async with KafkaClient(bootstrap) as client:
        (node,) = (await client.metadata()).brokers
        partition = {"partition_index": at.partition, "offset": before_offset}
        topics = [{"name": at.topic, "partitions": [partition]}]
        response = await client.call(
            ApiKey.DELETE_RECORDS, {"topics": topics, "timeout": 10_000}, node_id=node
        )
        assert not response.topics[0].partitions[0].error_code
