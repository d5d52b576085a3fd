"""Spark's bench: values that it reads; figures, medians, ratios beside what is wanted."""

from __future__ import annotations

import io
import json
import random

from fastavro import schemaless_reader

from spark_global.values.header import HEADER_BYTES, read_schema_id
from tests.bench.spark_load import (
    CODECS,
    SCHEMA,
    SCHEMA_ID,
    VALUE_BYTES,
    make_batches,
    make_value,
)
from tests.bench.spark_model import CODECS as NAMES
from tests.bench.spark_model import (
    CURVE_ENDS,
    FULL,
    KINDS,
    OURS,
    Found,
    Read,
    Side,
    curve_name,
    markdown,
    median_read,
    row_name,
)


def test_ratios_are_of_rows_per_core_of_the_same_broker() -> None:
    found = Found()
    name = row_name("json", "lz4", "all")
    found.add(name, Side("connector", "Kafka"), Read(1_000_000, 4.0, 5.0))
    found.add(name, Side("connector", "ours"), Read(1_000_000, 2.0, 4.0))
    found.add(name, Side("heliograph", "ours"), Read(1_000_000, 1.0, 2.0))
    lines = markdown(found).splitlines()
    assert "| json lz4 all | 250,000 | 500,000 |  | 1,000,000 |" in lines
    assert "| json lz4 all | 200,000 | 250,000 |  | 500,000 |" in lines
    assert "| json lz4 all | 5.00 | 4.00 |  | 2.00 |" in lines
    assert "| json lz4 all: connector on ours, rows/s to Kafka's | 2.00 | >= 1.0 | yes |" in lines
    wanted = (
        "| json lz4 all: heliograph on ours, rows/s and core to the connector's | 2.00 | >= 1.5"
    )
    assert f"{wanted} | yes |" in lines


def test_counts_are_wanted_three_times_as_fast() -> None:
    found = Found()
    name = row_name("avro", "none", "count")
    found.add(name, Side("connector", "ours"), Read(100, 1.0, 4.0))
    found.add(name, Side("heliograph", "ours"), Read(100, 1.0, 2.0))
    assert "the connector's | 2.00 | >= 3.0 | no |" in markdown(found)


def test_the_median_is_that_of_cpu() -> None:
    reads = [Read(1, 9.0, 1.0), Read(1, 1.0, 3.0), Read(1, 5.0, 2.0)]
    assert median_read(reads) == Read(1, 5.0, 2.0)


def test_values_have_their_size_and_every_codec_has_a_number() -> None:
    rng = random.Random(1)
    assert {len(make_value(rng, kind)) for kind in KINDS for _ in range(50)} == {VALUE_BYTES}
    assert set(NAMES) == set(CODECS)
    assert len({len(batch) for batch in make_batches("json", "gzip", 20)}) > 1


def test_avro_values_are_the_flights_of_json_behind_the_header_of_a_registry() -> None:
    for seed in range(50):
        flight = json.loads(make_value(random.Random(seed), "json"))
        value = make_value(random.Random(seed), "avro")
        content = io.BytesIO(value[HEADER_BYTES:])
        decoded = schemaless_reader(content, SCHEMA, None)
        assert read_schema_id(value) == SCHEMA_ID
        assert content.read() == b"", "the value ends where the record does"
        assert isinstance(decoded, dict)
        assert {**decoded, "note": ""} == {**flight, "note": ""}


def test_json_and_avro_in_lz4_have_ten_million_records() -> None:
    sizes = {(kind, codec): FULL.records_of(kind, codec) for kind in KINDS for codec in NAMES}
    large = {each for each, records in sizes.items() if records == 10_000_000}
    assert large == {("json", "lz4"), ("avro", "lz4")}
    assert {records for each, records in sizes.items() if each not in large} == {2_000_000}


def test_the_delay_that_is_wanted_begins_at_a_source() -> None:
    found = Found(mirrored_delays=[0.4, 1.6, 1.7])
    found.delays[OURS] = [0.5, 2.0, 0.6]
    lines = markdown(found).splitlines()
    direct = lines.index("## From a produce to a row, trigger of 1 s")
    mirrored = lines.index("## From a produce at a source to a row, trigger of 1 s")
    assert lines[direct + 4] == "| heliograph on ours | 0.60 s | 2.00 s | 3 |"
    assert lines[mirrored + 4] == "| heliograph on ours | 1.60 s | 1.70 s | 3 |"
    wanted = lines[lines.index("## Wanted") :]
    assert wanted[4:] == ["| p50 from a produce at a source to a row | 1.60 s | <= 1.5 s | no |"]
    assert found.json()["mirrored_delays"] == [0.4, 1.6, 1.7]


def test_cost_is_wanted_flat_from_the_fewest_to_the_most_partitions() -> None:
    assert (FULL.curve_partitions[0], FULL.curve_partitions[-1]) == CURVE_ENDS
    found = Found()
    for partitions, ours, theirs in ((10, 2.0, 4.0), (100, 9.0, 9.0), (1_000, 2.5, 4.4)):
        name = curve_name(partitions)
        found.add(name, OURS, Read(1_000_000, 1.0, ours))
        found.add(name, Side("connector", "ours"), Read(1_000_000, 1.0, theirs))
    lines = markdown(found).splitlines()
    ratios = lines.index("## CPU per row with 1,000 partitions, to that with 10")
    assert lines[ratios + 4 : ratios + 6] == [
        "| connector on ours | 1.10 |",
        "| heliograph on ours | 1.25 |",
    ]
    what = "heliograph on ours: CPU per row with 1,000 partitions, to that with 10"
    assert [line for line in lines if "<=" in line] == [f"| {what} | 1.25 | <= 1.2 | no |"]


def test_a_curve_without_its_ends_has_no_verdict() -> None:
    found = Found()
    found.add(curve_name(10), OURS, Read(1_000_000, 1.0, 2.0))
    found.add(curve_name(100), OURS, Read(1_000_000, 1.0, 9.0))
    assert "CPU per row" not in markdown(found)
