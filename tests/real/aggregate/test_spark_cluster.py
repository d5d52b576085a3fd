"""A standalone cluster of Spark, whose workers have our package only from the archive."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats.mm2 import HEARTBEATS_TOPIC, Heartbeat, encode_heartbeat
from spark_global.catalogue.offsets import OFFSET_QUESTIONS
from spark_global.catalogue.records import RECORD_QUESTIONS
from spark_global.catalogue.windows import WINDOW_QUESTIONS
from spark_global.links import MirrorLink, encode_links
from spark_global.shipping import write_archive
from tests.support.aggregated import SHIFT, Aggregated
from tests.support.cluster import running_broker
from tests.support.producing import produce_to
from tests.support.spark_cluster import SETTINGS, WORKERS, SparkCluster

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]

JOB = Path(__file__).parents[2] / "support" / "spark_cluster_job.py"
SOURCES = ("ewr", "jfk")
PARTITIONS = 2
PER_PARTITION = 50
SQL = """
import sys
from spark_global.links import decode_links
from spark_global.sql import run_sql
from spark_global.views import Aggregate
bootstrap, links, master, *settings = sys.argv[1:]
sys.exit(run_sql(
    "SELECT datacenter, count(*) FROM global_flights GROUP BY datacenter ORDER BY datacenter",
    aggregate=Aggregate(name="nyc", bootstrap=bootstrap, links=decode_links(links)),
    output="json", master=master, conf=dict(each.split("=", 1) for each in settings),
))
"""


@dataclass(frozen=True)
class World:
    """A filled aggregate, and a cluster of Spark to read it with."""

    bootstrap: str
    links: str
    spark: SparkCluster


@pytest.fixture(scope="module")
def world(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    cluster = SparkCluster(tmp_path_factory.mktemp("spark-cluster"))
    try:
        with asyncio.Runner() as runner:
            context = running_broker(zookeeper, tmp_path_factory.mktemp("aggregate"))
            broker = runner.run(context.__aenter__())
            try:
                fill(Aggregated(broker.bootstrap, runner))
                links = [
                    MirrorLink(
                        name=f"{name}-nyc",
                        source=name,
                        datacenter=name.upper(),
                        bootstrap=broker.bootstrap,
                    )
                    for name in SOURCES
                ]
                yield World(broker.bootstrap, encode_links(links), cluster)
            finally:
                runner.run(context.__aexit__(None, None, None))
    finally:
        cluster.stop()


def fill(nyc: Aggregated) -> None:
    """Copy two sources. The broker is also the source, whose topic is empty."""
    nyc.run(nyc.create("flights", PARTITIONS))
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.flights", PARTITIONS))
        for partition in range(PARTITIONS):
            nyc.run(nyc.copy(f"{source}.flights", range(PER_PARTITION), partition))
            nyc.run(nyc.publish_map(source, "flights", PER_PARTITION, partition))
    nyc.run(nyc.commit("readers", "jfk.flights", 10))
    nyc.run(nyc.create(f"jfk.{HEARTBEATS_TOPIC}"))
    nyc.run(beat(nyc.bootstrap))


async def beat(bootstrap: str) -> None:
    async with KafkaClient(bootstrap) as client:
        record = NewRecord(0, *encode_heartbeat(Heartbeat("jfk", "nyc", 1_000)))
        at = TopicPartition(f"jfk.{HEARTBEATS_TOPIC}", 0)
        await produce_to(client, at, encode_batch([record]))


def test_a_submitted_job_reads_asks_and_streams(world: World, tmp_path: Path) -> None:
    archive = tmp_path / "heliograph.zip"
    write_archive(archive)
    printed = world.spark.submit(archive, JOB, world.bootstrap, world.links, str(tmp_path))
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    # `open_session` takes the master of spark-submit, and the archive is all that it has of us.
    assert found["master"] == world.spark.master
    assert "/heliograph.zip/spark_global/" in found["driver"]
    for origin, _, has_rest in found["places"]:
        assert "/heliograph.zip/spark_global/source/reading.py" in origin
        assert not has_rest
    works = [world.spark.work(number) for number in range(WORKERS)]
    for work in works:
        assert any(Path(cwd).is_relative_to(work) for _, cwd, _ in found["places"]), work
    assert sorted(found["records"]) == [
        [source.upper(), partition, SHIFT + n, n, f"{source}.flights {n}"]
        for source in SOURCES
        for partition in range(PARTITIONS)
        for n in range(PER_PARTITION)
    ]
    answers = found["answers"]
    questions = RECORD_QUESTIONS + WINDOW_QUESTIONS + OFFSET_QUESTIONS
    assert answers.keys() == {each.name for each in questions} | {"heartbeat_matrix"}
    expected = {
        "duplicates": 0,
        "first_copies": len(found["records"]),
        "gaps": 0,
        "group_lag": 1,
        "heartbeat_matrix": 1,
        "late_datacenters": len(SOURCES),
        "loss_now": len(SOURCES),
        "partition_drift": 0,
        "strict_windows": 0,
        "windows": len(SOURCES),
    }
    assert {name: answers[name] for name in expected} == expected
    assert found["streamed"] == len(found["records"])


def test_sql_ships_the_package_to_the_workers(world: World) -> None:
    settings = {**SETTINGS, "spark.cores.max": "1"}
    done = subprocess.run(
        [
            sys.executable,
            *("-c", SQL, world.bootstrap, world.links, world.spark.master),
            *(f"{name}={value}" for name, value in settings.items()),
        ],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYSPARK_PYTHON": str(world.spark.python), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    document = json.loads(done.stdout)
    assert document["rows"] == [[name.upper(), PARTITIONS * PER_PARTITION] for name in SOURCES]
