"""Creates a Delta table, and commits batches to it. Shell over `kept/batches.py`.

Guarantees: a batch is in the table once, whatever happens to this writer or to its answers. A
writer that was replaced cannot commit, however late it wakes up.

deltalake itself answers a conflict by a rebase on a version that nobody has checked. Its own check
of `txn` actions sees only commits after the version that it has loaded. So commits have no retries
here: a commit creates exactly the version after the one that was checked, or fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import Field
from deltalake.transaction import AddAction
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from spark_global.delta.columns import ColumnsRefusedError, missing_columns
from spark_global.delta.file_writing import WrittenFile
from spark_global.kept.batches import Batch, Held, Verdict, decide_commit
from spark_global.kept.said import COMPLETE_THROUGH, Through, decode_complete

VIEW: Final = "heliograph.view"
QUERY: Final = "heliograph.query"
"""Properties of the table: what it keeps, and Spark's id of the query that keeps it."""
POSITIONS_SUFFIX: Final = "/positions"
CONFLICT_SECONDS_MAX: Final = 300.0
"""Seconds that a commit gives way to commits of others, such as a compaction."""
CONFLICT_WAIT_SECONDS_MAX: Final = 2.0
HISTORY_MAX: Final = 1_000
_MS_PER_SECOND: Final = 1_000


class TableRefusedError(ValueError):
    """The table is not one to write to."""


class DeltaWriter:
    """Commits the batches of one query to one table. One call at a time."""

    def __init__(self, folder: Path, view: str, query_id: str) -> None:
        self._folder = folder
        self._view = view
        self._query_id = query_id
        self._table: DeltaTable | None = None

    @property
    def table(self) -> DeltaTable:
        """The table as of the last commit or check of this writer."""
        assert self._table is not None, "open comes first"
        return self._table

    def open(self, schema: str, partitions: Sequence[str]) -> None:
        """Create the table, or check it and add the columns that it lacks.

        Raises TableRefusedError and ColumnsRefusedError.
        """
        for attempt in _patiently():
            with attempt:
                self._table = self._open(schema, partitions)

    def is_done(self, batch: Batch) -> bool:
        """Return whether the table has a batch. Raises BatchRefusedError."""
        self.table.update_incremental()
        return decide_commit(self._held(), batch) is Verdict.DONE

    def commit(
        self, batch: Batch, files: Sequence[WrittenFile], time_column: str, says: Mapping[str, str]
    ) -> bool:
        """Commit a batch, or find that it is committed; return whether this call did it.

        `says` is metadata of the commit. Raises TableRefusedError and BatchRefusedError, and
        CommitFailedError if others commit all the time.
        """
        now_ms = round(time.time() * _MS_PER_SECOND)
        adds = [
            AddAction(
                path=each.path,
                size=each.size,
                partition_values=each.values,
                modification_time=now_ms,
                data_change=True,
                stats=each.statistics(time_column),
            )
            for each in files
        ]
        for attempt in _patiently():
            with attempt:
                if self.is_done(batch):
                    return False
                self._commit(batch.after, adds, says)
        self.table.update_incremental()
        return True

    def complete(self) -> dict[str, Through]:
        """Return until when the table is complete by its newest commit that says so."""
        return complete_of(self.table)

    def _commit(self, after: Held, adds: list[AddAction], says: Mapping[str, str]) -> None:
        # The version that `is_done` has checked: the object is not refreshed between.
        table = self.table
        check_table(table, self._view, self._query_id)
        properties = CommitProperties(
            custom_metadata=dict(says),
            max_commit_retries=0,
            app_transactions=[
                Transaction(self._query_id, after.batch),
                Transaction(self._query_id + POSITIONS_SUFFIX, after.positions_number),
            ],
        )
        table.create_write_transaction(
            list(adds),
            "append",
            table.schema(),
            table.metadata().partition_columns,
            commit_properties=properties,
        )

    def _held(self) -> Held | None:
        batch = self.table.transaction_version(self._query_id)
        number = self.table.transaction_version(self._query_id + POSITIONS_SUFFIX)
        return None if batch is None or number is None else Held(batch, number)

    def _open(self, schema: str, partitions: Sequence[str]) -> DeltaTable:
        if not DeltaTable.is_deltatable(str(self._folder)):
            return self._create(schema, partitions)
        table = DeltaTable(str(self._folder))
        check_table(table, self._view, self._query_id)
        if table.metadata().partition_columns != list(partitions):
            raise ColumnsRefusedError(
                f"the table is partitioned by {', '.join(table.metadata().partition_columns)}, not "
                f"by {', '.join(partitions)}; begin in a new PATH"
            )
        if missing := missing_columns(table.schema().to_json(), schema):
            table.alter.add_columns([Field.from_json(each) for each in missing])
            table = DeltaTable(str(self._folder))
        return table

    def _create(self, schema: str, partitions: Sequence[str]) -> DeltaTable:
        try:
            return DeltaTable.create(
                str(self._folder),
                Schema.from_json(schema),
                mode="error",
                partition_by=list(partitions),
                configuration={VIEW: self._view, QUERY: self._query_id},
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            if not DeltaTable.is_deltatable(str(self._folder)):
                raise
        table = DeltaTable(str(self._folder))  # another writer was faster
        check_table(table, self._view, self._query_id)
        return table


def check_table(table: DeltaTable, view: str | None = None, query_id: str | None = None) -> None:
    """Check that a table may be written to. Raises TableRefusedError."""
    held = table.metadata().configuration
    if VIEW not in held or QUERY not in held:
        raise TableRefusedError(
            f"it has no property {VIEW}, so Heliograph does not keep it; give another PATH"
        )
    if view is not None and held[VIEW] != view:
        raise TableRefusedError(f"it keeps {held[VIEW]}, not {view}; give another PATH")
    if query_id is not None and held[QUERY] != query_id:
        raise TableRefusedError(
            f"it is kept by query {held[QUERY]}, and the checkpoint is of query {query_id}: go on "
            "with the checkpoint of that query, or give another PATH, which begins again"
        )
    if held.get("delta.columnMapping.mode", "none") != "none":
        raise TableRefusedError("its columns are mapped to other names; give another PATH")


def complete_of(table: DeltaTable) -> dict[str, Through]:
    """Return until when a table is complete by its newest commit that says so."""
    for commit in table.history(HISTORY_MAX):
        if text := commit.get(COMPLETE_THROUGH):
            return decode_complete(text if isinstance(text, str) else json.dumps(text))
    return {}


def _patiently() -> Retrying:
    """Repeat while others commit first."""
    return Retrying(
        stop=stop_after_delay(CONFLICT_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=CONFLICT_WAIT_SECONDS_MAX),
        retry=retry_if_exception_type(CommitFailedError),
        reraise=True,
    )
