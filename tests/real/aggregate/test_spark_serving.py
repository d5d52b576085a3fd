"""`spark serve`: each row once in a topic, for readers of committed records that share no code."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from spark_global.addresses import ClusterAddress
from spark_global.serving.clients import open_producer
from spark_global.serving.lanes import ServedTopic
from spark_global.serving.positions import Batch, ServedByAnotherError, transactional_id
from spark_global.serving.serving import (
    OwnInputError,
    check_positions,
    prepare_topics,
    start_serving,
    write_batch,
)
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.iceberg_job import SOURCES, aggregate_of
from tests.support.kafka_from_maven import running_kafka
from tests.support.serving_job import serving
from tests.support.spark_job import SparkJob

KILLS = int(os.environ.get("SERVE_KILLS", "6"))
SEED = int(os.environ.get("SERVE_SEED", "1"))
SECONDS_MAX = 600.0
SERVED = "served"

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("serving-broker")) as nyc:
        yield nyc


def committed(bootstrap: str, topic: str, partitions: int = 1) -> list[tuple[dict[str, str], str]]:
    """Headers and value of every committed record, by a client of librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "outside",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    found: list[tuple[dict[str, str], str]] = []
    ended: set[int | None] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None, f"{topic}: {ended} of {partitions} partitions ended"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
                continue
            texts = {name: str(value, "utf-8") for name, value in _headers(message)}
            value = message.value()
            assert isinstance(value, bytes)
            found.append((texts, value.decode()))
    finally:
        consumer.close()
    return found


def _headers(message: Message) -> list[tuple[str, bytes]]:
    found = message.headers() or []
    return [(name, value) for name, value in dict(found).items() if isinstance(value, bytes)]


def test_a_batch_that_runs_again_is_not_written_again(spark: SparkSession, nyc: Aggregated) -> None:
    nyc.run(nyc.create("out"))
    target = ServedTopic(cluster=ClusterAddress(nyc.bootstrap), topic="out", name="out")
    assert nyc.run(prepare_topics(target, 2)) == 2
    assert nyc.run(prepare_topics(target, 5)) == 2
    rows = spark.range(20).select(sql.concat(sql.lit("v"), "id").alias("word"))
    first = rows.where("pmod(xxhash64(to_json(struct(word))), 2) = 0")
    in_lane = first.count()
    assert 0 < in_lane < 20

    # A writer that was killed: its records are not committed, and its successor ends them.
    killed = Producer(
        {"bootstrap.servers": nyc.bootstrap, "transactional.id": transactional_id("out", 0)}
    )
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce("out", b"of a killed writer")
    killed.flush()

    batch, batch_2 = Batch("query", 0, 2), Batch("query", 2, 2)
    assert write_batch(first, batch, target) == in_lane  # one lane, then a kill
    assert write_batch(rows, batch, target) == 20 - in_lane
    assert write_batch(rows, batch, target) == 0
    expected = Counter(json.dumps({"word": f"v{i}"}, separators=(",", ":")) for i in range(20))
    assert Counter(value for _, value in committed(nyc.bootstrap, "out")) == expected
    assert write_batch(rows.limit(0), Batch("query", 1, 2), target) == 0
    assert write_batch(rows, batch_2, target) == 20
    assert Counter(value for _, value in committed(nyc.bootstrap, "out")) == expected + expected
    # A query of the same name with another checkpoint is refused, and fences nobody.
    writer = open_producer(target.cluster, transactional_id("out", 0))
    writer.begin_transaction()
    writer.produce(target.positions_topic, b"open", partition=0)
    writer.flush()
    with pytest.raises(ServedByAnotherError, match="query query has served batch 2, and this is"):
        check_positions(target, Batch("another", 0, 2))
    writer.abort_transaction(30)
    with pytest.raises(PySparkException, match="query query has served batch 2, and this is"):
        write_batch(rows, Batch("another", 3, 2), target)
    with pytest.raises(PySparkException, match="the checkpoint is an older copy"):
        write_batch(spark.range(20).selectExpr("concat('w', id) AS word"), batch_2, target)
    with pytest.raises(KafkaException, match="old epoch"):
        killed.produce("out", b"of a zombie")
        killed.flush(10)
    assert len(committed(nyc.bootstrap, "out")) == 40
    # Compressed it is far below the topic's max.message.bytes.
    large = spark.range(1).selectExpr("repeat('x', 1500000) AS word")
    assert write_batch(large, Batch("query", 3, 2), target) == 1


def test_records_keep_their_content_and_name_their_origin(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    for topic in ("ewr.s", SERVED):
        nyc.run(nyc.create(topic))
    nyc.run(nyc.publish_map("ewr", "s", 30))
    nyc.run(nyc.copy("ewr.s", range(20)))
    wanted = serving("s", nyc.bootstrap, SERVED, str(tmp_path / "checkpoint"), 8, once=True)
    query = start_serving(spark, aggregate_of(nyc.bootstrap), wanted)
    query.awaitTermination()
    nyc.run(nyc.copy("ewr.s", range(20, 30)))
    continuous = serving("s", nyc.bootstrap, SERVED, str(tmp_path / "checkpoint"), 8)
    query = start_serving(spark, aggregate_of(nyc.bootstrap), continuous)
    query.processAllAvailable()
    query.stop()
    assert committed(nyc.bootstrap, SERVED) == [
        (
            {
                "heliograph.datacenter": "EWR",
                "heliograph.topic": "s",
                "heliograph.partition": "0",
                "heliograph.offset": str(SHIFT + i),
            },
            f"ewr.s {i}",
        )
        for i in range(30)
    ]


def test_a_query_is_served_and_goes_on(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    for topic in ("ewr.q", "served-q"):
        nyc.run(nyc.create(topic))
    query = "SELECT offset, key FROM stream_global_q WHERE `offset` % 2 = 0"
    checkpoint = str(tmp_path / "checkpoint")
    for end in (10, 16):
        nyc.run(nyc.publish_map("ewr", "q", end))
        nyc.run(nyc.copy("ewr.q", range(10) if end == 10 else range(10, 16), keys=3))
        wanted = serving("q", nyc.bootstrap, "served-q", checkpoint, 8, once=True, query=query)
        start_serving(spark, aggregate_of(nyc.bootstrap), wanted).awaitTermination()
        found = [json.loads(value) for _, value in committed(nyc.bootstrap, "served-q")]
        assert sorted(row["offset"] for row in found) == [SHIFT + n for n in range(0, end, 2)]
    # A query that reads what it writes is refused, as a view is.
    loop = serving("q", nyc.bootstrap, "ewr.q", checkpoint, 8, once=True, query=query)
    with pytest.raises(OwnInputError, match="would read its own records"):
        start_serving(spark, aggregate_of(nyc.bootstrap), loop)


@pytest.mark.long
def test_windows_that_wait_for_datacenters_are_served(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    nyc.run(nyc.create("served-w"))
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.w"))
    checkpoint = str(tmp_path / "checkpoint")
    view = "w_strict_windows"
    served = []
    # The second source is dead at first. A window closes 600 s after its end.
    for through in (899, 900):
        for source in SOURCES:
            records = 10 if through == 899 else 0
            nyc.run(nyc.copy(f"{source}.w", range(records)))
            nyc.run(nyc.publish_map(source, "w", 10))
            at = 5_000 if source == SOURCES[0] else through
            nyc.run(nyc.state_complete(source, "w", SHIFT + 10, at * 1_000))
        wanted = serving(view, nyc.bootstrap, "served-w", checkpoint, 100, once=True)
        start_serving(spark, aggregate_of(nyc.bootstrap), wanted).awaitTermination()
        served.append([json.loads(value) for _, value in committed(nyc.bootstrap, "served-w")])
    assert served[0] == []
    assert [(row["records"], row["is_late"]) for row in served[1]] == [(20, False)]


@pytest.fixture(params=["ours", "kafka"])
def target(
    request: pytest.FixtureRequest, nyc: Aggregated, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aggregated]:
    """The cluster that is written to: our broker, or Apache Kafka of the newest release."""
    if request.param == "ours":
        yield nyc
        return
    context = running_kafka(tmp_path_factory.mktemp("serving-kafka"))
    kafka = nyc.run(context.__aenter__())
    try:
        yield Aggregated(kafka.bootstrap, nyc.runner)
    finally:
        nyc.run(context.__aexit__(None, None, None))


class Campaign:
    """A job that serves two sources, and is killed."""

    def __init__(self, nyc: Aggregated, target: Aggregated, directory: Path) -> None:
        self.nyc = nyc
        self.target = target
        self.directory = directory
        self.topic = f"z{len(nyc.published)}"
        self.served = f"served-{self.topic}"
        self.records = 0
        self._jobs = 0

    def start(self) -> SparkJob:
        self._jobs += 1
        checkpoint = str(self.directory / "checkpoint")
        arguments = [self.nyc.bootstrap, self.topic, self.target.bootstrap, self.served]
        log = self.directory / f"job-{self._jobs}.log"
        return SparkJob("tests.support.serving_job", [*arguments, checkpoint, "20"], log)

    def produce(self) -> None:
        more = range(self.records, self.records + 60)
        for source in SOURCES:
            self.nyc.run(self.nyc.publish_map(source, self.topic, more.stop))
            self.nyc.run(self.nyc.copy(f"{source}.{self.topic}", more))
        self.records = more.stop

    def found(self) -> Counter[str]:
        rows = committed(self.target.bootstrap, self.served, 2)
        return Counter(value for _, value in rows)

    def wait_for(self, count: int, job: SparkJob) -> SparkJob:
        """Wait for so many records; a job that ended is started again."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.found().total() < count:
            assert time.monotonic() < deadline, job.log_file.read_text()[-3_000:]
            if job.process.poll() is not None:
                job.kill()  # what is left of its session
                job = self.start()
            time.sleep(0.1)
        return job


@pytest.mark.long
@pytest.mark.timeout(1_200 + 300 * KILLS)
def test_kills_lose_nothing_and_double_nothing(
    nyc: Aggregated, target: Aggregated, tmp_path: Path
) -> None:
    """kill -9 of the driver with its workers, or of the workers alone, at any moment."""
    campaign = Campaign(nyc, target, tmp_path)
    target.run(target.create(campaign.served, partitions=2))
    for source in SOURCES:
        nyc.run(nyc.create(f"{source}.{campaign.topic}"))
    chance = random.Random(SEED)
    campaign.produce()
    job = campaign.start()
    try:
        for index in range(KILLS):
            before = campaign.found().total()
            campaign.produce()
            job = campaign.wait_for(before + 1, job)
            time.sleep(chance.random() * 2)
            campaign.produce()
            time.sleep(chance.random())
            if index % 3 == 2:
                job.kill_workers()
            else:
                job.kill()
                job = campaign.start()
        job = campaign.wait_for(campaign.records * len(SOURCES), job)
    finally:
        job.kill()
    found = campaign.found()
    expected = Counter(
        f"{source}.{campaign.topic} {i}" for source in SOURCES for i in range(campaign.records)
    )
    print(
        f"{KILLS} kills, {expected.total()} records: {(expected - found).total()} lost, "
        f"{(found - expected).total()} doubled or foreign"
    )
    assert found == expected
