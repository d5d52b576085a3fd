"""The data source and the views read the records that were produced into a real broker."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.compress import Codec
from mirror_maker.formats import (
    Block,
    FlowKey,
    Run,
    encode_gap,
    encode_record,
    gaps_topic_name,
    map_topic_name,
)
from mirror_maker.formats.verdicts import bucket_record, progress_record, verdicts_topic_name
from spark_global.links import MirrorLink
from spark_global.narrowing.plans import Need, Rehearsal
from spark_global.prompt import read_questions
from spark_global.source.tables import RECORDS
from spark_global.sql import run_sql
from spark_global.values.declaring import Decoding, PartDecoding, TopicDecoding
from spark_global.values.not_decodable import SchemaFileError
from spark_global.views import (
    Aggregate,
    create_views,
    create_views_for,
    global_topics,
    load_table,
)
from tests.support.cluster import running_broker
from tests.support.producing import produce_once
from tests.unit.spark_global.source.test_rows import journal_entry, verdicts_of

pytestmark = pytest.mark.real

DAY_MS = 86_400_000
PARTITIONS = 2
CODECS = (Codec.LZ4, Codec.NONE, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY)
SHIFT = 1_000
"""Source offsets of jfk.flights are so much higher than those of the aggregate."""
MAPPED = 40
"""Records of jfk.flights, partition 0, of which the map speaks."""
PER_PARTITION = 50

SUBQUERIES = """
    SELECT datacenter, (SELECT max(offset) FROM global_flights) AS newest
    FROM global_flights WHERE aggregate_topic IN
        (SELECT aggregate_topic FROM global_flights WHERE `offset` IS NOT NULL)
"""
SELF_JOIN = """
    WITH pairs AS (
        SELECT a.key, b.value FROM global_flights a JOIN global_flights b
        USING (topic, partition, aggregate_offset))
    SELECT key, value FROM pairs UNION ALL SELECT value, key FROM pairs
"""


def record(topic: str, partition: int, index: int) -> NewRecord:
    """Return record number `index` of a partition; some records have nulls of each kind."""
    return NewRecord(
        index * DAY_MS // 10,
        None if index % 5 == 0 else f"k{partition}".encode(),
        None if index % 7 == 0 else f"{topic} {index}".encode(),
        (("n", None), ("i", b"%d" % index)) if index % 3 == 0 else (),
    )


@dataclass(frozen=True)
class Cluster:
    """An aggregate with mirrored topics, a map for one of them, and a topic of its own."""

    aggregate: Aggregate
    own: Aggregate
    """The same cluster, seen as one without links."""


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with asyncio.Runner() as runner:
        context = running_broker(zookeeper, tmp_path_factory.mktemp("spark-broker"))
        broker = runner.run(context.__aenter__())
        try:
            runner.run(fill(broker.bootstrap))
            links = tuple(
                MirrorLink(name=f"{name}-nyc", source=name, datacenter=name.upper())
                for name in ("ewr", "jfk")
            )
            yield Cluster(
                Aggregate(name="nyc", bootstrap=broker.bootstrap, links=links),
                Aggregate(name="nyc", bootstrap=broker.bootstrap, links=()),
            )
        finally:
            runner.run(context.__aexit__(None, None, None))


INTERNAL_COPY = "ewr.heliograph-probe.ewr-nyc.internal"
"""No view is named by it, because reads leave it out."""


async def fill(bootstrap: str) -> None:
    map_topic = map_topic_name("jfk-nyc")
    async with KafkaClient(bootstrap) as client:
        topics = [
            NewTopic(name=name, partitions=PARTITIONS, configs={"retention.ms": "-1"})
            for name in ("ewr.flights", "jfk.flights", "weather")
        ]
        compacted = {"cleanup.policy": "compact"}
        topics.append(NewTopic(name=map_topic, partitions=1, configs=compacted))
        topics.append(NewTopic(name=INTERNAL_COPY, partitions=1))
        created = await client.create_topics(topics)
        assert not any(created.values()), created
        for topic in topics[:3]:
            for partition in range(PARTITIONS):
                for first in range(0, PER_PARTITION, 10):
                    records = [record(topic.name, partition, first + i) for i in range(10)]
                    codec = CODECS[first // 10 % len(CODECS)]
                    at = TopicPartition(topic.name, partition)
                    await produce(client, at, encode_batch(records, codec=codec))
        key, value = encode_record(jfk_map())
        await produce(
            client, TopicPartition(map_topic, 0), encode_batch([NewRecord(0, key, value)])
        )


def jfk_map() -> Block:
    return Block(
        flow=FlowKey("flights", 0, UUID(int=1), UUID(int=2)),
        producer_id=1,
        producer_epoch=0,
        nonce=1,
        target_topic="jfk.flights",
        source_start=SHIFT,
        target_start=0,
        source_next=SHIFT + MAPPED,
        next_sequence=MAPPED,
        runs=(Run(SHIFT, 0, MAPPED),),
    )


async def produce(client: KafkaClient, at: TopicPartition, batch: bytearray) -> None:
    metadata = await client.metadata([at.topic])
    leader = metadata.topics[at.topic].partitions[at.partition].leader
    produced = await produce_once(client, leader, at, batch)
    assert not produced.error, produced


def offsets(frame: DataFrame) -> list[int]:
    rows = frame.select("aggregate_offset").collect()
    return sorted(row.aggregate_offset for row in rows)


def test_every_record_as_it_was_produced(spark: SparkSession, cluster: Cluster) -> None:
    frame = load_table(spark, cluster.aggregate, "records", topic="flights")
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS timestamp_ms").collect()
    assert len(rows) == 2 * PARTITIONS * PER_PARTITION
    for row in rows:
        wanted = record(row.aggregate_topic, row.partition, row.aggregate_offset)
        assert row.datacenter == row.aggregate_topic[:3].upper()
        assert row.topic == "flights"
        assert row.key == wanted.key
        assert row.value == wanted.value
        assert tuple((h.key, h.value) for h in row.headers) == wanted.headers
        assert row.timestamp_ms == wanted.timestamp_ms
    places = {(row.aggregate_topic, row.partition, row.aggregate_offset) for row in rows}
    assert len(places) == len(rows)


def test_source_offsets_come_from_the_map_and_are_null_past_it(
    spark: SparkSession, cluster: Cluster
) -> None:
    frame = load_table(spark, cluster.aggregate, "records", topics="jfk.flights", partitions="0")
    found = {row.aggregate_offset: row.offset for row in frame.collect()}
    assert found == {
        offset: offset + SHIFT if offset < MAPPED else None for offset in range(PER_PARTITION)
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"aggregate_offset_first": 7, "aggregate_offset_end": 13}, range(7, 13)),
        ({"offset_first": SHIFT + 35}, range(35, MAPPED)),
        ({"offset_end": SHIFT + 3}, range(3)),
        ({"timestamp_first": "1970-01-05T00:00:00"}, range(40, PER_PARTITION)),
        ({"datacenters": "EWR"}, range(0)),
        ({"split_records_max": 7}, range(PER_PARTITION)),
        ({"fetch_bytes_max": 1}, range(PER_PARTITION)),
    ],
)
def test_options_bound_what_is_read(
    spark: SparkSession, cluster: Cluster, options: dict[str, str | int], expected: range
) -> None:
    frame = load_table(
        spark, cluster.aggregate, "records", topics="jfk.flights", partitions="0", **options
    )
    assert offsets(frame) == list(expected)


def test_filters_of_one_load_do_not_leak_into_each_other(
    spark: SparkSession, cluster: Cluster
) -> None:
    # Spark 4.2 with pushed filters answers the second and the third part with the first's.
    create_views(spark, cluster.aggregate, "global_flights")
    rows = spark.sql(
        "SELECT count(*) AS n FROM global_flights WHERE datacenter = 'JFK' AND partition = 0"
        " UNION ALL SELECT count(*) FROM global_flights WHERE datacenter = 'EWR'"
        " UNION ALL SELECT count(*) FROM global_flights"
    ).collect()
    assert sorted(row.n for row in rows) == [PER_PARTITION, 2 * PER_PARTITION, 4 * PER_PARTITION]


def test_a_topic_of_the_cluster_itself_is_its_own_origin(
    spark: SparkSession, cluster: Cluster
) -> None:
    frame = load_table(spark, cluster.own, "records", topics="weather", datacenter="NYC")
    (row,) = frame.where("partition = 1 AND offset = 4").collect()
    assert (row.datacenter, row.topic, row.aggregate_topic) == ("NYC", "weather", "weather")
    assert (row.offset, row.aggregate_offset) == (4, 4)


def test_bookkeeping_tables(spark: SparkSession, cluster: Cluster) -> None:
    (run,) = load_table(spark, cluster.aggregate, "offset_map").collect()
    assert (run.link, run.datacenter, run.topic, run.partition) == ("jfk-nyc", "JFK", "flights", 0)
    assert (run.offset, run.aggregate_offset, run.records) == (SHIFT, 0, MAPPED)
    ends = load_table(spark, cluster.aggregate, "end_offsets").collect()
    mapped = {
        (row.aggregate_topic, row.partition): row.mapped_source_offset
        for row in ends
        if row.last_stable_offset == PER_PARTITION
    }
    assert mapped == {
        ("ewr.flights", 0): None,
        ("ewr.flights", 1): None,
        ("jfk.flights", 0): SHIFT + MAPPED,
        ("jfk.flights", 1): None,
    }


def test_views_are_named_by_the_source_topic(spark: SparkSession, cluster: Cluster) -> None:
    assert global_topics(cluster.aggregate) == ["flights"]
    assert create_views(spark, cluster.aggregate, "SELECT * FROM Global_Flights") == [
        "global_flights"
    ]
    assert spark.table("global_flights").columns == [
        "datacenter",
        "topic",
        "partition",
        "offset",
        "aggregate_topic",
        "aggregate_offset",
        "timestamp",
        "key",
        "value",
        "headers",
        "topic_id",
    ]


@pytest.mark.parametrize(
    "names", ["datacenter,partition", "offset,aggregate_offset", "key,timestamp"]
)
def test_columns_that_are_asked_for_are_as_among_all(
    spark: SparkSession, cluster: Cluster, names: str
) -> None:
    options: dict[str, str | int] = {"topic": "flights", "split_records_max": 7}
    frame = load_table(spark, cluster.aggregate, "records", columns=names, **options)
    whole = load_table(spark, cluster.aggregate, "records", **options).select(*frame.columns)
    assert sorted(frame.columns) == sorted(names.split(","))
    assert sorted(map(str, frame.collect())) == sorted(map(str, whole.collect()))


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT count(*) FROM global_flights", "partition"),
        ("SELECT topic, count(*) FROM global_flights GROUP BY topic", "topic"),
        ("SELECT max(timestamp) FROM global_flights WHERE partition = 0", "partition timestamp"),
        ("SELECT * FROM global_flights", " ".join(RECORDS.names)),
        ("SELECT headers[0].key FROM global_flights LIMIT 3", "headers"),
        ("SELECT key FROM global_flights UNION SELECT value FROM global_flights", "key value"),
        (SUBQUERIES, "datacenter offset aggregate_topic"),
        (SELF_JOIN, "topic partition aggregate_offset key value"),
        ("SELECT * FROM global_flights TABLESAMPLE (50 PERCENT)", ""),
        ("SELEC", ""),
    ],
)
def test_a_query_reads_the_columns_that_it_needs(
    spark: SparkSession, query: str, columns: str
) -> None:
    rehearsal = Rehearsal(spark)
    rehearsal.records("flights").createOrReplaceTempView("global_flights")
    need = rehearsal.needs_of_query(query).get("flights", Need())
    assert " ".join(need.columns) == columns


UNLOOKED_AT = """
    SELECT count(timestamp), count(headers), count(aggregate_topic), sum(n)
    FROM (SELECT *, partition AS n FROM global_flights)
"""
"""It names columns that its plan does not need, because they are never null."""


@pytest.mark.parametrize("query", [SUBQUERIES, SELF_JOIN, UNLOOKED_AT])
def test_views_for_one_query_answer_as_whole_views(
    spark: SparkSession, cluster: Cluster, query: str
) -> None:
    narrowed = create_views_for(spark, cluster.aggregate, query)
    assert len(narrowed["global_flights"]["columns"].split(",")) < len(RECORDS)
    found = sorted(map(str, spark.sql(query).collect()))
    assert spark.table("global_flights").columns == RECORDS.names
    create_views(spark, cluster.aggregate, query)
    assert found == sorted(map(str, spark.sql(query).collect()))
    assert found


def test_sql_prints_json(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    query = (
        "SELECT datacenter, count(*) AS n, max(timestamp) AS latest FROM global_flights"
        " GROUP BY datacenter ORDER BY datacenter"
    )
    assert run_sql(query, aggregate=cluster.aggregate, output="json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["columns"] == ["datacenter", "n", "latest"]
    assert [row[:2] for row in document["rows"]] == [["EWR", 100], ["JFK", 100]]


def test_sql_says_that_it_shows_only_the_first_rows(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT partition FROM global_flights"
    for limit, is_cut in ((199, True), (200, False)):
        assert run_sql(query, aggregate=cluster.aggregate, output="json", limit=limit) == 0
        document = json.loads(capsys.readouterr().out)
        assert (len(document["rows"]), document["limit"]) == (limit, limit)
        assert (document["is_cut"], document["rows_left_out_min"]) == (is_cut, int(is_cut))
        assert run_sql(query, aggregate=cluster.aggregate, limit=limit) == 0
        said = capsys.readouterr().err
        assert ("only the first 199 rows are shown, at least 1 more" in said) == is_cut


def test_sql_counts_what_it_leaves_out(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT partition FROM global_flights"
    ask = partial(run_sql, query, aggregate=cluster.aggregate, limit=7, counts_all=True)
    assert (ask(output="json"), ask(output="human")) == (0, 0)
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[0])["rows_left_out"] == 193
    assert "193 more are left out" in " ".join(said.err.split())


def test_one_session_answers_the_queries_of_standard_input(
    spark: SparkSession,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "SELECT 1 AS a;\n\nSELECT count(*)\n  AS b FROM global_flights;\nSELEC;\nSELECT 2 AS c"

    def answers(*, goes_on: bool) -> tuple[int, list[Any]]:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        ask = partial(run_sql, aggregate=cluster.aggregate, output="json", goes_on=goes_on)
        code = ask(read_questions())
        said = capsys.readouterr()
        assert "PARSE_SYNTAX_ERROR" in said.err
        return code, [json.loads(line)["rows"] for line in said.out.splitlines()]

    assert answers(goes_on=False) == (1, [[[1]], [[200]]])
    assert answers(goes_on=True) == (0, [[[1]], [[200]], [[2]]])


def test_sql_says_what_is_wrong(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_sql("SELEC 1", aggregate=cluster.aggregate) == 1
    assert "PARSE_SYNTAX_ERROR" in capsys.readouterr().err
    assert run_sql("SELECT * FROM global_fights", aggregate=cluster.aggregate) == 1
    assert "global_fights" in capsys.readouterr().err


def test_a_missing_topic_is_named(spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION: nowhere"):
        load_table(spark, cluster.aggregate, "records", topics="nowhere").collect()


def test_a_corrupt_batch_fails_the_query(
    spark: SparkSession, cluster: Cluster, zookeeper: str, tmp_path: Path
) -> None:
    async def fill_and_break() -> str:
        broker = await context.__aenter__()
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
            at = TopicPartition("t", 0)
            await produce(client, at, encode_batch([NewRecord(0, None, b"fine")]))
            await produce(client, at, encode_batch([NewRecord(0, None, b"broken")]))
        (log,) = broker.log_dir.glob("t-0/*.log")
        content = log.read_bytes()
        with log.open("r+b") as file:
            file.seek(content.index(b"broken"))
            file.write(b"BROKEN")
        return broker.bootstrap

    context = running_broker(zookeeper, tmp_path, broker_id=2)
    with asyncio.Runner() as runner:
        bootstrap = runner.run(fill_and_break())
        try:
            here = Aggregate(name="x", bootstrap=bootstrap, links=())
            with pytest.raises(Exception, match="the batch at offset 1 fails its CRC"):
                load_table(spark, here, "records", topics="t").collect()
        finally:
            runner.run(context.__aexit__(None, None, None))


def test_views_of_decoded_records_and_rejects(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values of flights are no JSON, and every seventh one is null."""
    file = tmp_path / "flights.json"
    file.write_text('{"properties": {"id": {"type": "integer"}}}')
    part = PartDecoding(format="json", schema=str(file))
    decoding = Decoding(topics={"flights": TopicDecoding(value=part)})
    query = "SELECT (SELECT count(*) FROM decoded_flights), (SELECT count(*) FROM rejects_flights)"
    names = create_views(spark, cluster.aggregate, query, decoding=decoding)
    assert names == ["decoded_flights", "rejects_flights"]
    nulls = 2 * PARTITIONS * len(range(0, PER_PARTITION, 7))
    every = 2 * PARTITIONS * PER_PARTITION
    assert tuple(spark.sql(query).collect()[0]) == (nulls, every - nulls)
    (reject,) = spark.table("rejects_flights").where("datacenter = 'JFK'").limit(1).collect()
    assert reject.reason.startswith("value: no JSON")
    assert reject.value.startswith(b"jfk.flights ")
    unknown = Decoding(topics={"flight": TopicDecoding(value=part)})
    with pytest.raises(SchemaFileError, match=r"flight to decode .* did you mean flights"):
        create_views(spark, cluster.aggregate, query, decoding=unknown)
    file.write_text("{")
    query = "SELECT count(*) FROM decoded_flights"
    assert run_sql(query, aggregate=cluster.aggregate, decoding=decoding) == 1
    said = " ".join(capsys.readouterr().err.split())  # a terminal breaks the lines
    assert f"schema file {file} of flights, value: no JSON" in said


def test_the_verdicts_of_the_audit(spark: SparkSession, cluster: Cluster) -> None:
    """They are read from the topic that the mirror's audit writes."""

    async def publish() -> None:
        async with KafkaClient(cluster.aggregate.bootstrap) as client:
            name = verdicts_topic_name("jfk-nyc")
            compacted = {"cleanup.policy": "compact"}
            created = await client.create_topics(
                [NewTopic(name=name, partitions=1, configs=compacted)]
            )
            assert not any(created.values()), created
            copy = (await client.metadata(["jfk.flights"])).topics["jfk.flights"]
            assert copy.topic_id is not None
            flow = FlowKey("flights", 0, UUID(int=1), copy.topic_id)
            records = [
                NewRecord(0, key, value)
                for _, found in verdicts_of(flow).flows()
                for key, value in (
                    bucket_record(flow, 0, found.closed[0]),
                    progress_record(flow, found.progress),
                )
            ]
            await produce(client, TopicPartition(name, 0), encode_batch(records))

    asyncio.run(publish())
    query = "SELECT verdict, records_count, datacenter, complete_through FROM heliograph_audit"
    create_views(spark, cluster.aggregate, query)
    rows = spark.sql(query + " WHERE is_fault OR bucket_start IS NULL").collect()
    assert sorted(map(tuple, rows)) == [("COMPLETE", 1, "JFK", None), ("LOST", 2, "JFK", None)]


def test_the_journal_of_gaps(spark: SparkSession, cluster: Cluster) -> None:
    """Of two copies one was deleted since."""

    async def publish() -> None:
        async with KafkaClient(cluster.aggregate.bootstrap) as client:
            name = gaps_topic_name("jfk-nyc")
            compacted = {"cleanup.policy": "compact"}
            created = await client.create_topics(
                [NewTopic(name=name, partitions=1, configs=compacted)]
            )
            assert not any(created.values()), created
            copy = (await client.metadata(["jfk.flights"])).topics["jfk.flights"]
            assert copy.topic_id is not None
            entries = [
                journal_entry(FlowKey("flights", partition, UUID(int=1), copy_id))
                for partition, copy_id in enumerate((copy.topic_id, UUID(int=9)))
            ]
            records = [NewRecord(0, *encode_gap(entry)) for entry in entries]
            await produce(client, TopicPartition(name, 0), encode_batch(records))

    asyncio.run(publish())
    query = (
        "SELECT partition, datacenter, source_from, source_to, is_current FROM heliograph_journal"
    )
    create_views(spark, cluster.aggregate, query)
    rows = spark.sql(query).collect()
    assert sorted(map(tuple, rows)) == [(0, "JFK", 100, 105, True), (1, "JFK", 100, 105, False)]
