"""Delta tables for tests: rows without a broker, and what a table has."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from spark_global.delta.columns import table_schema
from spark_global.delta.file_writing import REPORT, FileTarget, WrittenFile, write_rows
from spark_global.delta.table_writer import DeltaWriter
from spark_global.kept.batches import Batch
from tests.support.iceberg_tables import at, rows_of

PARTITIONS = ("datacenter", "hour")
SCHEMA = table_schema(
    """{"type": "struct", "fields": [
      {"name": "datacenter", "type": "string", "nullable": true, "metadata": {}},
      {"name": "offset", "type": "long", "nullable": false, "metadata": {}},
      {"name": "timestamp", "type": "timestamp", "nullable": false, "metadata": {}},
      {"name": "value", "type": "binary", "nullable": true, "metadata": {}},
      {"name": "hour", "type": "string", "nullable": true, "metadata": {}}]}"""
)


def writer_of(folder: Path, query_id: str = "q", schema: str = SCHEMA) -> DeltaWriter:
    """A writer of a run of the query."""
    writer = DeltaWriter(folder, "global_h", query_id)
    writer.open(schema, PARTITIONS)
    return writer


def numbered(number: int, size: int = 10) -> Batch:
    """Batch N has the offsets [size * N, size * N + size)."""
    return Batch(number=number, start=at(number * size), end=at(number * size + size))


def files_of(folder: Path, offsets: range, datacenter: str | None = "JFK") -> list[WrittenFile]:
    """The files that a task writes."""
    rows = rows_of(offsets, datacenter).select(["datacenter", "offset", "timestamp", "value"])
    hours = [f"{each:%Y-%m-%d-%H}" for each in rows.column("timestamp").to_pylist()]
    rows = pa.RecordBatch.from_arrays(
        [*rows.columns, pa.array(hours)], names=[*rows.schema.names, "hour"]
    )
    target = FileTarget(folder=str(folder), partitions=PARTITIONS, time="timestamp")
    (report,) = write_rows([rows], target)
    assert report.schema == REPORT
    found = json.loads(report.column("report")[0].as_py())
    return [WrittenFile(*each) for each in found["files"]]


def offsets_in(folder: Path) -> list[int]:
    """The source offsets that deltalake reads, in order."""
    return sorted(
        DeltaTable(str(folder)).to_pyarrow_table(columns=["offset"])["offset"].to_pylist()
    )


def row_counts(folder: Path) -> Counter[tuple[str, int, bytes | None]]:
    """How often each (datacenter, source offset, value) is there."""
    names = ["datacenter", "offset", "value"]
    columns = DeltaTable(str(folder)).to_pyarrow_table(columns=names).to_pydict()
    return Counter(zip(*(columns[name] for name in names), strict=True))
