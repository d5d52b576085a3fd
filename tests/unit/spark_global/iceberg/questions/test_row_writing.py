"""The files of rows of a question: one per datacenter and hour, and what a table takes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.columns import table_schema
from spark_global.iceberg.file_writing import FileTarget
from spark_global.iceberg.layout import partitions_of
from spark_global.iceberg.questions.keeping import TIME, checkpoint_folder
from spark_global.iceberg.questions.row_writing import REPORT, write_rows
from spark_global.iceberg.staging import Batch
from spark_global.iceberg.table_state import NOTHING_READ, QueryState
from spark_global.iceberg.table_writer import TableWriter
from spark_global.kept.folders import FolderRefusedError
from tests.support.iceberg_tables import EPOCH, at

NAME = ("nyc", "global_h_windows")
ROWS = pa.schema(
    [
        pa.field("datacenter", pa.string()),
        pa.field("window_start", pa.timestamp("us", tz="Europe/Berlin")),
        pa.field("datacenters", pa.list_(pa.string())),
        pa.field("records", pa.int64()),
    ]
)


def rows_of(schema: pa.Schema, *found: tuple[str | None, int]) -> pa.RecordBatch:
    """Windows that begin in some minutes of 1970."""
    rows = [
        {
            "datacenter": datacenter,
            "window_start": EPOCH + timedelta(minutes=minute),
            "datacenters": [datacenter],
            "records": minute,
        }
        for datacenter, minute in found
    ]
    return pa.RecordBatch.from_pylist(
        [{name: row[name] for name in schema.names} for row in rows], schema=schema
    )


def partitions_after(catalogue: Catalog, schema: pa.Schema, rows: list[pa.RecordBatch]) -> Any:
    """Commit some rows; return the partition of each file, and the rows that pyiceberg reads."""
    utc = pa.timestamp("us", tz="UTC")
    fields = [each.with_type(utc) if each.name == "window_start" else each for each in schema]
    columns = table_schema(pa.schema(fields), {})
    writer = TableWriter(catalogue, NAME, NAME[1], None, columns, partitions_of(columns, TIME))
    writer.take_over()
    target = FileTarget.of(writer.table, 1, columns, time=TIME)
    (report,) = write_rows(rows, target)
    assert report.schema == REPORT
    paths = json.loads(report.column("paths")[0].as_py())
    query = QueryState("q", 0)
    writer.commit(Batch(start=NOTHING_READ, end=at(0), paths=paths, complete={}, query=query))
    table = catalogue.load_table(NAME)
    files = [task.file for task in table.scan().plan_files()]
    found = [
        (tuple(file.partition[index] for index in range(len(file.partition))), file.record_count)
        for file in files
    ]
    return sorted(found, key=str), table.scan().to_arrow()


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalog:
    return open_catalogue(str(tmp_path / "tables"), create=True)


def test_a_file_has_one_datacenter_and_hour(catalogue: Catalog) -> None:
    found = [("JFK", 5), ("EWR", 65), (None, 5), ("JFK", 10)], [("JFK", 119)]
    parts, rows = partitions_after(catalogue, ROWS, [rows_of(ROWS, *each) for each in found])
    assert parts == [(("EWR", 1), 1), (("JFK", 0), 2), (("JFK", 1), 1), ((None, 0), 1)]
    assert sorted(rows["records"].to_pylist()) == [5, 5, 10, 65, 119]
    assert {tuple(each) for each in rows["datacenters"].to_pylist()} == {
        *(("JFK",), ("EWR",), (None,))
    }


def test_rows_of_all_datacenters_are_partitioned_by_hour(catalogue: Catalog) -> None:
    schema = pa.schema([each for each in ROWS if each.name != "datacenter"])
    parts, rows = partitions_after(catalogue, schema, [rows_of(schema, ("JFK", 5), ("EWR", 65))])
    assert parts == [((0,), 1), ((1,), 1)]
    assert sorted(rows["records"].to_pylist()) == [5, 65]


def test_no_rows_are_no_files(catalogue: Catalog) -> None:
    parts, rows = partitions_after(catalogue, ROWS, [rows_of(ROWS)])
    assert parts == [] and rows.num_rows == 0


def test_where_the_checkpoint_lies(tmp_path: Path) -> None:
    inside = checkpoint_folder(str(tmp_path), NAME, None)
    assert inside == tmp_path / "_checkpoints" / "nyc.global_h_windows"
    assert checkpoint_folder("http://rest", NAME, str(tmp_path / "c")) == tmp_path / "c"
    with pytest.raises(FolderRefusedError, match="give --checkpoint"):
        checkpoint_folder("http://rest", NAME, None)
    with pytest.raises(FolderRefusedError, match="not a directory"):
        checkpoint_folder(str(tmp_path), NAME, "s3a://bucket/c")
