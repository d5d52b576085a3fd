"""DuckDB on tables of questions, whose partitions are not those of records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.columns import table_schema
from spark_global.iceberg.file_writing import FileTarget, HourFiles
from spark_global.iceberg.layout import partitions_of
from spark_global.iceberg.querying import run_duckdb
from spark_global.iceberg.staging import Batch
from spark_global.iceberg.table_state import NOTHING_READ, QueryState
from spark_global.iceberg.table_writer import TableWriter
from tests.support.iceberg_tables import at

TIME = "window_start"
START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    TIME: pa.timestamp("us", tz="UTC"),
    "datacenter": pa.string(),
    "records": pa.int64(),
}


def kept(place: Path, columns: dict[str, Any], rows: list[tuple[str | None, int]]) -> Table:
    """A table of windows by datacenter and hour of 2026, with as many records as the hour."""
    schema = pa.schema(list(columns.items()))
    wanted = table_schema(schema, {})
    catalogue = open_catalogue(str(place), create=True)
    writer = TableWriter(
        catalogue, ("nyc", "kept"), "global_f_windows", None, wanted, partitions_of(wanted, TIME)
    )
    writer.take_over()
    files = HourFiles(FileTarget.of(writer.table, 1, wanted, time=TIME))
    for datacenter, hour in rows:
        row = {TIME: START + timedelta(hours=hour), "datacenter": datacenter, "records": hour}
        files.add(
            datacenter if "datacenter" in columns else None,
            pa.RecordBatch.from_pylist([{name: row[name] for name in columns}], schema=schema),
        )
    query = QueryState("q", 0)
    paths = files.close()
    writer.commit(Batch(start=NOTHING_READ, end=at(1), paths=paths, complete={}, query=query))
    return writer.table


def remove(table: Table, datacenter: str | None, hour: int) -> None:
    """Remove the file of a datacenter and hour, so that nobody can open it."""
    hours = int(START.timestamp()) // 3_600 + hour
    for task in table.scan().plan_files():
        parts = [task.file.partition[number] for number in range(len(task.file.partition))]
        if parts == ([datacenter, hours] if len(parts) == 2 else [hours]):
            Path(task.file.file_path.removeprefix("file://")).unlink()


def test_windows_of_datacenters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = kept(tmp_path, COLUMNS, [("JFK", 1), ("JFK", 2), ("LGA", 2), (None, 3)])

    def ask(where: str) -> list[Any]:
        query = f"SELECT datacenter, records FROM kept WHERE {where} ORDER BY 2, 1"
        assert run_duckdb(query, catalogue=str(tmp_path), output="json", limit=10) == 0
        rows: list[Any] = json.loads(capsys.readouterr().out)["rows"]
        return rows

    assert ask("true") == [["JFK", 1], ["JFK", 2], ["LGA", 2], [None, 3]]
    # Files that cannot match are not opened.
    remove(table, "LGA", 2)
    assert ask("datacenter = 'JFK'") == [["JFK", 1], ["JFK", 2]]
    assert ask("datacenter IS NULL") == [[None, 3]]
    remove(table, "JFK", 2)
    assert ask("window_start < TIMESTAMPTZ '2026-01-01 01:30:00+00'") == [["JFK", 1]]
    assert run_duckdb("SELECT * FROM kept", catalogue=str(tmp_path), output="json", limit=1) == 1


def test_windows_over_all_datacenters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {name: kind for name, kind in COLUMNS.items() if name != "datacenter"}
    table = kept(tmp_path, columns, [(None, 1), (None, 2)])
    remove(table, None, 2)
    query = "SELECT records FROM kept WHERE window_start < TIMESTAMPTZ '2026-01-01 02:00:00+00'"
    assert run_duckdb(query, catalogue=str(tmp_path), output="json", limit=10) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[1]]
