"""The Parquet files of rows that Spark has, such as windows. Shell.

Each file has rows of one datacenter, or of all if there is no such column, and of one hour.

Guarantees: the driver gets the files of the successful attempt of each task, and commits only them.
Those of a failed attempt belong to no table.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_global.iceberg.file_writing import FileTarget, HourFiles

REPORT: Final = pa.schema([pa.field("paths", pa.string())])
"""What a task reports: one JSON list."""
_DATACENTER: Final = "datacenter"


def write_batch(rows: DataFrame, target: FileTarget) -> list[str]:
    """Write the rows of a batch, and return the files; raises what Spark raises if a task fails."""
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    write = functools.partial(write_rows, target=target)
    # Few tasks, as each of them writes files of its own.
    reports = rows.coalesce(tasks).mapInArrow(write, "paths string").collect()
    return [path for each in reports for path in json.loads(each["paths"])]


def write_rows(batches: Iterable[pa.RecordBatch], target: FileTarget) -> Iterator[pa.RecordBatch]:
    """Write some rows as one task, and yield a row of `REPORT`."""
    files = HourFiles(target)
    for rows in batches:
        for datacenter, part in _by_datacenter(rows):
            files.add(datacenter, part)
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(files.close())])], schema=REPORT)


def _by_datacenter(rows: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    if not rows.num_rows:
        return
    if _DATACENTER not in rows.schema.names:
        yield None, rows
        return
    found = rows.column(_DATACENTER)
    for name in found.unique().to_pylist():
        is_here = pc.is_null(found) if name is None else pc.fill_null(pc.equal(found, name), False)
        yield name, rows.filter(is_here)
