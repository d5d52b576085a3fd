"""One row per window, by DuckDB; Spark's answer is in the test of the streaming query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_global.windowing.latest import latest_statement

START = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = pa.schema(
    [
        pa.field("window_start", pa.timestamp("us", tz="UTC")),
        pa.field("topic", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("value_bytes", pa.int64()),
        pa.field("datacenters", pa.list_(pa.string())),
        pa.field("missing", pa.list_(pa.string())),
        pa.field("with_gaps", pa.list_(pa.string())),
        pa.field("is_complete", pa.bool_()),
        pa.field("is_late", pa.bool_()),
        pa.field("batch", pa.int64()),
    ]
)


def row(window: int, batch: int, records: int, missing: str, *, is_late: bool) -> dict[str, Any]:
    return {
        "window_start": START + timedelta(minutes=window),
        "topic": "t",
        "records": records,
        "value_bytes": 10 * records,
        "datacenters": ["JFK"],
        "missing": [] if is_late else list(missing),
        "with_gaps": None,
        "is_complete": is_late or not missing,
        "is_late": is_late,
        "batch": batch,
    }


def latest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(rows, schema=COLUMNS)
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("kept", table)
        found = engine.sql(latest_statement("kept") + " ORDER BY window_start").to_arrow_table()
    assert set(found.column_names) == {*COLUMNS.names, "late_records"} - {"is_late"}
    rows_found: list[dict[str, Any]] = found.to_pylist()
    return rows_found


def test_the_newest_row_and_the_late_records_of_a_window() -> None:
    found = latest(
        [
            row(0, 1, 5, "LS", is_late=False),
            row(0, 3, 9, "", is_late=False),
            row(0, 2, 7, "S", is_late=False),
            row(0, 4, 1, "", is_late=True),
            row(0, 6, 2, "", is_late=True),
            row(5, 6, 3, "LS", is_late=False),
            row(9, 6, 4, "", is_late=True),
        ]
    )
    columns = ("records", "value_bytes", "missing", "is_complete", "late_records", "batch")
    assert [[each[name] for name in columns] for each in found] == [
        [12, 120, [], True, 3, 6],
        [3, 30, ["L", "S"], False, 0, 6],
        [4, 40, [], True, 4, 6],
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=30))
def test_no_record_is_there_twice(written: list[tuple[int, int, bool]]) -> None:
    """By a plain reading of the rows: the newest one of each window, and every late one."""
    rows = [
        row(window, batch, count, "", is_late=is_late)
        for batch, (window, count, is_late) in enumerate(written)
    ]
    newest = {each["window_start"]: each for each in rows if not each["is_late"]}
    late = [each for each in rows if each["is_late"]]
    expected = sum(each["records"] for each in [*newest.values(), *late])
    found = latest(rows)
    assert sum(each["records"] for each in found) == expected
    assert len(found) == len({each["window_start"] for each in rows})
