"""The Spark job of a batch: fold, shuffle by bucket, rewrite the touched buckets. Shell.

    ranges -> latest records of a task -> shuffle by bucket -> bucket's old file + changes -> file

Guarantees: as for `file_writing`, the driver commits the files of successful attempts only. A
bucket has one file. The commit names the files that were merged, so it fails on any other table.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyspark.sql import SparkSession

from spark_global.iceberg.file_writing import NOTHING_WRITTEN, Written, source_range
from spark_global.iceberg.upserts.folding import fold, merge
from spark_global.iceberg.upserts.keys import (
    BUCKET,
    IS_DELETED,
    WRITTEN_AT,
    KeylessRecordError,
    Upsert,
    buckets_of,
)
from spark_global.kept.open_files import BUFFERED_BYTES_MAX, COMPRESSION
from spark_global.kept.said import SourceRange
from spark_global.source.reading import read_range
from spark_global.source.rows import record_rows
from spark_global.source.splits import PartitionRange

_RANGES: Final = -1
"""The key under which tasks report source ranges; buckets begin at 0."""
_Piece = tuple[int, bytes | SourceRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertTarget:
    """The table that a batch changes, as tasks need it."""

    metadata: TableMetadata
    io: FileIO
    files: Mapping[int, FileScanTask]
    """The file of each bucket."""
    upsert: Upsert
    fetch_bytes_max: int
    written_at_us: int
    forget_before_us: int

    @property
    def schema(self) -> pa.Schema:
        return schema_to_pyarrow(self.metadata.schema())


def write_upserts(
    session: SparkSession, tasks: Sequence[Sequence[PartitionRange]], target: UpsertTarget
) -> Written:
    """Write the touched buckets anew; raises what Spark raises if a task fails."""
    if not tasks:
        return NOTHING_WRITTEN
    context = session.sparkContext
    folded = context.parallelize(tasks, len(tasks)).flatMap(
        functools.partial(fold_ranges, target=target)
    )
    width = min(target.upsert.buckets, max(len(tasks), context.defaultParallelism)) + 1
    done = folded.groupByKey(width).map(functools.partial(_finish, target=target)).collect()
    return Written(
        [path for each in done for path in each.paths],
        [found for each in done for found in each.ranges],
        {bucket: path for each in done for bucket, path in each.replaced.items()},
    )


def fold_ranges(ranges: Iterable[PartitionRange], target: UpsertTarget) -> Iterator[_Piece]:
    """Yield the latest records of some ranges, as Arrow streams by bucket, as one task."""
    waiting: list[pa.Table] = []
    waiting_bytes = 0
    for wanted in ranges:
        for rows in read_range(wanted, record_rows, target.fetch_bytes_max):
            if not rows.num_rows:
                continue
            _check_keys(wanted, rows)
            yield _RANGES, source_range(wanted, rows)
            waiting.append(pa.Table.from_batches([rows]))
            waiting_bytes += rows.get_total_buffer_size()
            if waiting_bytes >= BUFFERED_BYTES_MAX:
                yield from _pieces(waiting, target.upsert)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield from _pieces(waiting, target.upsert)


def rewrite_bucket(bucket: int, pieces: Iterable[bytes], target: UpsertTarget) -> Written:
    """Write the file of one bucket with the changes of a batch."""
    tables = [pa.ipc.open_stream(piece).read_all() for piece in pieces]
    changes = _as_rows(fold(pa.concat_tables(tables), target.upsert.by), bucket, target)
    old = target.files.get(bucket)
    folder = load_location_provider(target.metadata.location, target.metadata.properties).data_path
    path = f"{folder}/{uuid.uuid4()}.parquet"
    with (
        target.io.new_output(path).create() as sink,
        pq.ParquetWriter(sink, target.schema, compression=COMPRESSION) as writer,
    ):
        parts = merge(_old_rows(old, target), changes, target.upsert.by, target.forget_before_us)
        for part in parts:
            if part.num_rows:
                writer.write_table(part, row_group_size=part.num_rows)
    return Written([path], [], {bucket: None if old is None else old.file.file_path})


def _finish(found: tuple[int, Iterable[bytes | SourceRange]], target: UpsertTarget) -> Written:
    key, pieces = found
    if key == _RANGES:
        return Written([], [each for each in pieces if isinstance(each, SourceRange)], {})
    return rewrite_bucket(key, [each for each in pieces if isinstance(each, bytes)], target)


def _check_keys(wanted: PartitionRange, rows: pa.RecordBatch) -> None:
    missing = rows.column("key").is_null()
    if rows.column("key").null_count:
        offset = rows.column("aggregate_offset").filter(missing)[0]
        raise KeylessRecordError(
            f"{wanted.aggregate_topic}-{wanted.partition}: the record at offset {offset} has no "
            "key, so it is no change of a key; keep this topic without --upsert"
        )


def _pieces(waiting: Sequence[pa.Table], upsert: Upsert) -> Iterator[_Piece]:
    rows = fold(pa.concat_tables(waiting), upsert.by)
    buckets = buckets_of(rows["key"], upsert.buckets)
    for bucket in sorted(set(buckets.tolist())):
        sink = pa.BufferOutputStream()
        part = rows.filter(pa.array(buckets == bucket))
        with pa.ipc.new_stream(sink, part.schema) as stream:
            stream.write_table(part)
        yield bucket, sink.getvalue().to_pybytes()


def _as_rows(records: pa.Table, bucket: int, target: UpsertTarget) -> pa.Table:
    """Return records in the columns of the table; those that others added are null."""
    count = records.num_rows
    more = {
        BUCKET: pa.repeat(pa.scalar(bucket, pa.int32()), count),
        IS_DELETED: records["value"].is_null(),
        WRITTEN_AT: pa.repeat(pa.scalar(target.written_at_us, pa.int64()), count),
    }
    columns = []
    for field in target.schema:
        if field.name in more:
            column = more[field.name]
        elif field.name in records.column_names:
            column = records[field.name]
        else:
            column = pa.nulls(count, field.type)
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=target.schema)


def _old_rows(old: FileScanTask | None, target: UpsertTarget) -> Iterator[pa.Table]:
    """Yield the rows of a file in parts of bounded size."""
    if old is None:
        return
    scan = ArrowScan(target.metadata, target.io, target.metadata.schema(), AlwaysTrue())
    waiting: list[pa.RecordBatch] = []
    for batch in scan.to_record_batches([FileScanTask(old.file)]):
        waiting.append(batch)
        if sum(each.nbytes for each in waiting) >= BUFFERED_BYTES_MAX:
            yield _table(waiting, target.schema)
            waiting = []
    if waiting:
        yield _table(waiting, target.schema)


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).select(schema.names).cast(schema)
