"""The Parquet files of a batch, written by Spark's tasks. Shell.

A task reads its ranges from the leaders, and writes the rows itself: they never pass the JVM. Each
file has rows of one datacenter and one hour, so that it belongs to one partition of the table.

Guarantees: the driver gets the files of the successful attempt of each task, and commits only them.
Every attempt writes files of its own; those of a failed attempt belong to no table.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from spark_global.iceberg.layout import SCHEMA
from spark_global.kept.open_files import NewFile, OpenFiles
from spark_global.kept.said import SourceRange
from spark_global.source.reading import read_range
from spark_global.source.rows import record_rows
from spark_global.source.splits import PartitionRange

if TYPE_CHECKING:
    from spark_global.values.batches import DecodedView

_US_PER_HOUR: Final = 3_600_000_000

_Key = tuple[str | None, int]
"""Datacenter and hour since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """Where tasks write files, and with which columns."""

    folder: str
    """URI of the folder."""
    schema: pa.Schema
    """With the field ids of the table."""
    io_properties: Mapping[str, str] = field(repr=False)
    """What the files' storage needs, perhaps with secrets."""
    fetch_bytes_max: int
    decoded: DecodedView | None = field(default=None, repr=False)
    """The view whose rows are written; None for records as they are."""
    time: str = "timestamp"
    """The column by whose hour the table is partitioned."""

    @classmethod
    def of(
        cls,
        table: Table,
        fetch_bytes_max: int,
        columns: Schema = SCHEMA,
        decoded: DecodedView | None = None,
        time: str = "timestamp",
    ) -> FileTarget:
        """Return the target of a table; columns that others added stay null in new rows."""
        names = [each.name for each in columns.fields]
        return cls(
            folder=table.location_provider().data_path,
            schema=schema_to_pyarrow(table.schema().select(*names)),
            io_properties=dict(table.io.properties),
            fetch_bytes_max=fetch_bytes_max,
            decoded=decoded,
            time=time,
        )


class Written(NamedTuple):
    """What a task has written."""

    paths: list[str]
    ranges: list[SourceRange]
    replaced: dict[int, str | None]
    """By rewritten bucket the file that it had; empty if rows are only added."""


NOTHING_WRITTEN: Final = Written([], [], {})


def write_files(
    session: SparkSession, tasks: Sequence[Sequence[PartitionRange]], target: FileTarget
) -> Written:
    """Write the rows of all tasks; raises what Spark raises if one fails."""
    if not tasks:
        return NOTHING_WRITTEN
    spread = session.sparkContext.parallelize(tasks, len(tasks))
    done = spread.map(functools.partial(write_ranges, target=target)).collect()
    return Written(
        [path for each in done for path in each.paths],
        [found for each in done for found in each.ranges],
        {},
    )


def write_ranges(ranges: Iterable[PartitionRange], target: FileTarget) -> Written:
    """Write the rows of some ranges, as one task."""
    files = HourFiles(target)
    found: list[SourceRange] = []
    decode = None if target.decoded is None else target.decoded.decoder()
    for wanted in ranges:
        for records in read_range(wanted, record_rows, target.fetch_bytes_max):
            rows = records if decode is None else decode(records)
            if rows.num_rows:
                files.add(wanted.origin.datacenter, rows)
                found.append(source_range(wanted, rows))
    return Written(files.close(), found, {})


class HourFiles:
    """The files of a task: one for each datacenter and hour."""

    def __init__(self, target: FileTarget) -> None:
        self._target = target
        self._io = load_file_io(dict(target.io_properties), target.folder)
        self._files: OpenFiles[_Key] = OpenFiles(self._create)

    def add(self, datacenter: str | None, rows: pa.RecordBatch) -> None:
        """Add rows of one datacenter."""
        for hour, part in _by_hour(rows, self._target.time):
            self._files.add((datacenter, hour), part)

    def close(self) -> list[str]:
        """Close all files; return their paths."""
        return [each.path for each in self._files.close()]

    def _create(self, key: _Key) -> NewFile:
        path = f"{self._target.folder}/{uuid.uuid4()}.parquet"
        return NewFile(path, self._io.new_output(path).create(), self._target.schema)


def _by_hour(rows: pa.RecordBatch, time: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    hours = rows.column(time).view(pa.int64()).to_numpy() // _US_PER_HOUR
    distinct = np.unique(hours)
    if len(distinct) == 1:
        yield int(distinct[0]), rows
        return
    for hour in distinct:
        yield int(hour), rows.filter(pa.array(hours == hour))


def source_range(wanted: PartitionRange, rows: pa.RecordBatch) -> SourceRange:
    """Return the source offsets of some rows of one partition."""
    found = pc.min_max(rows.column("offset")).as_py()
    first, last = found["min"], found["max"]
    return SourceRange(
        datacenter=wanted.origin.datacenter,
        topic=wanted.origin.topic,
        partition=wanted.partition,
        first=first,
        end=None if last is None else last + 1,
        records=rows.num_rows,
    )
