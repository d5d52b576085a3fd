"""Takes a table over, and commits batches to it. Shell over `deciding.py`.

Guarantees: a batch is in the table once, whatever happens to this writer, to its answers, or to the
catalogue. A writer that was replaced cannot commit, however late it wakes up.

Iceberg refuses a commit if the main branch has another snapshot than the base of the commit. It
compares no properties. So each change of the state makes a snapshot, a takeover too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table, Transaction
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from spark_global.iceberg.catalogues import UNREACHABLE
from spark_global.iceberg.deciding import Verdict, decide_commit
from spark_global.iceberg.layout import NO_RETRIES, PARTITIONS, RETRIES, SCHEMA, SETTINGS
from spark_global.iceberg.table_state import (
    POSITIONS_HASH,
    SnapshotKind,
    SourceRange,
    TableState,
    TableStateError,
    Through,
    Writer,
    positions_hash,
    snapshot_properties,
)
from spark_global.streaming.positions import StreamPositions

CATALOGUE_SECONDS_MAX: Final = 300.0
"""Seconds that a commit waits for a catalogue that does not answer, before the job fails."""
CATALOGUE_WAIT_SECONDS_MAX: Final = 2.0


class WriterReplacedError(RuntimeError):
    """Another writer has taken the table over."""


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
    complete: Mapping[str, Through]
    """New times by datacenter; a datacenter that is absent keeps its own."""


class TableWriter:
    """Commits the batches of one table. One call at a time."""

    def __init__(self, catalogue: Catalog, identifier: tuple[str, ...], view: str) -> None:
        self._catalogue = catalogue
        self._identifier = identifier
        self._view = view
        self._writer: Writer | None = None
        self._table: Table | None = None
        self._is_stale = True

    @property
    def name(self) -> str:
        return ".".join(self._identifier)

    @property
    def table(self) -> Table:
        """The table as of the last commit or reload of this writer."""
        assert self._table is not None, "take_over comes first"
        return self._table

    @property
    def state(self) -> TableState:
        """What `table` says about itself."""
        return TableState.decode(self.table.properties)

    def take_over(self) -> TableState:
        """Take the next epoch by a commit, and return the state to go on from.

        The table is created if it does not exist, and gets the columns that it lacks. Raises
        TableRefusedError, and `UNREACHABLE` if the catalogue does not answer.
        """
        run_id = uuid.uuid4().hex
        for attempt in _patiently():
            with attempt:
                self._take_over(run_id)
        return self.state

    def commit(self, batch: Batch) -> TableState:
        """Commit a batch, or find that it is committed; return the table's state after it.

        Raises WriterReplacedError, TableRefusedError, and `UNREACHABLE` if the catalogue does not
        answer. Then it is unknown whether the batch is in the table; the next writer finds out.
        """
        for attempt in _patiently():
            with attempt:
                self._commit(batch)
        return self.state

    def _take_over(self, run_id: str) -> None:
        self._table = table = self._open()
        base = check_table(table, self._view)
        if base.writer is not None and base.writer.run_id == run_id:
            self._writer, self._is_stale = base.writer, False  # the answer was lost
            return
        epoch = 0 if base.writer is None else base.writer.epoch
        after = replace(base, writer=Writer(epoch + 1, run_id))
        transaction = table.transaction()
        with transaction.update_schema() as columns:
            columns.union_by_name(SCHEMA)
        stage(transaction, after, snapshot_properties(after, SnapshotKind.TAKEOVER))
        self._table = transaction.commit_transaction()
        self._writer, self._is_stale = after.writer, False

    def _commit(self, batch: Batch) -> None:
        assert self._writer is not None, "take_over comes first"
        if self._is_stale:
            self._table = self._catalogue.load_table(self._identifier)
            self._is_stale = False
        # The decision and the transaction have the same base: this object is not refreshed between.
        table = self.table
        base = check_table(table, self._view)
        match decide_commit(base, self._writer, batch.start, batch.end):
            case Verdict.REPLACED:
                raise WriterReplacedError(
                    f"table {self.name}: another writer has taken it over (epoch "
                    f"{'none' if base.writer is None else base.writer.epoch}; this one has "
                    f"{self._writer.epoch}); this writer stops, and nothing is lost"
                )
            case Verdict.MOVED:
                raise TableRefusedError(
                    f"table {self.name}: its positions changed beside its writer; "
                    "start the command again to go on from where the table is"
                )
            case Verdict.DONE:
                return
            case Verdict.COMMIT:
                after = replace(base, positions=batch.end).with_complete(batch.complete)
                kind = SnapshotKind.STATE if batch.start == batch.end else SnapshotKind.BATCH
                says = snapshot_properties(after, kind, batch.start, batch.ranges)
                self._is_stale = True  # unless the commit succeeds
                transaction = stage(table.transaction(), after, says, batch.paths)
                self._table = transaction.commit_transaction()
                self._is_stale = False

    def _open(self) -> Table:
        try:
            return self._catalogue.load_table(self._identifier)
        except NoSuchTableError:
            pass
        new = TableState(view=self._view, complete={})
        try:
            self._catalogue.create_namespace_if_not_exists(self._identifier[:-1])
            return self._catalogue.create_table(
                self._identifier,
                schema=SCHEMA,
                partition_spec=PARTITIONS,
                properties=SETTINGS | new.properties(),
            )
        except (NamespaceAlreadyExistsError, TableAlreadyExistsError):
            return self._catalogue.load_table(self._identifier)


def stage(
    transaction: Transaction, after: TableState, says: dict[str, str], paths: Sequence[str] = ()
) -> Transaction:
    """Stage files and the state after them as one snapshot; nothing is committed yet."""
    transaction.set_properties(after.properties())
    # Names of files are unique, so the whole table need not be searched for them.
    transaction.add_files(list(paths), snapshot_properties=says, check_duplicate_files=False)
    return transaction


def check_table(table: Table, view: str | None = None) -> TableState:
    """Return the state of a table that may be written to. Raises TableRefusedError."""
    name = ".".join(table.name())
    try:
        state = TableState.decode(table.properties)
    except TableStateError as error:
        raise TableRefusedError(f"table {name}: {error}") from error
    if view is not None and state.view != view:
        raise TableRefusedError(f"table {name} keeps {state.view}, not {view}; give it a new name")
    if table.properties.get(RETRIES) != NO_RETRIES:
        raise TableRefusedError(
            f"table {name}: property {RETRIES} is {table.properties.get(RETRIES)!r}, and must be "
            f"{NO_RETRIES!r}: pyiceberg would rebase a commit of a writer that was replaced"
        )
    snapshot = table.current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary
    says = summary.get(POSITIONS_HASH)
    if says is not None and says != positions_hash(state.positions):
        raise TableRefusedError(
            f"table {name} was rolled back to a snapshot whose positions are not those of its "
            "properties; undo the rollback, or begin a new table"
        )
    return state


def _patiently() -> Retrying:
    """Repeat while the catalogue refuses a base that is not the newest, or does not answer."""
    return Retrying(
        stop=stop_after_delay(CATALOGUE_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=CATALOGUE_WAIT_SECONDS_MAX),
        retry=retry_if_exception_type((CommitFailedException, *UNREACHABLE)),
        reraise=True,
    )
