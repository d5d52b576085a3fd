"""`heliograph sql` and `heliograph spark` as processes: exit codes, output, and what they leave."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from spark_global.cut.offsets import time_text
from spark_global.cut.samples import read_vectors
from spark_global.links import MirrorLink
from spark_global.source.options import ReadOptions
from spark_global.source.planning import plan_cut
from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

SECONDS_MAX = 240.0
RECORDS = 10
PARTITIONS = 2
TOPOLOGY = """\
name: asked
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    brokers: [{{id: 1, port: {1}}}]
  - {{name: nyc, kind: aggregate, brokers: [{{id: 1, port: {2}}}]}}
  - {{name: bos, kind: aggregate, brokers: [{{id: 1, port: {3}}}]}}
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
  - {{source: jfk, target: bos, topics: [flights]}}
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeliographCommand]:
    """A deployment whose aggregates have all records."""
    command = HeliographCommand(tmp_path_factory.mktemp("commands"))
    command.file.write_text(TOPOLOGY.format(*quiet_ports(4)))
    try:
        command.up()
        asyncio.run(_produce(_bootstrap(command, "jfk")))
        for aggregate in ("nyc", "bos"):
            asyncio.run(_until_copied(_bootstrap(command, aggregate)))
        yield command
    finally:
        if command.state_dir.exists():
            command.run("down", "--purge")


def _bootstrap(command: HeliographCommand, cluster: str) -> str:
    clusters = command.document("status")["clusters"]
    return str(next(each["bootstrap"] for each in clusters if each["name"] == cluster))


async def _produce(bootstrap: str) -> None:
    async with KafkaClient(bootstrap) as client:
        for name in ("flights", "served"):
            topic = NewTopic(name=name, partitions=PARTITIONS, replication_factor=1)
            assert (await client.create_topics([topic]))[name] is None
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in range(PARTITIONS):
            for each in range(RECORDS):
                value = b"%d" % each
                await producer.send_and_wait("flights", value, key=value, partition=partition)


async def _until_copied(bootstrap: str) -> None:
    """Wait until an aggregate can answer as of a time at which it had all records."""
    links = tuple(
        MirrorLink(name=f"jfk-{aggregate}", source="jfk", datacenter="jfk")
        for aggregate in ("nyc", "bos")
    )
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            options = ReadOptions(
                bootstrap=bootstrap, links=links, topic="flights", as_of=time.time_ns() // 1_000_000
            )
            await asyncio.sleep(1)  # each source gives a sample after this time
            cut = await plan_cut(options, await read_vectors(options))
            ends = [each.source_end for each in cut.partitions]
            if ends == [RECORDS] * PARTITIONS and not cut.left_out:
                return


async def _committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values of every committed record."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await consumer.start()
    found: list[bytes] = []
    try:
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(each) < ends[each] for each in places]):
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                found += [each.value for each in batch]
    finally:
        await consumer.stop()
    return found


def spark(command: HeliographCommand, *arguments: str, code: int = 0) -> str:
    """Run `heliograph spark ...`, and return what it said on both outputs."""
    done = subprocess.run(
        [sys.executable, "-m", "topology", "spark", *arguments, *command.options[2:]],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == code, said
    return said


def duckdb(command: HeliographCommand, catalogue: Path, query: str) -> Any:
    return command.run("sql", query, "--engine", "duckdb", "--catalog", str(catalogue))


@pytest.mark.long
def test_sql_as_of_a_time(command: HeliographCommand) -> None:
    now = time_text(time.time_ns() // 1_000_000)
    query = "SELECT partition, count(*) AS n FROM global_flights WHERE `offset` < 7 GROUP BY 1"
    answer = command.run("sql", query, "--as-of", now, "--aggregate", "nyc")
    assert answer["columns"] == ["partition", "n"]
    assert sorted(answer["rows"]) == [[0, 7], [1, 7]]
    assert [each["source_end"] for each in answer["as_of"]["partitions"]] == [RECORDS] * PARTITIONS
    assert answer["reads"]["global_flights"]
    tomorrow = time_text((time.time_ns() // 1_000_000) + 86_400_000)
    said = command.complain("sql", query, "--as-of", tomorrow, "--aggregate", "nyc")
    assert "sql on nyc: " in said
    assert "name the --aggregate" in command.complain("sql", query, "--as-of", now, code=2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_query_over_streams_is_kept(command: HeliographCommand, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    query = "SELECT datacenter, partition, offset FROM stream_global_flights WHERE `offset` % 2 = 1"
    keeping = ("materialize", "odd", str(path), "--once", "--aggregate", "nyc", "--sql")
    assert "odd: ended after " in spark(command, *keeping, query)
    files = list(path.glob("datacenter=jfk/*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    found = sorted((row["partition"], row["offset"]) for row in rows)
    assert found == [(p, n) for p in range(PARTITIONS) for n in range(1, RECORDS, 2)]
    said = spark(command, *keeping, "SELECT count(*) FROM stream_global_flights", code=1)
    assert "odd of nyc: " in said and "watermark" in said


@pytest.mark.long
def test_a_table_moves_to_another_aggregate(command: HeliographCommand, tmp_path: Path) -> None:
    place, name = tmp_path / "tables", ("--table", "nyc.flights")
    how = ("--to", "iceberg", *name, "--once")
    said = spark(command, "materialize", "global_flights", str(place), *how, "--aggregate", "nyc")
    assert f" {PARTITIONS * RECORDS:,} records" in said
    moving = ("move-table", str(place), "--aggregate", "nyc")
    said = spark(command, *moving, *name, "--to", "bos")
    assert said == "nyc.flights follows bos; start `materialize` there with --table nyc.flights"
    assert spark(command, *moving, *name, "--to", "bos") == said
    assert "no cluster 'boston'" in spark(command, *moving, *name, "--to", "boston", code=2)
    said = spark(command, *moving, "--table", "nyc.x", "--to", "bos", code=1)
    assert "table nyc.x: " in said
    answer = duckdb(command, place, 'SELECT count(*), count(DISTINCT "offset") FROM flights')
    assert answer["rows"] == [[RECORDS * PARTITIONS, RECORDS]]
    assert list(answer["complete_through"]) == ["flights"]


@pytest.mark.long
def test_a_served_query_moves_to_another_aggregate(
    command: HeliographCommand, tmp_path: Path
) -> None:
    checkpoint, moved = tmp_path / "checkpoint", tmp_path / "moved"
    serving = ("serve", "global_flights", "--checkpoint", str(checkpoint), "--aggregate", "nyc")
    spark(command, *serving, "--to", "jfk:served", "--once")
    served = asyncio.run(_committed(_bootstrap(command, "jfk"), "served"))
    assert sorted(served) == sorted(2 * [b"%d" % each for each in range(RECORDS)])
    said = spark(command, *serving, "--to", "sfo:served", "--once", code=2)
    assert "no cluster 'sfo'" in said
    moving = ("translate-checkpoint", str(checkpoint), str(moved), "--aggregate", "nyc")
    said = spark(command, *moving, "--to", "bos")
    assert said.startswith(f"{moved}: positions of batch ") and said.endswith("are those of bos")
    newest = max((moved / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    held = json.loads(newest.read_text().splitlines()[-1])
    assert set(held["topics"]) == {"jfk.flights"}
    assert sum(held["topics"]["jfk.flights"]["offsets"].values()) >= RECORDS * PARTITIONS
    assert "exists already; name a new directory" in spark(command, *moving, "--to", "bos", code=1)
