"""Filters of a query bound what is read, and change no answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from spark_global.links import MirrorLink, encode_links
from spark_global.narrowing.plans import Need, Rehearsal
from spark_global.source.options import parse_options
from spark_global.source.planning import plan_read
from spark_global.sql import run_sql
from spark_global.values.declaring import Decoding, PartDecoding, TopicDecoding
from spark_global.views import Aggregate, create_views, create_views_for, load_for, load_table
from tests.real.aggregate.test_spark_reading import MAPPED, PARTITIONS, PER_PARTITION, SHIFT, fill
from tests.support.cluster import running_broker

pytestmark = pytest.mark.real

EVERY = 2 * PARTITIONS * PER_PARTITION
"""Records of the topic, in both datacenters."""
UNION_OF_USES = """
    SELECT 1 AS part, count(*) AS n FROM global_flights WHERE datacenter = 'JFK' AND partition = 0
    UNION ALL SELECT 2, count(*) FROM global_flights WHERE datacenter = 'EWR' AND partition = 1
"""
WITH_ONE_UNFILTERED = UNION_OF_USES + "UNION ALL SELECT 3, count(*) FROM global_flights"
CONFLICTS = "SELECT count(*) FROM global_flights_conflicts WHERE topic = 'flights'"


@pytest.fixture(scope="module")
def aggregate(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregate]:
    """An aggregate with `jfk.flights`, which has a map, and `ewr.flights`."""
    with asyncio.Runner() as runner:
        context = running_broker(zookeeper, tmp_path_factory.mktemp("filtered"), broker_id=3)
        broker = runner.run(context.__aenter__())
        try:
            runner.run(fill(broker.bootstrap))
            links = tuple(
                MirrorLink(name=f"{name}-nyc", source=name, datacenter=name.upper())
                for name in ("ewr", "jfk")
            )
            yield Aggregate(name="nyc", bootstrap=broker.bootstrap, links=links)
        finally:
            runner.run(context.__aexit__(None, None, None))


def offsets_planned(aggregate: Aggregate, options: Mapping[str, str]) -> tuple[int, int]:
    """Return how many partitions, and how many offsets, a read of the topic covers."""
    given = {
        "bootstrap": aggregate.bootstrap,
        "links": encode_links(aggregate.links),
        "topic": "flights",
    }
    ranges = asyncio.run(plan_read(parse_options(given | dict(options)))).ranges
    return len(ranges), sum(each.end - each.start for each in ranges)


def answer(spark: SparkSession, query: str) -> list[str]:
    return sorted(map(str, spark.sql(query).collect()))


@pytest.fixture(scope="module")
def truth(spark: SparkSession, aggregate: Aggregate) -> str:
    """Return the name of a view that has all records of the topic without a read of the source."""
    records = load_table(spark, aggregate, "records", topic="flights")
    whole = spark.createDataFrame(records.collect(), records.schema)
    whole.createOrReplaceTempView("whole_flights")
    return "whole_flights"


@pytest.mark.parametrize(
    ("condition", "partitions", "offsets"),
    [
        ("datacenter = 'JFK' AND partition = 0", 1, PER_PARTITION),
        ("datacenter IN ('JFK', 'LGA') AND 0 < partition AND partition < 9", 1, PER_PARTITION),
        (f"offset >= {SHIFT + 35} AND datacenter <=> 'JFK'", 1, MAPPED - 35),
        (f"offset BETWEEN {SHIFT} AND {SHIFT + 4}", 1, 5),
        ("aggregate_offset < 3", 4, 12),
        ("timestamp >= '1970-01-05'", 4, 40),
        ("timestamp > TIMESTAMP '1970-01-05 00:00:00.0005' AND partition = 1", 2, 20),
        ("aggregate_topic = 'ewr.flights'", 2, 2 * PER_PARTITION),
        ("partition = 1L AND datacenter = 'JFK' AND length(value) > 3", 1, PER_PARTITION),
        (
            "(datacenter = 'JFK' AND partition = 0) OR (datacenter = 'EWR' AND partition = 0)",
            2,
            100,
        ),
        ("partition IN (0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)", 2, 2 * PER_PARTITION),
        ("datacenter = 'JFK' OR length(value) > 3", 4, EVERY),
        ("datacenter <> 'JFK'", 4, EVERY),
        ("datacenter = 'jfk' COLLATE UTF8_LCASE", 4, EVERY),
        ("offset IS NULL", 4, EVERY),
        ("offset >= 5 OR offset IS NULL", 4, EVERY),
        ("`offset` + 1 = 1001", 4, EVERY),
        ("timestamp < '1970-01-05'", 4, EVERY),
        ("timestamp > TIMESTAMP '1970-01-02' - INTERVAL 3 DAYS", 4, EVERY),
        ("aggregate_offset < unix_seconds(now())", 4, EVERY),
        ("aggregate_offset < unix_seconds(TIMESTAMP 'now')", 4, EVERY),
    ],
)
def test_a_filter_bounds_what_is_planned_and_not_the_answer(
    spark: SparkSession,
    aggregate: Aggregate,
    truth: str,
    condition: str,
    partitions: int,
    offsets: int,
) -> None:
    query = f"SELECT * FROM global_flights WHERE {condition}"
    narrowed = create_views_for(spark, aggregate, query)
    assert offsets_planned(aggregate, narrowed["global_flights"]) == (partitions, offsets)
    if offsets < EVERY:
        found = answer(spark, query)
        assert found == answer(spark, query.replace("global_flights", truth))
        assert found


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        (UNION_OF_USES, EVERY),
        (WITH_ONE_UNFILTERED, EVERY),
        (UNION_OF_USES.replace("partition = 1", "partition = 0"), EVERY // 2),
        (
            "SELECT count(b.key) FROM global_flights a LEFT JOIN global_flights b"
            " ON a.partition = b.partition AND a.aggregate_offset = b.aggregate_offset"
            " AND b.datacenter = 'EWR' WHERE a.datacenter = 'JFK' AND a.partition = 1",
            EVERY // 2,
        ),
        (
            "SELECT count(*) FROM global_flights a FULL JOIN"
            " (SELECT * FROM global_flights WHERE partition = 0) b USING (aggregate_offset)",
            EVERY,
        ),
        (
            "SELECT count(*) FROM global_flights WHERE partition = 0 AND aggregate_offset ="
            " (SELECT max(aggregate_offset) FROM global_flights WHERE partition = 1)",
            EVERY,
        ),
        (
            "SELECT count(*) FROM global_flights a WHERE partition = 0 AND NOT EXISTS"
            " (SELECT 1 FROM global_flights b WHERE b.partition = 0 AND b.key = a.value)",
            EVERY // 2,
        ),
        (
            "WITH v AS (SELECT *, row_number() OVER (PARTITION BY datacenter ORDER BY"
            " partition, aggregate_offset) AS n FROM global_flights)"
            " SELECT datacenter, n FROM v WHERE partition = 1",
            EVERY,
        ),
        (
            "SELECT count(*) FILTER (WHERE partition = 0), count(*) FROM global_flights"
            " HAVING count(*) > 0",
            EVERY,
        ),
        ("SELECT p FROM (SELECT partition + 1 AS p FROM global_flights) WHERE p = 1", EVERY),
        ("SELECT p FROM (SELECT partition AS p FROM global_flights) WHERE p = 1", EVERY // 2),
        (
            "SELECT DISTINCT datacenter, partition FROM global_flights WHERE partition = 1",
            EVERY // 2,
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM global_flights ORDER BY aggregate_offset,"
            " partition, datacenter LIMIT 9) WHERE partition = 1",
            EVERY,
        ),
    ],
)
def test_the_bounds_hold_every_use_of_a_view(
    spark: SparkSession, aggregate: Aggregate, truth: str, query: str, offsets: int
) -> None:
    narrowed = create_views_for(spark, aggregate, query)
    assert offsets_planned(aggregate, narrowed["global_flights"])[1] == offsets
    found = answer(spark, query)
    assert found == answer(spark, query.replace("global_flights", truth))
    assert found


def test_questions_of_records_are_narrowed_too(spark: SparkSession, aggregate: Aggregate) -> None:
    narrowed = create_views_for(spark, aggregate, CONFLICTS)
    options = narrowed["global_flights_conflicts"]
    assert "value" in options["columns"].split(",") or "key" in options["columns"].split(",")
    assert "headers" not in options["columns"].split(",")
    found = answer(spark, CONFLICTS)
    create_views(spark, aggregate, CONFLICTS)
    assert found == answer(spark, CONFLICTS)


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        ("timestamp > now() - INTERVAL 1 HOUR", "timestamp_first"),
        ("timestamp >= current_date() - 1 AND partition = 0", "partitions timestamp_first"),
        ("now() - INTERVAL 2 MONTH < timestamp", "timestamp_first"),
        ("timestamp > now() - make_interval(0, 0, 0, partition)", ""),
        ("NOT (timestamp < now())", "timestamp_first"),
        ("timestamp > now() AND aggregate_offset < unix_seconds(now())", ""),
        ("timestamp > TIMESTAMP '2020-01-01' - (now() - TIMESTAMP '2010-01-01')", ""),
        ("timestamp > now() - (now() - TIMESTAMP '2010-01-01')", ""),
        ("partition = 1 AND timestamp > 'today'", ""),
        ("partition = second(now())", ""),
        (
            "partition = 0 AND 1 = (SELECT count(*) FROM VALUES (TIMESTAMP '2026-01-01') AS t(at)"
            " WHERE at < now())",
            "",
        ),
    ],
)
def test_only_a_time_that_passes_safely_bounds(
    spark: SparkSession, condition: str, options: str
) -> None:
    rehearsal = Rehearsal(spark)
    rehearsal.records("flights").createOrReplaceTempView("global_flights")
    needs = rehearsal.needs_of_query(f"SELECT * FROM global_flights WHERE {condition}")
    found = needs.get("flights", Need()).region.options()
    assert " ".join(sorted(found)) == options


@pytest.mark.long
def test_decoded_views_are_narrowed_too(
    spark: SparkSession, aggregate: Aggregate, tmp_path: Path
) -> None:
    """The values of flights are no JSON, so all but the nulls are rejects."""
    file = tmp_path / "flights.json"
    file.write_text('{"properties": {"id": {"type": "integer"}}}')
    part = PartDecoding(format="json", schema=str(file))
    decoding = Decoding(topics={"flights": TopicDecoding(value=part)})
    query = (
        "SELECT r.datacenter, r.aggregate_offset, d.value.id, d.aggregate_offset AS o"
        " FROM rejects_flights r JOIN decoded_flights d USING (datacenter)"
        " WHERE r.partition = 0 AND d.partition = 1 AND datacenter = 'JFK'"
    )
    narrowed = create_views_for(spark, aggregate, query, decoding=decoding)
    bounds = {"datacenters": "JFK", "columns": "datacenter,partition,aggregate_offset,value"}
    assert narrowed == {
        "rejects_flights": bounds | {"partitions": "0"},
        "decoded_flights": bounds | {"partitions": "1"},
    }
    found = answer(spark, query)
    create_views(spark, aggregate, query, decoding=decoding)
    assert found == answer(spark, query)
    assert found


def test_a_command_is_planned_and_not_run_twice(spark: SparkSession, aggregate: Aggregate) -> None:
    query = "CREATE TEMPORARY VIEW once AS SELECT * FROM global_flights WHERE partition = 0"
    assert create_views_for(spark, aggregate, query) == {}
    try:
        spark.sql(query)
        assert spark.sql("SELECT count(*) AS n FROM once").collect()[0].n == EVERY // 2
    finally:
        spark.catalog.dropTempView("once")


def test_a_program_reads_for_one_question(spark: SparkSession, aggregate: Aggregate) -> None:
    def question(records: DataFrame) -> DataFrame:
        return records.where("topic = 'flights' AND partition = 1 AND datacenter = 'JFK'").select(
            "aggregate_offset"
        )

    found = load_for(question, spark, aggregate)
    whole = question(load_table(spark, aggregate, "records"))
    assert sorted(found.collect()) == sorted(whole.collect())
    assert len(found.collect()) == PER_PARTITION
    # What the caller asks for has precedence over what the question asks for.
    assert load_for(question, spark, aggregate, partitions="0").collect() == []

    def from_forty(records: DataFrame) -> DataFrame:
        return records.where("aggregate_offset >= 40")

    later = load_for(from_forty, spark, aggregate, aggregateOffsetFirst=45, partitions="0")
    assert later.count() == 2 * (PER_PARTITION - 45)
    with pytest.raises(AnalysisException, match="aggregate_offset"):
        load_for(from_forty, spark, aggregate, columns="partition")


USES = (
    "SELECT count(*) FROM {0} WHERE partition = 0 UNION ALL SELECT count(*) FROM {0}",
    "SELECT count(*) FROM {0} a JOIN {0} b USING (datacenter, aggregate_offset)"
    " WHERE a.partition = 0 AND b.partition = 1",
    "SELECT count(*) FROM {0} WHERE partition = 0 AND aggregate_offset IN"
    " (SELECT aggregate_offset FROM {0} WHERE partition = 1)",
    "WITH a AS (SELECT * FROM {0} WHERE partition = 0),"
    " b AS (SELECT * FROM {0} WHERE partition = 1)"
    " SELECT count(*) FROM a UNION ALL SELECT count(*) FROM b",
    "SELECT count(*) FROM {0}",
)
"""Several uses of one load in a query; the last one has no filter, after those that have."""


@pytest.mark.long
def test_uses_of_a_plain_load_do_not_share_their_filters(
    spark: SparkSession, aggregate: Aggregate, truth: str
) -> None:
    """Each of these is wrong where a source takes pushed filters: Spark shares them."""
    plain = load_table(spark, aggregate, "records", topic="flights")
    plain.createOrReplaceTempView("plain")
    for query in USES:
        assert answer(spark, query.format("plain")) == answer(spark, query.format(truth))
    filtered = plain.where("partition = 0 AND datacenter = 'JFK'").cache()
    try:
        assert (filtered.count(), plain.count()) == (PER_PARTITION, EVERY)
        assert plain.where("partition = 0").count() == 2 * PER_PARTITION
    finally:
        filtered.unpersist()


def test_sql_says_what_it_reads(
    spark: SparkSession, aggregate: Aggregate, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT count(*) FROM global_flights WHERE datacenter = 'JFK' AND partition = 0"
    assert run_sql(query, aggregate=aggregate, output="json") == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["rows"] == [[PER_PARTITION]]
    assert document["reads"]["global_flights"] == {
        "datacenters": "JFK",
        "partitions": "0",
        "columns": "datacenter,partition",
    }
    assert not said.err
    assert run_sql(query, aggregate=aggregate) == 0
    assert "global_flights: read only datacenters JFK; partitions 0" in capsys.readouterr().err
    assert run_sql("SELECT count(*) FROM global_flights", aggregate=aggregate) == 0
    assert "read only" not in capsys.readouterr().err
