"""The Parquet files of a batch, written by Spark's tasks. Shell.

Each file has rows of one datacenter and one hour. Delta keeps both in its log, so the files do not
have these columns. The folders are for people: readers ask the log.

Guarantees: the driver gets the files of the successful attempt of each task, and commits only them.
Those of a failed attempt belong to no version of the table.
"""

from __future__ import annotations

import functools
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_global.kept.open_files import NewFile, OpenFiles
from spark_global.kept.said import SourceRange

REPORT: Final = pa.schema([pa.field("report", pa.string())])
"""What a task reports: one JSON object."""
_PLACE: Final = ("datacenter", "topic", "partition")

_Values = tuple[str | None, ...]
"""The partition of the table: the values of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """Where tasks write files."""

    folder: str
    partitions: tuple[str, ...]
    """The columns by which the table is partitioned."""
    time: str
    """The column whose bounds the log has, for readers to skip files."""


class WrittenFile(NamedTuple):
    """A file that is whole."""

    path: str
    """Relative to the table."""
    values: dict[str, str | None]
    rows: int
    size: int
    bounds: tuple[str, str] | None
    """The least and the greatest time of its rows, perhaps more."""

    def statistics(self, time: str) -> str:
        """Return what the log says about the rows."""
        found: dict[str, Any] = {"numRecords": self.rows}
        if self.bounds is not None:
            found |= {"minValues": {time: self.bounds[0]}, "maxValues": {time: self.bounds[1]}}
            found["nullCount"] = {time: 0}
        return json.dumps(found)


class Written(NamedTuple):
    """What the tasks of a batch have written."""

    files: list[WrittenFile]
    ranges: list[SourceRange]


def write_batch(rows: DataFrame, target: FileTarget) -> Written:
    """Write the rows of a batch; raises what Spark raises if a task fails."""
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    write = functools.partial(write_rows, target=target)
    # Few tasks, as each of them writes files of its own.
    reports = rows.coalesce(tasks).mapInArrow(write, "report string").collect()
    found = Written([], [])
    for each in reports:
        report = json.loads(each["report"])
        found.files.extend(WrittenFile(*file) for file in report["files"])
        found.ranges.extend(SourceRange(*span) for span in report["ranges"])
    return found


def write_rows(batches: Iterable[pa.RecordBatch], target: FileTarget) -> Iterator[pa.RecordBatch]:
    """Write some rows as one task, and yield a row of `REPORT`."""
    schema: list[pa.Schema] = []
    files: OpenFiles[_Values] = OpenFiles(lambda values: _create(values, target, schema[0]))
    bounds: dict[_Values, tuple[str, str] | None] = {}
    ranges: list[SourceRange] = []
    for rows in batches:
        if not rows.num_rows:
            continue
        if not schema:
            kept = [each for each in rows.schema if each.name not in target.partitions]
            schema.append(pa.schema(kept))
        for values, part in _by_partition(rows, target.partitions):
            files.add(values, part)
            times = pc.min_max(part.column(target.time)).as_py()
            span = _text(times["min"]), _text(times["max"])
            before = bounds.get(values) or span
            bounds[values] = min(span[0], before[0]), max(span[1], before[1])
        ranges.extend(source_ranges(rows))
    done = [
        WrittenFile(
            str(Path(each.path).relative_to(target.folder)),
            dict(zip(target.partitions, each.key, strict=True)),
            each.rows,
            each.size,
            bounds[each.key],
        )
        for each in files.close()
    ]
    report = json.dumps({"files": done, "ranges": ranges})
    yield pa.RecordBatch.from_arrays([pa.array([report])], schema=REPORT)


def source_ranges(rows: pa.RecordBatch) -> list[SourceRange]:
    """Return the source offsets of some rows; nothing if they are not records."""
    if not {*_PLACE, "offset"} <= set(rows.schema.names):
        return []
    found = (
        pa.Table.from_batches([rows])
        .group_by(list(_PLACE))
        .aggregate([("offset", "min"), ("offset", "max"), ([], "count_all")])
    )
    return [
        SourceRange(
            datacenter=each["datacenter"],
            topic=each["topic"],
            partition=each["partition"],
            first=each["offset_min"],
            end=None if each["offset_max"] is None else each["offset_max"] + 1,
            records=each["count_all"],
        )
        for each in found.to_pylist()
    ]


def _create(values: _Values, target: FileTarget, schema: pa.Schema) -> NewFile:
    folder = Path(target.folder)
    for name, value in zip(target.partitions, values, strict=True):
        folder /= f"{name}={re.sub('[^A-Za-z0-9._-]', '_', value or 'null')}"
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder / f"{uuid.uuid4()}.parquet")
    return NewFile(path, pa.OSFile(path, "wb"), schema)


def _by_partition(
    rows: pa.RecordBatch, names: tuple[str, ...]
) -> Iterator[tuple[_Values, pa.RecordBatch]]:
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for name in names:
        coded = rows.column(name).dictionary_encode(null_encoding="encode")
        codes = codes * len(coded.dictionary) + coded.indices.to_numpy()
    for code in np.unique(codes):
        part = rows.filter(pa.array(codes == code))
        yield tuple(part.column(name)[0].as_py() for name in names), part


def _text(time: Any) -> str:
    """Return a time as the log has it; the texts are in the order of the times."""
    return f"{time:%Y-%m-%dT%H:%M:%S.%fZ}"
