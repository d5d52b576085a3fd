"""Stages a batch as one snapshot of a table. Nothing is committed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import FileScanTask, Table, Transaction

from spark_global.iceberg.replacing import replace_files
from spark_global.iceberg.table_state import QueryState, SnapshotKind, TableState
from spark_global.kept.said import SourceRange, Through
from spark_global.streaming.positions import StreamPositions


class TableRefusedError(ValueError):
    """The table is not one to write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one commit adds."""

    start: StreamPositions
    end: StreamPositions
    paths: Sequence[str] = ()
    """The Parquet files with its rows."""
    ranges: Sequence[SourceRange] = ()
    replaced: Mapping[int, str | None] = field(default_factory=dict)
    """By rewritten bucket the file that it had; empty if rows are only added."""
    complete: Mapping[str, Through]
    """New times by datacenter; a datacenter that is absent keeps its own."""
    query: QueryState | None = None
    """The batch of a query, for a table that has its batches."""
    is_move: bool = False
    """It adds nothing: `end` says in another aggregate what `start` says."""

    @property
    def kind(self) -> SnapshotKind:
        if self.is_move:
            return SnapshotKind.MOVE
        is_empty = self.start == self.end and not self.paths
        return SnapshotKind.STATE if is_empty else SnapshotKind.BATCH


def stage(
    transaction: Transaction, after: TableState, says: dict[str, str], paths: Sequence[str] = ()
) -> Transaction:
    """Stage files and the state after them as one snapshot; nothing is committed yet."""
    transaction.set_properties(after.properties())
    # Names of files are unique, so the whole table need not be searched for them.
    transaction.add_files(list(paths), snapshot_properties=says, check_duplicate_files=False)
    return transaction


def stage_rewrite(
    table: Table, after: TableState, says: dict[str, str], batch: Batch
) -> Transaction:
    """Stage buckets that were rewritten, and the state after them, as one snapshot.

    Raises TableRefusedError if a bucket has another file than the one that was merged.
    """
    live = files_of_buckets(table)
    transaction = table.transaction()
    transaction.set_properties(after.properties())
    with replace_files(transaction, says) as snapshot:
        for bucket, path in batch.replaced.items():
            old = live.get(bucket)
            if (None if old is None else old.file.file_path) != path:
                raise TableRefusedError(
                    f"table {_name(table)}: bucket {bucket} changed beside its writer; start the "
                    "command again"
                )
            if old is not None:
                snapshot.delete_data_file(old.file)
        for path in batch.paths:
            snapshot.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))
    return transaction


def files_of_buckets(table: Table) -> dict[int, FileScanTask]:
    """Return the file of each bucket. Raises TableRefusedError if others added files."""
    found: dict[int, FileScanTask] = {}
    for task in table.scan().plan_files():
        bucket = task.file.partition[0]
        if bucket in found or task.delete_files:
            raise TableRefusedError(
                f"table {_name(table)}: bucket {bucket} has files or deletes of another program"
            )
        found[bucket] = task
    return found


def _name(table: Table) -> str:
    return ".".join(table.name())
