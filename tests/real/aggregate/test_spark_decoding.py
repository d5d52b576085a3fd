"""Decoded records and rejects are together all records, in batches and in streams."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_global.source.tables import spark_schema
from spark_global.sql import explain_error
from spark_global.values.declaring import (
    Decoding,
    PartDecoding,
    PinnedTopic,
    Registry,
    TopicDecoding,
)
from spark_global.values.frames import decoded_records, rejected_records, samples_of
from spark_global.values.pinning import pin_topic
from tests.support.schema_registry import SchemaRegistry, running_registry
from tests.unit.spark_global.values.test_record_decoder import (
    AVRO,
    AVRO_VALUES,
    PROTOBUF_VALUES,
    with_id,
)

pytestmark = pytest.mark.real

START = datetime(2026, 1, 1, tzinfo=UTC)
COPIES = 2_500
"""Times that each planted record is there, so that there are several Arrow batches."""
REJECTS = 5
"""Planted records that do not decode."""
OLD = json.dumps(
    {"type": "record", "name": "nyc.Flight", "fields": [{"name": "flight", "type": "int"}]}
)


def record(
    datacenter: str | None, offset: int, key: bytes | None, value: bytes | None
) -> tuple[Any, ...]:
    return (datacenter, "flights", 0, offset, "copy", offset, START, key, value, [], None)


PLANTED = (
    record("ewr", 0, b'{"id": 1}', with_id(AVRO_VALUES[0], 1)),
    record("jfk", 1, b'{"id": 2}', with_id(AVRO_VALUES[1], 9)),  # the same schema, another id
    record("jfk", 2, None, b"\x00\x00\x00\x00\x01\x54"),  # flight 42, by what jfk calls 1
    record("ewr", 3, b'{"id": 4}', None),  # a tombstone
    record("ewr", 4, b'{"id": "5"}', with_id(AVRO_VALUES[0], 1)),
    record("ewr", 5, None, with_id(AVRO_VALUES[0], 9)),
    record("jfk", 6, None, b"flights"),
    record("lga", 7, None, with_id(AVRO_VALUES[0], 1)),
    record("ewr", 8, b"{", with_id(PROTOBUF_VALUES["full"], 2)),
)
REASONS = {
    4: "key: field id: text, expected a whole number",
    5: "value: schema id 9 is not in the registry {ewr}",
    6: "value: magic byte 102, expected 0 and a schema id",
    7: "value: datacenter lga has no registry",
    8: "key: no JSON",
}


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame(list(PLANTED), spark_schema("records"))
    copies = frame.crossJoin(spark.range(COPIES).withColumnRenamed("id", "copy"))
    return copies.withColumn(
        "aggregate_offset", copies["aggregate_offset"] + copies["copy"] * len(PLANTED)
    ).drop("copy")


@pytest.fixture(scope="module")
def ewr() -> Iterator[SchemaRegistry]:
    with running_registry({1: {"schema": AVRO}, 2: {"schema": "{}", "schemaType": "JSON"}}) as it:
        yield it


@pytest.fixture(scope="module")
def jfk() -> Iterator[SchemaRegistry]:
    with running_registry({1: {"schema": OLD}, 9: {"schema": AVRO}}) as it:
        yield it


@pytest.fixture(scope="module")
def topic(
    ewr: SchemaRegistry,
    jfk: SchemaRegistry,
    records: DataFrame,
    tmp_path_factory: pytest.TempPathFactory,
) -> PinnedTopic:
    directory = tmp_path_factory.mktemp("schemas")
    schema = json.loads(AVRO)
    for field in schema["fields"][1:]:
        field["type"] = (
            field["type"] if isinstance(field["type"], list) else ["null", field["type"]]
        )
        field["default"] = None
    (directory / "flights.avsc").write_text(json.dumps(schema))
    key = PartDecoding(format="json", schema=str(directory / "key.json"), framed=False)
    decoding = Decoding(
        topics={
            "flights": TopicDecoding(
                key=key,
                value=PartDecoding(format="avro", schema=str(directory / "flights.avsc")),
            )
        },
        registries={"ewr": Registry(url=ewr.url), "jfk": Registry(url=jfk.url)},
    )
    # The planted key of a wrong type must not become part of the schema.
    pinned = pin_topic(decoding, "flights", samples_of(records.where("aggregate_offset < 4")))
    properties = json.loads((directory / "key.json").read_text())["properties"]
    assert properties == {"id": {"type": "integer"}}
    return pinned


def check(decoded: DataFrame, rejects: DataFrame, ewr: SchemaRegistry) -> None:
    """Compare with what was planted."""
    rows = decoded.selectExpr("offset", "key.id", "value.flight", "value.dest").collect()
    found = Counter(tuple(row) for row in rows)
    assert found == {
        (0, 1, 1545, "IAH"): COPIES,
        (1, 2, 1545, None): COPIES,
        (2, None, 42, None): COPIES,
        (3, 4, None, None): COPIES,
    }
    refused = rejects.collect()
    assert len(refused) == REJECTS * COPIES
    planted = {row[3]: row for row in PLANTED}
    for row in refused:
        assert row.reason.startswith(REASONS[row.offset].format(ewr=ewr.url)), row.reason
        assert (row.datacenter, row.topic, row.partition) == planted[row.offset][:3]
        assert row.aggregate_topic == "copy"
        assert row.aggregate_offset % len(PLANTED) == row.offset
        assert (row.key, row.value) == planted[row.offset][7:9]


def test_a_batch(
    records: DataFrame, topic: PinnedTopic, ewr: SchemaRegistry, jfk: SchemaRegistry
) -> None:
    decoded, rejects = decoded_records(records, topic), rejected_records(records, topic)
    check(decoded, rejects, ewr)
    assert len({path for path in jfk.asked if "/ids/9" in path}) == 1
    assert decoded.columns == records.columns
    value = decoded.schema["value"]
    assert value.metadata["comment"] == "value as produced; null is a tombstone, decoded"


def test_a_stream(
    spark: SparkSession,
    records: DataFrame,
    topic: PinnedTopic,
    ewr: SchemaRegistry,
    tmp_path: Path,
) -> None:
    source = str(tmp_path / "records")
    records.repartition(2).write.parquet(source)
    stream = spark.readStream.schema(records.schema).parquet(source)
    for name, frame in (
        ("decoded", decoded_records(stream, topic)),
        ("rejects", rejected_records(stream, topic)),
    ):
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / name))
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    kept = [spark.read.parquet(str(tmp_path / name)) for name in ("decoded", "rejects")]
    check(kept[0], kept[1], ewr)


def test_a_registry_that_refuses_fails_the_query(records: DataFrame, topic: PinnedTopic) -> None:
    with running_registry({}) as silent:
        silent.refuses_with = 403
        other = PinnedTopic(parts=topic.parts, registries={"*": Registry(url=silent.url)})
        with pytest.raises(PySparkException) as failed:
            decoded_records(records.limit(1), other).collect()
    assert "status code 403" in explain_error(failed.value)
