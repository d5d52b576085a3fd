"""The page of Spark's bench: figures, medians, ratios beside what is wanted."""

from __future__ import annotations

import random

from tests.bench.spark_load import CODECS, VALUE_BYTES, make_batches, make_value
from tests.bench.spark_model import CODECS as NAMES
from tests.bench.spark_model import KINDS, Found, Read, Side, markdown, median_read, row_name


def test_ratios_are_of_rows_per_core_of_the_same_broker() -> None:
    found = Found()
    name = row_name("json", "lz4", "all")
    found.add(name, Side("connector", "Kafka"), Read(1_000_000, 4.0, 5.0))
    found.add(name, Side("connector", "ours"), Read(1_000_000, 2.0, 4.0))
    found.add(name, Side("heliograph", "ours"), Read(1_000_000, 1.0, 2.0))
    found.delays[Side("heliograph", "ours")] = [0.5, 2.0, 0.6]
    lines = markdown(found).splitlines()
    assert "| json lz4 all | 250,000 | 500,000 |  | 1,000,000 |" in lines
    assert "| json lz4 all | 200,000 | 250,000 |  | 500,000 |" in lines
    assert "| json lz4 all | 5.00 | 4.00 |  | 2.00 |" in lines
    assert "| json lz4 all: connector on ours, rows/s to Kafka's | 2.00 | >= 1.0 | yes |" in lines
    wanted = (
        "| json lz4 all: heliograph on ours, rows/s and core to the connector's | 2.00 | >= 1.5"
    )
    assert f"{wanted} | yes |" in lines
    assert "| p50 from a produce to a row | 0.60 s | <= 1.5 s | yes |" in lines


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
