"""The demo's input: each row of the file as one JSON object."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from topology.demo.flights import AIRPORTS, FLIGHTS, flights_of, json_rows, read_flights


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return read_flights()


def test_every_row_belongs_to_one_airport(table: pa.Table) -> None:
    assert table.num_rows == FLIGHTS
    assert sum(len(flights_of(table, airport)) for airport in AIRPORTS) == FLIGHTS


def test_records_say_what_the_rows_say(table: pa.Table) -> None:
    rows = [row for row in table.slice(100_000, 30_000).to_pylist() if row["origin"] == "JFK"]
    flights = flights_of(table.slice(100_000, 30_000), "jfk")
    assert len(rows) == len(flights) > 5_000
    assert any(row["dep_delay"] is None for row in rows)
    for row, key, value, timestamp_ms in zip(
        rows, flights.keys, flights.values, flights.timestamps_ms, strict=True
    ):
        hour = row.pop("time_hour")
        said = json.loads(value)
        assert datetime.fromisoformat(said.pop("time_hour")) == hour
        assert said == row
        assert key == row["carrier"].encode()
        assert datetime.fromtimestamp(timestamp_ms / 1000, UTC) == hour


def test_text_is_escaped_and_null_is_null() -> None:
    names = ['say "hi"', "back\\slash", None, ""]
    table = pa.table({"name": pa.array(names), "n": pa.array([1, None, -3, 4])})
    assert [json.loads(text) for text in json_rows(table).to_pylist()] == [
        {"name": name, "n": n} for name, n in zip(names, [1, None, -3, 4], strict=True)
    ]


def test_a_part_of_the_flights(table: pa.Table) -> None:
    flights = flights_of(table, "lga")
    part = flights.first(10)
    assert len(part) == 10
    assert part.values == flights.values[:10]
    assert part.keys == flights.keys[:10]
    assert part.timestamps_ms == flights.timestamps_ms[:10]
