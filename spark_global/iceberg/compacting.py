"""Rewrites the small files of a table beside a running writer. Shell.

The old files leave the table in the commit that adds the new ones. That commit is based on a table
that has all of the old files. So each row is in the table once, at every moment. A batch of the
writer in between only adds files: the compaction checks its own again, and repeats its commit.

The state of the table is not touched. The snapshot repeats what it says.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyspark.sql import SparkSession
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from spark_global.iceberg.catalogues import UNREACHABLE
from spark_global.iceberg.replacing import replace_files
from spark_global.iceberg.table_state import SnapshotKind, snapshot_properties
from spark_global.iceberg.table_writer import check_table
from spark_global.kept.open_files import COMPRESSION
from spark_global.kept.small_files import FileSize, choose_groups

ATTEMPTS_MAX: Final = 20
"""Attempts to commit beside a writer that commits all the time."""
WAIT_SECONDS_MAX: Final = 2.0
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024


class Rewritten(NamedTuple):
    """Old files, and the file that has their rows."""

    old: tuple[str, ...]
    new: str


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did."""

    files_before: int
    files_after: int


def compact_table(
    session: SparkSession,
    catalogue: Catalog,
    identifier: tuple[str, ...],
    *,
    files_min: int,
    small_bytes: int,
) -> Compaction:
    """Rewrite the small files of a table once.

    Raises TableRefusedError, NoSuchTableError, CommitFailedException if the writer was faster each
    time, and `UNREACHABLE`.
    """
    table = catalogue.load_table(identifier)
    check_table(table)
    live = _live_files(table)
    groups = choose_groups(
        # A file with deletes by others stays as it is.
        [_size(each) for each in live.values() if not each.delete_files],
        files_min=files_min,
        small_bytes=small_bytes,
    )
    if not groups:
        return Compaction(0, 0)
    spread = session.sparkContext.parallelize(
        [tuple(live[path].file for path in group) for group in groups], len(groups)
    )
    rewrite = functools.partial(rewrite_files, metadata=table.metadata, io=table.io)
    done = spread.map(rewrite).collect()
    return commit_rewritten(catalogue, identifier, done)


def rewrite_files(files: Sequence[DataFile], metadata: TableMetadata, io: FileIO) -> Rewritten:
    """Write the rows of some files as one file, as one task."""
    folder = load_location_provider(metadata.location, metadata.properties).data_path
    schema = schema_to_pyarrow(metadata.schema())
    path = f"{folder}/{uuid.uuid4()}.parquet"
    scan = ArrowScan(metadata, io, metadata.schema(), AlwaysTrue())
    rows = 0
    with (
        io.new_output(path).create() as sink,
        pq.ParquetWriter(sink, schema, compression=COMPRESSION) as writer,
    ):
        buffered: list[pa.RecordBatch] = []
        for batch in scan.to_record_batches([FileScanTask(each) for each in files]):
            buffered.append(batch)
            rows += batch.num_rows
            if sum(each.nbytes for each in buffered) >= ROW_GROUP_BYTES:
                _flush(writer, buffered, schema)
        _flush(writer, buffered, schema)
    expected = sum(each.record_count for each in files)
    if rows != expected:
        raise AssertionError(f"{path} has {rows} rows, and the files before it have {expected}")
    return Rewritten(tuple(each.file_path for each in files), path)


def commit_rewritten(
    catalogue: Catalog, identifier: tuple[str, ...], done: Sequence[Rewritten]
) -> Compaction:
    """Replace old files by new ones; groups whose old files left the table meanwhile stay out."""
    attempts = Retrying(
        stop=stop_after_attempt(ATTEMPTS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=WAIT_SECONDS_MAX),
        retry=retry_if_exception_type((CommitFailedException, *UNREACHABLE)),
        reraise=True,
    )
    return attempts(_commit_once, catalogue, identifier, done, {})


def _commit_once(
    catalogue: Catalog,
    identifier: tuple[str, ...],
    done: Sequence[Rewritten],
    described: dict[str, DataFile],
) -> Compaction:
    """`described` has the new files by path; their footers are read by the first attempt only."""
    table = catalogue.load_table(identifier)
    state = check_table(table)
    live = _live_files(table)
    committed = [each for each in done if each.new in live]  # by an attempt without an answer
    wanted = [
        each
        for each in done
        if each.new not in live
        and all(path in live and not live[path].delete_files for path in each.old)
    ]
    if wanted:
        for each in wanted:
            if each.new not in described:
                found = parquet_file_to_data_file(table.io, table.metadata, each.new)
                described[each.new] = found
        transaction = table.transaction()
        says = snapshot_properties(state, SnapshotKind.COMPACTION)
        with replace_files(transaction, says) as snapshot:
            for each in wanted:
                for path in each.old:
                    snapshot.delete_data_file(live[path].file)
                snapshot.append_data_file(described[each.new])
        transaction.commit_transaction()
    replaced = [*committed, *wanted]
    return Compaction(sum(len(each.old) for each in replaced), len(replaced))


def _live_files(table: Table) -> dict[str, FileScanTask]:
    return {each.file.file_path: each for each in table.scan().plan_files()}


def _size(task: FileScanTask) -> FileSize:
    file = task.file
    partition = file.spec_id, *(file.partition[index] for index in range(len(file.partition)))
    return FileSize(file.file_path, partition, file.file_size_in_bytes)


def _flush(writer: pq.ParquetWriter, buffered: list[pa.RecordBatch], schema: pa.Schema) -> None:
    if buffered:
        rows = pa.Table.from_batches(buffered).select(schema.names)
        writer.write_table(rows.cast(schema), row_group_size=max(1, rows.num_rows))
        buffered.clear()
